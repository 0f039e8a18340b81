//! Rows D1–D15 and C1–C3.

use super::*;

/// A key minted ten milliseconds ago, and a store that forgot long before.
const KEY_TIME: Timestamp = Timestamp::from_millis(NOW.as_millis() - 10);
const MARKS: Marks = Marks { forgotten_before: Timestamp::from_millis(NOW.as_millis() - 5_000), horizon: None };

fn delivery() -> Delivery {
    Delivery { fingerprint: bound(), key_time: Some(KEY_TIME), holder: ASKER, gate: Gate::Open, marks: MARKS }
}

fn refuse(code: Code) -> Verdict {
    says(Say::Refuse(code))
}

/// Nothing is written.
fn says(say: Say) -> Verdict {
    Verdict { write: None, say }
}

fn writes(record: Record, say: Say) -> Verdict {
    Verdict { write: Some(record), say }
}

/// What a claim made now begins with.
fn first_claim() -> Record {
    Record {
        fence: Fence { attempt: 1, holder: ASKER },
        revision: 1,
        lease_until: NOW + LEASE,
        deadline: NOW + TIMEOUT,
        created_at: NOW,
        ..in_progress()
    }
}

/// What the next claim on a known record begins with.
fn fourth_claim(took_over: bool) -> Record {
    let fence = Fence { attempt: 4, holder: ASKER };
    let (lease_until, deadline) = (NOW + LEASE, NOW + TIMEOUT);
    Record { fence, took_over, revision: 8, lease_until, deadline, ..in_progress() }
}

const FOURTH: Say = Say::Run(Fence { attempt: 4, holder: ASKER });

#[test]
fn d1_a_closed_key_is_closed_for_every_payload() {
    let policy = policy();
    for fingerprint in [bound(), another_payload(), another_profile()] {
        for closed in [expired(Ended::Closed), Record { fingerprint: Some(bound()), ..expired(Ended::Closed) }] {
            let delivery = Delivery { fingerprint, ..delivery() };
            assert_eq!(deliver(Some(&closed), &delivery, &context(&policy)), refuse(Code::KeyClosed));
        }
    }
}

#[test]
fn d2_another_payload_is_refused_in_every_state() {
    let policy = policy().recovery(Recovery::Rerun).journaled(true);
    for record in every_state().into_iter().chain([lapsed_claim()]) {
        if record.ended == Some(Ended::Closed) {
            continue;
        }
        let heard = |fingerprint, holder| {
            deliver(Some(&record), &Delivery { fingerprint, holder, ..delivery() }, &context(&policy))
        };
        for holder in [ASKER, HOLDER] {
            assert_eq!(heard(another_payload(), holder), refuse(Code::KeyPayloadMismatch), "{record:?}");
            let ask_again = says(Say::OtherProfile(bound().profile()));
            assert_eq!(heard(another_profile(), holder), ask_again, "never a mismatch, never a run: {record:?}");
        }
    }
}

#[test]
fn d3_a_gate_refuses_new_claims_and_nothing_else() {
    let policy = policy();
    for (gate, code) in [
        (Gate::ActorChanged, Code::ActorChanged),
        (Gate::Quota, Code::QuotaExceeded),
        (Gate::Overloaded, Code::Overloaded),
    ] {
        // Before D4 and D5.
        for marks in [MARKS, Marks { horizon: Some(NOW), ..MARKS }, Marks { forgotten_before: NOW, ..MARKS }] {
            let delivery = Delivery { gate, marks, ..delivery() };
            assert_eq!(deliver(None, &delivery, &context(&policy)), refuse(code));
        }
        let gated = Delivery { gate, ..delivery() };
        for record in every_state().into_iter().chain([lapsed_claim()]) {
            let (gated, open) = (
                deliver(Some(&record), &gated, &context(&policy)),
                deliver(Some(&record), &delivery(), &context(&policy)),
            );
            assert_eq!(gated, open, "what is known is answered: {record:?}");
        }
    }
}

