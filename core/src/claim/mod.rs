//! The record's state machine: which delivery runs, what every other one hears, who may write what.
//!
//! Rows are tried in this order, the first match holds. [`decide::deliver`] holds the rows of deliveries,
//! [`decide::close`] those of closing, [`transition()`] all others. The stores do nothing but load a record,
//! ask here, and write what comes back if the record still has the revision that was asked about.
//!
//! | # | state | event | guard | new state | caller hears |
//! |---|---|---|---|---|---|
//! | D1 | expired, ended closed | deliver | – | – | `key_closed` |
//! | D2 | any other record | deliver | fingerprint differs | – | `key_payload_mismatch` |
//! | D3 | none | deliver | fence, quota, overload | – | 409 / 429 / 503, nothing claimed |
//! | D4 | none | deliver | key time ≤ forgotten_before | – | `key_expired` |
//! | D5 | none | deliver | at or before the horizon (†) | uncertain (restore, †) | `outcome_uncertain` |
//! | D6 | none | deliver | else | in_progress (1, new holder) | (runs) |
//! | D7 | in_progress | deliver | not lapsed, same holder | – | the same claim |
//! | D8 | in_progress | deliver | not lapsed | – | waits, then `operation_in_progress` |
//! | D9 | in_progress | deliver | lapsed | as T1, T2 | then by the new state |
//! | D10 | completed, failed | deliver | now < expires_at, response at hand | – | replay |
//! | D11 | completed, failed, expired | deliver | else | – | `response_not_stored` |
//! | D12 | uncertain | deliver | rerun, now ≥ settle_after, no open effects | in_progress (n+1, took_over) | (runs) |
//! | D13 | uncertain | deliver | else | – | `outcome_uncertain` |
//! | D14 | released | deliver | now < not_before | – | `operation_released` |
//! | D15 | released | deliver | else | in_progress (n+1) | (runs) |
//! | S1 | in_progress | start | mine, now < lease_until, now < deadline | – | go |
//! | S2 | in_progress | renew | mine, now < deadline | lease_until moves | ok |
//! | F1 | in_progress, uncertain, released | finish terminal | mine, and not failed with open effects | completed / failed | stored answer |
//! | F2 | in_progress, uncertain | finish released | mine, no open effects, not took_over | released | handler's answer |
//! | F3 | in_progress, uncertain | finish released, or failed with open effects | mine, else | uncertain (‡) | `outcome_uncertain` |
//! | F4 | released | finish released | mine | – | ok |
//! | F5 | in_progress, uncertain, released | finish uncertain | mine | uncertain (‡, settle_after kept if set) | `outcome_uncertain` |
//! | F6 | completed, failed, expired | finish terminal | mine, same class, status and result id | – | ok |
//! | F7 | any other | start, renew, finish | – | – | `claim_stale` |
//! | T1 | in_progress, lapsed | tick | journaled, no effect started, not took_over | released | – |
//! | T2 | in_progress, lapsed | tick | else | uncertain (lapse, ‡) | – |
//! | P1 | uncertain | probe: done | policy probe, asked ≥ settle_after, revision | completed / failed (open effects: see below) | waiters replay |
//! | P2 | uncertain | probe: absent | the same, no open effects | released | – |
//! | P3 | uncertain | probe: anything else | – | – | – |
//! | O1 | uncertain | operator: completed, failed | revision; where this closes open effects, as O2 | completed / failed (open effects: see below) | – |
//! | O2 | uncertain | operator: released | revision, looked ≥ settle_after or forced | released, open effects closed as not applied | – |
//! | G1 | uncertain | give up | `give_up` passed since settle_after | failed, effect unknown, open effects stay open | – |
//! | C1 | none | close | not D3, D4, D5 | expired (closed) | closed |
//! | C2 | released | close | no effect row | expired (closed) | closed |
//! | C3 | any other | close | – | – (lapsed: as T1, T2, then by the new state) | what a delivery would hear |
//! | E1 | completed, failed | sweep | now ≥ expires_at | expired | – |
//! | E2 | expired, released | sweep | see [`transition::may_forget`] and [`Marks::forget_limit`] | none | – |
//! | H1 | in_progress, released, uncertain | horizon | – | uncertain (restore, †) | – |
//! | N1 | any other | tick, probe, operator, give up, sweep, horizon | – | – | the present state |
//!
//! Rows X and Y, of the effects that a handler calls, stand in [`effects`].
//!
//! *Mine*: attempt and holder match. *Lapsed*: lease or deadline passed, and [`judge::Judge`] says that this
//! process may judge. A lapsed lease says the holder is silent, not dead: what protects effects outside the
//! database is that a record is settled from outside only after `settle_after`, and only on what was seen then.
//!
//! **While an effect is open** nobody knows that nothing happened, so the record is neither released nor failed. The
//! holder's failure makes it uncertain (F3). Whoever finds out from outside that it failed (P1, O1) has found out that
//! nothing came of the open effects, and they are closed as not applied in the same write, as a release does (O2);
//! like a release this takes a look after `settle_after`, or force. A failure that says itself that its effect is
//! unknown (a 5xx from a probe or an operator, and G1) says nothing of the effects: they stay open, for whoever asks
//! later what is known. So do those under a success: it stands whatever became of them.
//!
//! **‡ What may be under way** of a claim that becomes uncertain (T1–T2, F3, F5) is over `probe_after` later; and, since
//! its holder may have asked for a timeout of its own, not before as much has passed since its deadline as `probe_after`
//! leaves after an ordinary one: `settle_after = max(now + probe_after, deadline + (probe_after - timeout))`. A claim
//! under the operation's own timeout was made a `timeout` before its deadline, so that the second moment is never after
//! the first; so whoever judges a claim need not know what its holder asked for.
//!
//! **† After a restore** the world goes on, and the store has lost a piece of its memory. Whatever the backup says of a
//! key that had not ended, a later attempt may have run it, may be running it still, and tells a store that does not
//! know it. So D5 and H1 make a new holder: *released* or *uncertain* was said of one attempt, perhaps not the last
//! one, and its late or repeated answer proves nothing any more. Even a late success is refused, which logs it as a
//! contradiction, for probe or operator to judge. And a claim made the moment before has its deadline a `timeout`
//! later and is dropped before `probe_after` more, so `settle_after` is the latest of
//! * `horizon + timeout + probe_after`, where the horizon of H1 is now;
//! * D5: now;
//! * H1: what it was, and `deadline + probe_after` of the claim that the backup knows.
//!
//! A key is at or before the horizon if its time is not after `horizon + clock_skew`: clocks of clients run ahead by
//! that much, so it may have run before. A key without a time is for as long as it is retried, until
//! `horizon + retry_budget`.
//!
//! What was forgotten stays forgotten (D4 before D5): the record is gone for good, so "uncertain" would be the way to
//! run again for a key of which somebody has heard how it ended. That is right because a mark that came with the
//! backup refused the key after the backup too, and the mark does not move before `horizon + remember`
//! ([`Marks::forget_limit`]): a client whose key ran and was lost cannot take `key_expired` for a proof that nothing
//! ran any more, its first byte left more than `remember` ago.

