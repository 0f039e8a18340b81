//! The client's side: one key per intent, kept until its outcome is known.
//!
//! [`Engine`] is a state machine without I/O, clock or chance: [`Engine::step`] takes the time and an [`Event`], and
//! gives back [`Action`]s. Everything is decided here: which intent a call belongs to, when its key is minted, what
//! has to be durable before what, when it is sent next, and what an answer proves ([`proof`]).
//!
//! # What an intent goes through
//!
//! | state | event | guard | becomes | and |
//! |---|---|---|---|---|
//! | – | submit | an equal one is unresolved, or ended within the last second | as it is | the call joins it |
//! | – | submit | its slot holds another payload that was never sent | queued | takes over the payload |
//! | – | submit | its slot holds another payload that may have been sent | queued | closes that one's key first; a conflict if it cannot be closed |
//! | – | submit | else | queued | durable before the call hears of it |
//! | queued, waiting, unknown | due | lock and lease are free, its account is signed in | sending | key, lease and number of the delivery are durable before the first byte |
//! | sending | no whole answer, or the page is gone | covered, or the application vouches for the server | waiting | same key again after a pause |
//! | sending | no whole answer, or the page is gone | else | waiting | the status route is asked first |
//! | sending | `fetch` was not called | first delivery | queued | never sent |
//! | sending | answer | ended | done, failed | durable before it is shown |
//! | sending | answer | refused, and it was the only delivery | failed | nothing happened |
//! | sending | answer | refused, and an earlier one may have arrived | unknown | |
//! | sending | answer | another payload | conflict | |
//! | sending | answer | closed | cancelled | |
//! | sending | answer | sign in | needs_auth | `refreshAuth` is asked once, then a person |
//! | sending | answer | other actor | needs_auth; the second time unknown | |
//! | sending | answer | key expired, provably nothing ran | waiting | a new key with the server's time |
//! | sending | answer | key expired, else | expired | |
//! | sending | answer | uncertain | unknown | the status route is asked from time to time |
//! | sending | answer | again | waiting | after a pause |
//! | sending | answer | no receipt where one is due | waiting; the third time stalled | the status route is asked first |
//! | sending | status answer | nothing stands in the way | waiting | delivered again at once |
//! | sending | status answer | whoever answers remembers no keys | unknown; stalled where receipts are due | |
//! | waiting | answer | the deadline has passed | stalled | only after a try that began later: clocks step |
//! | needs_auth | somebody signs in, resume | its account | waiting | same key |
//! | stalled, unknown, waiting | resume | | waiting | due now, with a new budget; unknown asks first, unless the risk is accepted |
//! | expired | resume | risk accepted | waiting | a new key: this may double |
//! | queued | cancel | | cancelled | |
//! | any unsettled | cancel | | waiting | no delivery any more; closes the key, then says what the server said |
//! | settled | dismiss, or a day after its outcome was taken | | – | erased |
//! | any | dismiss | risk accepted | – | erased |
//! | any of this account | sign out | settled, or discard | – | erased |
//!
//! # Keeping the order
//!
//! A write is asked for with the revision that it replaces. While one is under way, whatever else happens to the intent
//! waits for it; so there is one write at a time, and what may only come after it is asked for when it is done. A write
//! that lost to another tab makes the engine read the store, take over what is there, and look at the same event again
//! as if it had just happened. Where a store breaks, nothing is sent that is not durable; an answer that cannot be
//! kept is shown all the same, and kept as soon as the store is back.
//!
//! A delivery holds the intent's lock (of the shell) and its lease (in the record), from before the write that makes
//! it a delivery until after the one that says what it brought. A lease by somebody else is obeyed until it ends, but
//! where locks end with their page a free lock ends it at once.
//!
//! Where records vanish although nobody erased them, told by one that is never erased, the store was emptied behind the
//! page's back, and what is unresolved is written again. Dismissed intents leave an empty record for a day, so that no
//! tab that still knows them takes them for lost.
//!
//! # The border
//!
//! The shell performs actions and reports events; no status, code or header has a meaning there. For the glue:
//!
//! * Events and actions are made of texts, bytes, numbers, flags and pairs of texts: each variant fits one call or one
//!   small array. [`Config`] is built once.
//! * [`Engine::step`] is called for each event with the wall clock, and the actions are begun in their order before the
//!   next event. It never blocks, and no event has to be told at a certain time.
//! * At the start the shell calls `account()` and tells [`Event::Account`]; the first step asks for [`Action::Read`].
//!   After `signOut` nobody is signed in until it tells it again; [`Action::WhoIsIt`] asks where something waits for
//!   that.
//! * Promises are numbers: the shell picks `call`, keeps the two functions of the promise, and settles it by
//!   [`Action::Accepted`], [`Action::Resolved`], [`Action::Done`] or [`Action::Rejected`], one for each call. A call
//!   that was [`Event::Aborted`] may still be named by one of them, to which nobody listens then.
//! * Views come as JSON ([`View::to_json`]), which the shell parses and freezes, and the body of the response as bytes
//!   beside. [`Action::Changed`] says whose view to replace, [`Action::Gone`] whose to drop. [`Engine::ids`] gives the
//!   outbox in its order: what belongs to the account that is signed in.
//! * Whether `fetch` makes an intent of a request is asked before its body is read: [`Engine::covers`].
//! * Bodies are bytes by then; their content type, a boundary included, stands in the headers. Names of an answer's
//!   headers are in lower case, as `Headers` gives them.
//! * [`Action::Release`] ends a lock before a [`Action::Prepare`] behind it asks for the same one, or that one waits
//!   for nothing. Exchanges without an intent need neither lock nor headers.
//! * [`Action::Write`] comes once more than there are intents: the record that is never erased is one like the others.
//! * The seed is 32 bytes of `getRandomValues`, drawn for each engine: keys come of it.
//! * One engine for each page or worker. When a page becomes visible, comes back from the cache, or its connection to
//!   the store was reopened, [`Event::Tick`] is all it needs.

pub mod action;
mod address;
mod calls;
mod chance;
mod codec;
pub mod config;
mod date;
mod deliver;
mod engine;
pub mod event;
mod heard;
mod held;
pub mod proof;
mod record;
mod run;
mod schedule;
mod servers;
mod state;
mod store;
mod submit;
mod view;

pub use action::{Action, Rejection, Request, Turn};
pub use config::{Config, Duplicates, Operation, RequestId, Retry, Trust};
pub use engine::Engine;
pub use event::{Answer, Event, Failure, NotPrepared, Submit, Until, Written};
pub use record::{Millis, Response, StoredRecord};
pub use state::{Effect, State, View, WaitingFor};