#[test]
fn d5_absence_proves_nothing_before_the_horizon() {
    let policy = policy();
    let uncertain = |settle_after| {
        let restored = Record {
            state: State::Uncertain,
            fence: Fence { attempt: 0, holder: NEW },
            reason: Some(Reason::Restore),
            settle_after: Some(settle_after),
            ..first_claim()
        };
        writes(restored, Say::Refuse(Code::OutcomeUncertain))
    };
    // Until then a claim made the moment before the horizon may act.
    let over = |horizon: Timestamp| horizon + TIMEOUT + PROBE_AFTER;
    let runs = writes(first_claim(), Say::Run(first_claim().fence));
    let heard = |key_time, horizon, forgotten_before| {
        let marks = Marks { forgotten_before, horizon: Some(horizon) };
        deliver(None, &Delivery { key_time, marks, ..delivery() }, &context(&policy))
    };
    let far = KEY_TIME + ms(4);
    assert_eq!(heard(Some(KEY_TIME), far, MARKS.forgotten_before), uncertain(over(far)), "before the horizon");
    let near = KEY_TIME - CLOCK_SKEW;
    assert_eq!(
        heard(Some(KEY_TIME), near, MARKS.forgotten_before),
        uncertain(over(near)),
        "by a clock that runs ahead"
    );
    assert_eq!(heard(Some(KEY_TIME), near - TICK, MARKS.forgotten_before), runs, "after it");
    let expired = refuse(Code::KeyExpired);
    assert_eq!(heard(Some(KEY_TIME), KEY_TIME, KEY_TIME), expired, "what was forgotten stays forgotten");
    assert_eq!(heard(Some(KEY_TIME), KEY_TIME, KEY_TIME - TICK), uncertain(over(KEY_TIME)));
    // Long after the horizon nothing of before is under way.
    let long_ago = NOW - TIMEOUT - PROBE_AFTER;
    for (horizon, settle_after) in [(long_ago + TICK, NOW + TICK), (long_ago, NOW), (long_ago - TICK, NOW)] {
        assert_eq!(heard(Some(horizon), horizon, MARKS.forgotten_before), uncertain(settle_after));
    }
    // A key without a time may have been sent before the horizon until nobody retries it any more.
    let last = NOW - RETRY_BUDGET + TICK;
    assert_eq!(heard(None, last, MARKS.forgotten_before), uncertain(NOW));
    assert_eq!(heard(None, last - TICK, MARKS.forgotten_before), runs);
}

#[test]
fn d4_a_key_older_than_memory_is_refused() {
    let policy = policy();
    let heard = |key_time, forgotten_before| {
        let marks = Marks { forgotten_before, horizon: None };
        deliver(None, &Delivery { key_time, marks, ..delivery() }, &context(&policy))
    };
    let runs = writes(first_claim(), Say::Run(first_claim().fence));
    assert_eq!(heard(Some(KEY_TIME), KEY_TIME), refuse(Code::KeyExpired), "at the mark");
    assert_eq!(heard(Some(KEY_TIME), KEY_TIME - TICK), runs, "after it");
    assert_eq!(heard(None, NOW), runs, "no time, no memory");
}

#[test]
fn d6_a_new_key_runs() {
    let policy = policy();
    let runs = writes(first_claim(), Say::Run(Fence { attempt: 1, holder: ASKER }));
    assert_eq!(deliver(None, &delivery(), &context(&policy)), runs);
    // A lease is never longer than the claim may stand at all.
    let policy = policy.lease(TIMEOUT + TICK);
    let written = deliver(None, &delivery(), &context(&policy)).write.unwrap();
    assert_eq!((written.lease_until, written.deadline), (NOW + TIMEOUT, NOW + TIMEOUT));
}

#[test]
fn d7_whoever_asks_again_gets_the_claim_it_holds() {
    let policy = policy();
    let again = Delivery { holder: HOLDER, ..delivery() };
    assert_eq!(deliver(Some(&in_progress()), &again, &context(&policy)), says(Say::Run(MINE)));
    let lapsed = deliver(Some(&lapsed_claim()), &again, &context(&policy));
    assert_eq!(lapsed.say, Say::Refuse(Code::OutcomeUncertain), "a lapsed one is judged like everybody's");
}

#[test]
fn d8_everybody_else_waits() {
    let policy = policy().recovery(Recovery::Rerun).journaled(true);
    assert_eq!(deliver(Some(&in_progress()), &delivery(), &context(&policy)), says(Say::Wait));
    let cannot_judge = Context { may_judge: false, ..context(&policy) };
    assert_eq!(deliver(Some(&lapsed_claim()), &delivery(), &cannot_judge), says(Say::Wait));
}

#[test]
fn d9_a_lapsed_claim_is_judged_first() {
    let plain = policy();
    let to_uncertain = |record: &Record| {
        let settle_after = Some(NOW + PROBE_AFTER);
        let (state, reason) = (State::Uncertain, Some(Reason::Lapse));
        let judged = Record { state, reason, settle_after, revision: 8, ..record.clone() };
        writes(judged, Say::Refuse(Code::OutcomeUncertain))
    };
    let by_lease = |until| Record { lease_until: until, ..in_progress() };
    // The lease is renewed to no later than the deadline; should a clock step back, each counts on its own.
    let by_deadline = |deadline| Record { deadline, ..in_progress() };
    for (waits, lapsed) in [(by_lease(NOW + TICK), by_lease(NOW)), (by_deadline(NOW + TICK), by_deadline(NOW))] {
        assert_eq!(deliver(Some(&waits), &delivery(), &context(&plain)), says(Say::Wait));
        assert_eq!(deliver(Some(&lapsed), &delivery(), &context(&plain)), to_uncertain(&lapsed));
    }
    // Journaled, before the first effect: released, and this delivery runs, in one write.
    let journaled = policy().journaled(true);
    assert_eq!(deliver(Some(&lapsed_claim()), &delivery(), &context(&journaled)), writes(fourth_claim(false), FOURTH));
    // Even a rerun waits for `settle_after`.
    let rerun = policy().recovery(Recovery::Rerun);
    assert_eq!(deliver(Some(&lapsed_claim()), &delivery(), &context(&rerun)), to_uncertain(&lapsed_claim()));
}