pub mod backoff;
pub mod decide;
pub mod effects;
pub mod judge;
pub mod passed;
mod record;
pub mod transition;

pub use decide::{Delivery, Gate, Say, Verdict, close, deliver};
pub use record::{Effects, Ended, Fence, Holder, Reason, Record, State};
pub use transition::{Event, Finish, Refused, Terminal, Write, transition};

use crate::policy::Policy;
use crate::time::Timestamp;

/// What the store's memory begins with, for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The newest key time that was ever forgotten: the greatest over the operation's name and aliases.
    pub forgotten_before: Timestamp,
    /// A backup was restored at this moment: absence proves nothing before it.
    pub horizon: Option<Timestamp>,
}

impl Marks {
    /// How far `forgotten_before` may move now, if it could move to `limit` but for a restore.
    #[must_use]
    pub fn forget_limit(&self, limit: Timestamp, context: &Context<'_>) -> Timestamp {
        let held = self.horizon.is_some_and(|horizon| context.now < horizon + context.policy.remember);
        if held { limit.min(self.forgotten_before) } else { limit }
    }
}

/// What every rule may look at besides record and event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The store's clock.
    pub now: Timestamp,
    /// The operation's contract.
    pub policy: &'a Policy,
    /// Whether this process may call a claim lapsed.
    pub may_judge: bool,
    /// A nonce that no claim had before, for rows that make a new holder.
    pub new_holder: Holder,
}

impl Context<'_> {
    /// From this moment on nothing is under way of a claim made at or before `then`: it is not renewed for longer
    /// than `timeout`, and its handler is dropped before `probe_after` has passed since.
    fn over(&self, then: Timestamp) -> Timestamp {
        then + self.policy.timeout + self.policy.probe_after()
    }

    /// From this moment on nothing is under way of a claim that is uncertain from now on (‡).
    fn over_for(&self, record: &Record) -> Timestamp {
        let probe_after = self.policy.probe_after();
        (self.now + probe_after).max(record.deadline + probe_after - self.policy.timeout)
    }
}

/// Lapsed, or about to be: what a tick of the recoverer looks at.
fn lapsed(record: &Record, context: &Context<'_>) -> bool {
    context.may_judge && (context.now >= record.lease_until || context.now >= record.deadline)
}

#[cfg(test)]
mod rows;
