//! Keys as clients mint them.

use std::time::{Duration, SystemTime};

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("random bytes");
    bytes
}

fn uuid(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A key without a time.
pub fn v4() -> String {
    uuid(random(), 4)
}

/// A key minted now.
pub fn v7() -> String {
    v7_at(SystemTime::now())
}

/// A key minted so long ago.
pub fn v7_aged(age: Duration) -> String {
    v7_at(SystemTime::now() - age)
}

fn v7_at(time: SystemTime) -> String {
    let ms = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    let ms = u64::try_from(ms).expect("milliseconds").to_be_bytes();
    let mut bytes = random();
    bytes[..6].copy_from_slice(&ms[2..]);
    uuid(bytes, 7)
}
