//! What is to go wrong next. Whoever shows the demo says it; the parts look when they get there.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// So much of what happened is shown.
const MOST_NOTES: usize = 30;

/// The switches, as they stand. The first three fall back once they have acted; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Set {
    /// The next command gets lost before it arrives.
    pub(super) lose_request: bool,
    /// The next command arrives, its answer gets lost.
    pub(super) lose_answer: bool,
    /// The provider applies the next notification, and dies before it answers.
    pub(super) provider_crash: bool,
    /// Every command arrives twice, at the same time.
    pub(super) duplicate: bool,
    /// The handler takes its time before it does anything.
    pub(super) slow: bool,
    /// The provider takes its time.
    pub(super) provider_slow: bool,
    /// The provider applies notifications and loses its answers.
    pub(super) provider_lose_answer: bool,
    /// The provider cannot be asked what became of a notification: only an operator can find out.
    pub(super) provider_mute: bool,
}

/// A change: what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    lose_request: Option<bool>,
    lose_answer: Option<bool>,
    provider_crash: Option<bool>,
    duplicate: Option<bool>,
    slow: Option<bool>,
    provider_slow: Option<bool>,
    provider_lose_answer: Option<bool>,
    provider_mute: Option<bool>,
}

/// Something that went wrong, for people.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Note {
    at: u64,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    state: Mutex<State>,
    restart: Notify,
}

#[derive(Debug, Default)]
struct State {
    set: Set,
    notes: VecDeque<Note>,
    signed_out: BTreeSet<String>,
}

impl Switches {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self) -> Set {
        self.state().set
    }

    pub(super) fn change(&self, change: Change) {
        let set = &mut self.state().set;
        for (switch, to) in [
            (&mut set.lose_request, change.lose_request),
            (&mut set.lose_answer, change.lose_answer),
            (&mut set.provider_crash, change.provider_crash),
            (&mut set.duplicate, change.duplicate),
            (&mut set.slow, change.slow),
            (&mut set.provider_slow, change.provider_slow),
            (&mut set.provider_lose_answer, change.provider_lose_answer),
            (&mut set.provider_mute, change.provider_mute),
        ] {
            *switch = to.unwrap_or(*switch);
        }
    }

    /// Acts once: says whether the switch was set, and puts it back.
    pub(super) fn take(&self, switch: impl FnOnce(&mut Set) -> &mut bool) -> bool {
        std::mem::take(switch(&mut self.state().set))
    }

    pub(super) fn note(&self, text: impl Into<String>) {
        let notes = &mut self.state().notes;
        if notes.len() == MOST_NOTES {
            notes.pop_front();
        }
        notes.push_back(Note { at: now(), text: text.into() });
    }

    pub(super) fn notes(&self) -> Vec<Note> {
        self.state().notes.iter().cloned().collect()
    }

    pub(super) fn restart(&self) {
        self.note("the server restarts: connections break");
        self.restart.notify_one();
    }

    pub(super) async fn restart_asked(&self) {
        self.restart.notified().await;
    }

    /// Ends somebody's session, or begins it again.
    pub(super) fn sign(&self, user: &str, signed_in: bool) {
        let signed_out = &mut self.state().signed_out;
        match signed_in {
            true => signed_out.remove(user),
            false => signed_out.insert(user.to_owned()),
        };
    }

    pub(super) fn is_signed_in(&self, user: &str) -> bool {
        !self.state().signed_out.contains(user)
    }
}

/// Unix milliseconds.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
