//! An actor that the application names: it is asked with the caller's own credentials who that is.
//!
//! An answer is believed for a short while under a keyed hash of the very headers it was asked with, so that
//! nobody else's request can meet it. Requests that come at once with the same credentials ask once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue};
use http::request::Parts;
use samekey_core::Actor;
use samekey_core::problem::Code;
use tokio::sync::watch;
use tokio::time::Instant;

use super::id;
use crate::problem::Problem;
use crate::store::Store;

/// How long somebody is believed to be signed in.
const BELIEVED: Duration = Duration::from_secs(10);
/// How long nobody is: who just signed in must not wait.
const NOBODY_BELIEVED: Duration = Duration::from_secs(1);
/// Answers that are remembered; a few MiB. Beyond it everybody is asked about.
const MAX_REMEMBERED: usize = 10_000;
/// Questions under way at once, so that a slow application is not asked to death.
const MAX_ASKING: usize = 256;
/// How often what is no longer believed is cleared away, when the memory is full.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// What the application answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its body, whole.
    pub(crate) body: Bytes,
}

/// Asks the application with these headers; an error says in words for the log why there is no answer.
pub(crate) type Ask = dyn Fn(HeaderMap) -> BoxFuture<'static, Result<Answered, String>> + Send + Sync;

/// Asks, and remembers.
pub(crate) struct Whoami {
    asked: Asked,
    cache: Arc<Mutex<Cache>>,
}

/// Whom to ask, and where the answer names somebody.
#[derive(Clone)]
struct Asked {
    ask: Arc<Ask>,
    pointer: Arc<str>,
}

/// `Err`: nobody can say now.
type Said = Result<Option<Actor>, ()>;

#[derive(Debug)]
enum Slot {
    Asking(watch::Receiver<Option<Said>>),
    Said { actor: Option<Actor>, until: Instant },
}

#[derive(Debug)]
struct Cache {
    slots: HashMap<[u8; 32], Slot>,
    asking: usize,
    swept: Instant,
}

impl Whoami {
    /// `pointer` (RFC 6901) is where the answer's JSON names who asks.
    pub(crate) fn new(pointer: &str, ask: Arc<Ask>) -> Self {
        let cache = Cache { slots: HashMap::new(), asking: 0, swept: Instant::now() };
        Self { asked: Asked { ask, pointer: pointer.into() }, cache: Arc::new(Mutex::new(cache)) }
    }

    pub(super) fn pointer(&self) -> &str {
        &self.asked.pointer
    }

    pub(super) fn help(&self) -> String {
        format!(
            "a keyed request came without Authorization and Cookie, or the application does not know who sends them: \
             it answered whoami by 401, 403 or 404, or by JSON without a string or an integer at {}",
            self.pointer()
        )
    }

    pub(super) async fn find(&self, parts: &Parts, store: &Store) -> Result<Option<Actor>, Problem> {
        let headers = credentials(&parts.headers)?;
        if headers.is_empty() {
            return Ok(None);
        }
        let part = |name| headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
        let hash = store.keyed_hash("whoami", &[part(AUTHORIZATION), part(COOKIE)]);
        self.who(hash, headers).await
    }

    async fn who(&self, hash: [u8; 32], headers: HeaderMap) -> Result<Option<Actor>, Problem> {
        let mut hears = match lock(&self.cache).look(hash, Instant::now())? {
            Look::Said(actor) => return Ok(actor),
            Look::Join(hears) => hears,
            Look::Ask(says) => {
                let hears = says.subscribe();
                // Its own task: whoever asked first may hang up, the others still want to know.
                tokio::spawn(ask(self.asked.clone(), headers, hash, Arc::clone(&self.cache), says));
                hears
            }
        };
        let said = match hears.wait_for(Option::is_some).await {
            Ok(said) => said.clone().unwrap_or(Err(())),
            Err(_) => Err(()),
        };
        said.map_err(|()| {
            let why = "The application did not say who asks. Nothing was run; send the same request again.";
            Problem::new(Code::StoreUnavailable, why).retry_after(Duration::from_secs(1))
        })
    }
}