#[test]
fn d10_d11_what_is_done_is_replayed_while_its_response_is_at_hand() {
    let policy = policy();
    let heard = |record: &Record| deliver(Some(record), &delivery(), &context(&policy));
    for done in [completed(), failed()] {
        let until = |expires_at| Record { expires_at: Some(expires_at), ..done.clone() };
        assert_eq!(heard(&until(NOW + TICK)), says(Say::Replay));
        assert_eq!(heard(&until(NOW)), refuse(Code::ResponseNotStored));
        let without = Record { has_response: false, ..done.clone() };
        assert_eq!(heard(&without), refuse(Code::ResponseNotStored));
    }
    for how in [Ended::Completed, Ended::Failed] {
        assert_eq!(heard(&expired(how)), refuse(Code::ResponseNotStored));
    }
}

#[test]
fn d12_d13_an_unknown_outcome_runs_again_only_if_declared_repeatable() {
    let rerun = policy().recovery(Recovery::Rerun);
    let heard = |record: &Record, policy: &Policy| deliver(Some(record), &delivery(), &context(policy));
    let settle = |moment| Record { settle_after: Some(moment), ..uncertain() };
    let unknown = refuse(Code::OutcomeUncertain);
    assert_eq!(heard(&settle(NOW), &rerun), writes(fourth_claim(true), FOURTH));
    assert_eq!(heard(&settle(NOW + TICK), &rerun), unknown);
    for recovery in [Recovery::Manual, Recovery::Probe] {
        assert_eq!(heard(&settle(NOW), &policy().recovery(recovery)), unknown);
    }
    assert_eq!(heard(&Record { effects: OPEN, ..settle(NOW) }, &rerun), unknown);
    for effects in [FINISHED, NOT_APPLIED] {
        let expected = Record { effects, ..fourth_claim(true) };
        assert_eq!(heard(&Record { effects, ..settle(NOW) }, &rerun), writes(expected, FOURTH));
    }
    // What was known only by restoring a backup has attempt 0, and may be a first run.
    let restored = Record { fence: Fence { attempt: 0, holder: NEW }, revision: 1, ..settle(NOW) };
    let written = heard(&restored, &rerun).write.unwrap();
    assert_eq!((written.fence.attempt, written.revision, written.took_over), (1, 2, true));
}

#[test]
fn d14_d15_a_released_key_runs_again_when_its_moment_came() {
    let policy = policy();
    let heard = |record: &Record| deliver(Some(record), &delivery(), &context(&policy));
    let not_before = |moment| Record { not_before: moment, ..released() };
    assert_eq!(heard(&not_before(Some(NOW + TICK))), refuse(Code::OperationReleased));
    assert_eq!(heard(&not_before(Some(NOW))), writes(fourth_claim(false), FOURTH));
    assert_eq!(heard(&not_before(None)), writes(fourth_claim(false), FOURTH));
    let effects = FINISHED;
    let expected = Record { effects, ..fourth_claim(false) };
    assert_eq!(heard(&Record { effects, ..released() }), writes(expected, FOURTH), "the journal stays");
    let policy = super::policy().lease(TIMEOUT + TICK);
    let written = deliver(Some(&released()), &delivery(), &context(&policy)).write.unwrap();
    assert_eq!((written.lease_until, written.deadline), (NOW + TIMEOUT, NOW + TIMEOUT));
}

fn closing(record: Option<&Record>, policy: &Policy) -> Verdict {
    close(record, Gate::Open, Some(KEY_TIME), MARKS, &context(policy))
}

