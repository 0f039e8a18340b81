//! Keys as requests carry them, and new ones.

use http::HeaderMap;
use samekey_core::Key;
use samekey_core::problem::Code;

use crate::clock::Clock;
use crate::names;
use crate::problem::Problem;

/// The key of a request, if it carries one.
///
/// ```
/// let mut headers = http::HeaderMap::new();
/// assert!(samekey::key::of(&headers)?.is_none());
/// headers.insert("idempotency-key", http::HeaderValue::from_static("\"order-17\""));
/// assert_eq!(samekey::key::of(&headers)?.unwrap().expose(), "order-17");
/// # Ok::<(), samekey::Problem>(())
/// ```
///
/// # Errors
/// `idempotency_key_invalid`, a response, where the header holds no key, or more than one.
pub fn of(headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let lines = headers.get_all(names::KEY).iter().map(http::HeaderValue::as_bytes);
    Key::parse_lines(lines).map_err(|error| Problem::new(Code::KeyInvalid, format!("Idempotency-Key: {error}.")))
}

/// A new key: a UUIDv7, which carries its time. Keep it until its command's outcome is known.
///
/// # Panics
/// If the system has no source of random bytes.
pub fn mint() -> Key {
    let mut entropy = [0; 10];
    crate::random(&mut entropy);
    Key::mint(Clock::system().now(), entropy)
}