fn lock(cache: &Mutex<Cache>) -> MutexGuard<'_, Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the cache says of a question.
enum Look {
    Said(Option<Actor>),
    Join(watch::Receiver<Option<Said>>),
    Ask(watch::Sender<Option<Said>>),
}

impl Cache {
    fn look(&mut self, hash: [u8; 32], now: Instant) -> Result<Look, Problem> {
        match self.slots.get(&hash) {
            Some(Slot::Said { actor, until }) if now < *until => return Ok(Look::Said(actor.clone())),
            Some(Slot::Asking(hears)) => return Ok(Look::Join(hears.clone())),
            _ => {}
        }
        if self.asking >= MAX_ASKING {
            let why = "The application is asked about too many callers at once. Nothing was run.";
            return Err(Problem::new(Code::Overloaded, why).retry_after(Duration::from_secs(1)));
        }
        let says = watch::Sender::new(None);
        self.slots.insert(hash, Slot::Asking(says.subscribe()));
        self.asking += 1;
        Ok(Look::Ask(says))
    }

    /// Failures are not remembered. Nobodies fill half of the memory at most: made-up credentials cost nothing, and
    /// must not crowd out those who are signed in.
    fn keep(&mut self, hash: [u8; 32], said: &Said, asked: Instant, now: Instant) {
        self.asking -= 1;
        self.slots.remove(&hash);
        let Ok(actor) = said else { return };
        let (believed, room) = match actor {
            Some(_) => (BELIEVED, MAX_REMEMBERED),
            None => (NOBODY_BELIEVED, MAX_REMEMBERED / 2),
        };
        if self.slots.len() >= room && now.duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.slots.retain(|_, slot| !matches!(slot, Slot::Said { until, .. } if *until <= now));
        }
        if self.slots.len() < room {
            self.slots.insert(hash, Slot::Said { actor: actor.clone(), until: asked + believed });
        }
    }
}

async fn ask(
    asked: Asked,
    headers: HeaderMap,
    hash: [u8; 32],
    cache: Arc<Mutex<Cache>>,
    says: watch::Sender<Option<Said>>,
) {
    /// A question that ends without an answer, also by a panic, must not be waited for for ever.
    struct Keep<'a>(&'a Mutex<Cache>, [u8; 32], Instant, Said);
    impl Drop for Keep<'_> {
        fn drop(&mut self) {
            lock(self.0).keep(self.1, &self.3, self.2, Instant::now());
        }
    }
    let mut keep = Keep(&cache, hash, Instant::now(), Err(()));
    keep.3 = meaning((asked.ask)(headers).await, &asked.pointer);
    let said = keep.3.clone();
    drop(keep);
    says.send_replace(Some(said));
}

/// What the application's answer says of the caller.
fn meaning(answered: Result<Answered, String>, pointer: &str) -> Said {
    let why = match answered {
        Ok(Answered { status: StatusCode::OK, body }) => match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(document) => {
                return Ok(document.pointer(pointer).and_then(id::text).and_then(|id| id::actor(&id)));
            }
            Err(_) => "it answered 200 with something that is no JSON".to_owned(),
        },
        Ok(Answered { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND, .. }) => {
            return Ok(None);
        }
        Ok(Answered { status, .. }) if status.is_redirection() => {
            format!("it answered {status}, a redirect, which is not followed; it should answer 401 to strangers")
        }
        Ok(Answered { status, .. }) => format!("it answered {status}"),
        Err(why) => why,
    };
    tracing::warn!(event = "whoami_failed", why, "the application could not say who asks; the request was refused");
    Err(())
}

/// The headers that sign somebody in, and no others. Cookies may be split over lines (RFC 9113, section 8.2.3).
fn credentials(headers: &HeaderMap) -> Result<HeaderMap, Problem> {
    let mut passed = HeaderMap::new();
    if let Some(authorization) = id::only_line(headers, &AUTHORIZATION)? {
        passed.insert(AUTHORIZATION, authorization.clone());
    }
    let cookies: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    let cookie = cookies.join(&b"; "[..]);
    if !cookie.trim_ascii().is_empty()
        && let Ok(cookie) = HeaderValue::from_bytes(&cookie)
    {
        passed.insert(COOKIE, cookie);
    }
    Ok(passed)
}

#[cfg(test)]
mod tests;