#[test]
fn c1_a_key_that_never_arrived_is_closed() {
    let policy = policy();
    let tombstone = Record {
        fingerprint: None,
        state: State::Expired,
        ended: Some(Ended::Closed),
        fence: Fence { attempt: 0, holder: NEW },
        finished_at: Some(NOW),
        ..first_claim()
    };
    assert_eq!(closing(None, &policy), writes(tombstone, Say::Closed));
    // What keeps a delivery from being new keeps it from being called one that never ran.
    let heard = |gate, marks| close(None, gate, Some(KEY_TIME), marks, &context(&policy));
    assert_eq!(heard(Gate::Quota, MARKS), refuse(Code::QuotaExceeded));
    assert_eq!(heard(Gate::Overloaded, MARKS), refuse(Code::Overloaded));
    assert_eq!(heard(Gate::ActorChanged, MARKS), refuse(Code::ActorChanged));
    let horizon = |horizon| Marks { horizon: Some(horizon), ..MARKS };
    let near = KEY_TIME - CLOCK_SKEW;
    assert_eq!(heard(Gate::Open, horizon(near)), refuse(Code::OutcomeUncertain));
    assert_eq!(heard(Gate::Open, horizon(near - TICK)).say, Say::Closed);
    let forgotten = |forgotten_before| Marks { forgotten_before, ..MARKS };
    assert_eq!(heard(Gate::Open, forgotten(KEY_TIME)), refuse(Code::KeyExpired));
    assert_eq!(heard(Gate::Open, forgotten(KEY_TIME - TICK)).say, Say::Closed);
}

#[test]
fn c2_a_released_key_is_closed_unless_an_effect_was_started() {
    let policy = policy();
    for not_before in [None, Some(NOW + TICK)] {
        let tombstone = Record {
            fingerprint: None,
            state: State::Expired,
            ended: Some(Ended::Closed),
            fence: Fence { attempt: 3, holder: NEW },
            revision: 8,
            finished_at: Some(NOW),
            ..released()
        };
        let verdict = closing(Some(&Record { not_before, ..released() }), &policy);
        assert_eq!(verdict, writes(tombstone, Say::Closed));
    }
    for effects in [OPEN, FINISHED, NOT_APPLIED] {
        let record = Record { effects, ..released() };
        assert_eq!(closing(Some(&record), &policy), refuse(Code::OperationReleased), "{effects:?}");
    }
}

#[test]
fn c3_any_other_key_is_not_closed() {
    let policy = policy().recovery(Recovery::Rerun);
    let heard = |record: &Record| closing(Some(record), &policy);
    assert_eq!(heard(&in_progress()), refuse(Code::OperationInProgress));
    assert_eq!(heard(&uncertain()), refuse(Code::OutcomeUncertain));
    for done in [completed(), failed()] {
        let until = |expires_at| Record { expires_at: Some(expires_at), ..done.clone() };
        assert_eq!(heard(&until(NOW + TICK)), says(Say::Replay));
        assert_eq!(heard(&until(NOW)), refuse(Code::ResponseNotStored));
        assert_eq!(heard(&Record { has_response: false, ..done.clone() }), refuse(Code::ResponseNotStored));
    }
    assert_eq!(heard(&expired(Ended::Completed)), refuse(Code::ResponseNotStored));
    assert_eq!(heard(&expired(Ended::Failed)), refuse(Code::ResponseNotStored));
    assert_eq!(heard(&expired(Ended::Closed)), says(Say::Closed), "closing is repeatable");
    let gated = |gate| close(Some(&completed()), gate, Some(KEY_TIME), MARKS, &context(&policy));
    assert_eq!(gated(Gate::Overloaded), says(Say::Replay), "what is known is answered");
}

#[test]
fn c3_a_lapsed_claim_is_judged_before_it_is_closed() {
    let settle_after = Some(NOW + PROBE_AFTER);
    let unknown =
        Record { settle_after, lease_until: NOW - ms(10), deadline: NOW + ms(40), revision: 8, ..uncertain() };
    let verdict = closing(Some(&lapsed_claim()), &policy());
    assert_eq!(verdict, writes(unknown, Say::Refuse(Code::OutcomeUncertain)));
    // Nothing had started, and the new holder keeps it so.
    let closed = closing(Some(&lapsed_claim()), &policy().journaled(true));
    let record = closed.write.unwrap();
    assert_eq!((closed.say, record.state, record.ended), (Say::Closed, State::Expired, Some(Ended::Closed)));
    assert_eq!((record.revision, record.fence), (8, Fence { attempt: 3, holder: NEW }));
    let policy = policy().journaled(true);
    let cannot_judge = Context { may_judge: false, ..context(&policy) };
    let verdict = close(Some(&lapsed_claim()), Gate::Open, Some(KEY_TIME), MARKS, &cannot_judge);
    assert_eq!(verdict, refuse(Code::OperationInProgress));
}

#[test]
fn a_waiter_never_becomes_a_runner() {
    use decide::without_running;
    for (state, code) in [
        (State::InProgress, Code::OperationInProgress),
        (State::Released, Code::OperationReleased),
        (State::Uncertain, Code::OutcomeUncertain),
        (State::Completed, Code::ResponseNotStored),
        (State::Failed, Code::ResponseNotStored),
        (State::Expired, Code::ResponseNotStored),
    ] {
        assert_eq!(without_running(state), code);
    }
}
