//! Rows T1–H1 and N1: the recoverer, probes, operators, the sweeper, and a restored backup.

use super::transition::{Probed, Settlement};
use super::*;

fn released_from(record: &Record) -> Record {
    Record {
        state: State::Released,
        took_over: false,
        revision: 8,
        settle_after: None,
        not_before: None,
        reason: None,
        finished_at: Some(NOW),
        ..record.clone()
    }
}

fn ended_from(record: &Record, answer: &Terminal) -> Record {
    let state = if answer.status == Some(201) { State::Completed } else { State::Failed };
    Record {
        state,
        status_code: answer.status,
        result_id: answer.result_id.clone(),
        has_response: answer.has_response,
        reason: answer.reason,
        expires_at: Some(NOW + RETENTION),
        ..released_from(record)
    }
}

/// A failure closes open effects, unless it says that the effect is unknown.
fn settled_from(record: &Record, answer: &Terminal) -> Result<Write, Refused> {
    let written = ended_from(record, answer);
    if answer.status == Some(404) && record.effects == OPEN {
        return Ok(Write::UpdateAndCloseEffects(Record { effects: NOT_APPLIED, ..written }));
    }
    wrote(written)
}

/// Settled by whoever looked at the record of [`uncertain`] at the earliest moment.
fn settles_at(moment: Timestamp) -> Record {
    Record { settle_after: Some(moment), took_over: true, ..uncertain() }
}

#[test]
fn t1_t2_a_lapsed_claim_is_released_only_if_no_effect_can_have_started() {
    for journaled in [false, true] {
        let policy = policy().journaled(journaled);
        for effects in [NO_EFFECTS, OPEN, FINISHED, NOT_APPLIED] {
            for took_over in [false, true] {
                let record = Record { effects, took_over, ..lapsed_claim() };
                let written = if journaled && effects == NO_EFFECTS && !took_over {
                    released_from(&record)
                } else {
                    let (reason, settle_after) = (Some(Reason::Lapse), Some(NOW + PROBE_AFTER));
                    Record { state: State::Uncertain, reason, settle_after, revision: 8, ..record.clone() }
                };
                assert_eq!(transition(&record, &Event::Tick, &context(&policy)), wrote(written));
            }
        }
    }
}

#[test]
fn t2_a_claim_with_a_longer_timeout_of_its_own_is_not_settled_before_it_is_over() {
    let policy = policy();
    let settle_after = |deadline| {
        let record = Record { deadline, ..lapsed_claim() };
        match transition(&record, &Event::Tick, &context(&policy)) {
            Ok(Write::Update(written)) => written.settle_after,
            other => panic!("{other:?}"),
        }
    };
    // 40 ms is what `probe_after` leaves after the operation's own timeout.
    assert_eq!(settle_after(NOW + ms(70)), Some(NOW + PROBE_AFTER), "no claim under the operation's own is later");
    assert_eq!(settle_after(NOW + ms(71)), Some(NOW + ms(71 + 40)));
    assert_eq!(settle_after(NOW + ms(7_000)), Some(NOW + ms(7_040)));
    assert_eq!(settle_after(NOW - ms(7_000)), Some(NOW + PROBE_AFTER));
}

#[test]
fn f5_nor_is_one_whose_holder_says_that_nobody_knows() {
    let policy = policy();
    let record = Record { deadline: NOW + ms(7_000), ..in_progress() };
    let finish = Event::Finish(MINE, Finish::Uncertain(Reason::Holder));
    let Ok(Write::Update(written)) = transition(&record, &finish, &context(&policy)) else { panic!("F5") };
    assert_eq!(written.settle_after, Some(NOW + ms(7_040)));
}

#[test]
fn t2_a_claim_lapses_with_its_lease_or_its_deadline_if_one_may_judge() {
    let policy = policy();
    let tick =
        |record: &Record, may_judge| transition(record, &Event::Tick, &Context { may_judge, ..context(&policy) });
    let lease = |until| Record { lease_until: until, ..in_progress() };
    let deadline = |deadline| Record { deadline, ..in_progress() };
    for (stands, lapsed) in [(lease(NOW + TICK), lease(NOW)), (deadline(NOW + TICK), deadline(NOW))] {
        assert_eq!(tick(&stands, true), nothing(&stands));
        assert!(tick(&lapsed, true).is_ok());
        assert_eq!(tick(&lapsed, false), nothing(&lapsed));
    }
}

fn probe(record: &Record, policy: &Policy, revision: u64, asked_at: Timestamp, said: Probed) -> Result<Write, Refused> {
    transition(record, &Event::Probe { revision, asked_at, verdict: said }, &context(policy))
}

#[test]
fn p1_a_probe_that_found_the_effect_ends_the_record() {
    let policy = policy().recovery(Recovery::Probe);
    for effects in [NO_EFFECTS, OPEN, FINISHED] {
        let record = Record { effects, ..settles_at(NOW - ms(5)) };
        for status in [201, 404, 500] {
            let answer = answer(status);
            let written = probe(&record, &policy, 7, NOW - ms(5), Probed::Done(answer.clone()));
            assert_eq!(written, settled_from(&record, &answer));
        }
    }
}

#[test]
fn p2_a_probe_that_found_nothing_releases_unless_an_effect_is_open() {
    let policy = policy().recovery(Recovery::Probe);
    for effects in [NO_EFFECTS, FINISHED, NOT_APPLIED] {
        let record = Record { effects, ..settles_at(NOW - ms(5)) };
        assert_eq!(probe(&record, &policy, 7, NOW - ms(5), Probed::Absent), wrote(released_from(&record)));
    }
    let open = Record { effects: OPEN, ..settles_at(NOW - ms(5)) };
    assert_eq!(probe(&open, &policy, 7, NOW - ms(5), Probed::Absent), nothing(&open));
}

#[test]
fn p3_a_probe_counts_only_if_asked_late_about_this_revision_and_declared() {
    let asked = policy().recovery(Recovery::Probe);
    let record = settles_at(NOW - ms(5));
    for said in [Probed::Done(answer(201)), Probed::Absent] {
        assert!(probe(&record, &asked, 7, NOW - ms(5), said.clone()).is_ok());
        let too_early = NOW - ms(5) - TICK;
        assert_eq!(probe(&record, &asked, 7, too_early, said.clone()), nothing(&record), "answered late, asked early");
        for revision in [6, 8] {
            assert_eq!(probe(&record, &asked, revision, NOW, said.clone()), nothing(&record));
        }
        for recovery in [Recovery::Manual, Recovery::Rerun] {
            let policy = policy().recovery(recovery);
            assert_eq!(probe(&record, &policy, 7, NOW, said.clone()), nothing(&record));
        }
    }
    assert_eq!(probe(&record, &asked, 7, NOW, Probed::Unclear), nothing(&record));
}

fn operator(record: &Record, revision: u64, looked_at: Timestamp, settlement: Settlement) -> Result<Write, Refused> {
    let policy = policy();
    transition(record, &Event::Operator { revision, looked_at, force: false, settlement }, &context(&policy))
}

#[test]
fn o1_an_operator_who_saw_the_end_settles_at_any_time() {
    for effects in [NO_EFFECTS, OPEN, FINISHED] {
        for settle_after in [NOW - ms(5), NOW + ms(5)] {
            let record = Record { effects, ..settles_at(settle_after) };
            for status in [201, 404, 500] {
                if effects != OPEN || status != 404 {
                    let written = operator(&record, 7, NOW - ms(50), Settlement::Ended(answer(status)));
                    assert_eq!(written, wrote(ended_from(&record, &answer(status))));
                }
                for revision in [6, 8] {
                    let written = operator(&record, revision, NOW, Settlement::Ended(answer(status)));
                    assert_eq!(written, nothing(&record), "the record moved on");
                }
            }
        }
    }
}

#[test]
fn o1_an_operator_who_saw_late_that_it_failed_closes_the_effects() {
    let record = Record { effects: OPEN, ..settles_at(NOW - ms(5)) };
    let failed = || Settlement::Ended(answer(404));
    assert_eq!(operator(&record, 7, NOW - ms(5), failed()), settled_from(&record, &answer(404)));
    assert_eq!(operator(&record, 7, NOW - ms(5) - TICK, failed()), nothing(&record), "it may still come true");
    assert_eq!(operator(&record, 6, NOW, failed()), nothing(&record));
    let policy = policy();
    let forced = Event::Operator { revision: 7, looked_at: NOW - ms(50), force: true, settlement: failed() };
    assert_eq!(transition(&record, &forced, &context(&policy)), settled_from(&record, &answer(404)));
}

#[test]
fn o2_an_operator_releases_on_what_was_seen_after_settle_after() {
    for (effects, closed) in [(NO_EFFECTS, NO_EFFECTS), (OPEN, NOT_APPLIED), (FINISHED, FINISHED)] {
        let record = Record { effects, ..settles_at(NOW - ms(5)) };
        let released = Ok(Write::UpdateAndCloseEffects(Record { effects: closed, ..released_from(&record) }));
        assert_eq!(operator(&record, 7, NOW - ms(5), Settlement::Released), released);
        assert_eq!(operator(&record, 7, NOW - ms(5) - TICK, Settlement::Released), nothing(&record));
        for revision in [6, 8] {
            assert_eq!(operator(&record, revision, NOW, Settlement::Released), nothing(&record));
        }
        let policy = policy();
        let forced = |revision| {
            let looked_at = NOW - ms(5) - TICK;
            let event = Event::Operator { revision, looked_at, force: true, settlement: Settlement::Released };
            transition(&record, &event, &context(&policy))
        };
        assert_eq!(forced(7), released);
        assert_eq!(forced(6), nothing(&record), "force does not excuse from looking");
    }
}

#[test]
fn g1_what_stayed_uncertain_too_long_will_never_run() {
    let policy = policy();
    for effects in [NO_EFFECTS, OPEN] {
        let since = |moment| Record { effects, ..settles_at(moment) };
        let give_up = |record: &Record| transition(record, &Event::GiveUp, &context(&policy));
        let due = since(NOW - GIVE_UP);
        let answer = Terminal { status: None, reason: Some(Reason::GaveUp), result_id: None, has_response: false };
        let written = ended_from(&due, &answer);
        assert!(written.effect_unknown(), "clients never call it safe to repeat");
        assert_eq!(written.effects, effects, "given up is not found out");
        assert_eq!(give_up(&due), wrote(written));
        let early = since(NOW - GIVE_UP + TICK);
        assert_eq!(give_up(&early), nothing(&early));
    }
}

/// A sweeper for which a key of this age lies within what may be forgotten.
fn sweep(record: &Record, key_time: Option<Timestamp>, policy: &Policy) -> Result<Write, Refused> {
    transition(record, &Event::Sweep { key_time, forget_limit: NOW }, &context(policy))
}

#[test]
fn e1_a_response_is_kept_whole_until_it_expires() {
    let policy = policy();
    for (record, how) in [(completed(), Ended::Completed), (failed(), Ended::Failed)] {
        let until = |expires_at| Record { expires_at: Some(expires_at), ..record.clone() };
        assert_eq!(sweep(&until(NOW + TICK), None, &policy), nothing(&record));
        let due = until(NOW);
        let tombstone =
            Record { state: State::Expired, ended: Some(how), has_response: false, revision: 8, ..due.clone() };
        assert_eq!(sweep(&due, None, &policy), wrote(tombstone.clone()));
        assert_eq!(tombstone.effect_unknown(), due.effect_unknown());
    }
}

#[test]
fn e2_a_row_is_forgotten_when_its_end_and_its_key_are_old() {
    let policy = policy();
    let tombstones = [expired(Ended::Completed), expired(Ended::Failed), expired(Ended::Closed), released()];
    for record in tombstones {
        let ended = |moment| Record { finished_at: Some(moment), ..record.clone() };
        let (old, young) = (NOW - REMEMBER, NOW - REMEMBER + TICK);
        assert_eq!(sweep(&ended(old), Some(old), &policy), Ok(Write::Delete { mark: Some(old) }));
        assert_eq!(sweep(&ended(young), Some(old), &policy), nothing(&record), "ended lately");
        assert_eq!(sweep(&ended(old), Some(young), &policy), nothing(&record), "minted lately");
        let limited = |forget_limit| {
            transition(&ended(old), &Event::Sweep { key_time: Some(old), forget_limit }, &context(&policy))
        };
        assert_eq!(limited(old), Ok(Write::Delete { mark: Some(old) }));
        assert_eq!(limited(old - TICK), nothing(&record), "memory's end may not move that far yet");
    }
}

#[test]
fn e2_memory_moves_no_mark_until_what_a_restore_lost_is_old() {
    let policy = policy();
    let (mark, far) = (NOW - REMEMBER - ms(100), NOW - REMEMBER);
    let limit = |horizon, limit| Marks { forgotten_before: mark, horizon }.forget_limit(limit, &context(&policy));
    assert_eq!(limit(None, far), far, "never restored");
    assert_eq!(limit(Some(NOW - REMEMBER), far), far, "restored long ago");
    assert_eq!(limit(Some(NOW - REMEMBER + TICK), far), mark);
    assert_eq!(limit(Some(NOW), mark - TICK), mark - TICK, "never further than it may anyway");
}

#[test]
fn e2_keys_without_a_time_are_forgotten_unless_they_are_kept() {
    use crate::policy::Timeless;
    let forget = policy().timeless(Timeless::Forget);
    let keep = policy().timeless(Timeless::Keep);
    for record in [expired(Ended::Completed), expired(Ended::Closed), released()] {
        let ended = |moment| Record { finished_at: Some(moment), ..record.clone() };
        let (old, young) = (NOW - REMEMBER, NOW - REMEMBER + TICK);
        assert_eq!(sweep(&ended(old), None, &forget), Ok(Write::Delete { mark: None }));
        assert_eq!(sweep(&ended(young), None, &forget), nothing(&record));
        assert_eq!(sweep(&ended(old), None, &keep), nothing(&record));
        assert_eq!(sweep(&ended(old), Some(old), &keep), Ok(Write::Delete { mark: Some(old) }), "it has a time");
    }
}

#[test]
fn e2_what_may_still_run_or_settle_is_never_forgotten() {
    let policy = policy();
    let old = NOW - REMEMBER;
    for record in [in_progress(), uncertain(), completed(), failed()] {
        let record = Record { finished_at: Some(old), ..record };
        assert_eq!(sweep(&record, Some(old), &policy), nothing(&record));
        assert_eq!(sweep(&record, None, &policy), nothing(&record));
    }
}

#[test]
fn h1_after_a_restore_what_could_run_is_unknown_and_nobodys() {
    let policy = policy();
    let earlier = Record { took_over: true, effects: OPEN, ..lapsed_claim() };
    let later = Record { not_before: Some(NOW + ms(5)), ..released() };
    let unknown = |settle_after| Record { settle_after: Some(settle_after), took_over: true, ..uncertain() };
    // A claim made the moment before has this deadline, and may act for `probe_after` beyond it.
    let latest = NOW + TIMEOUT + PROBE_AFTER;
    let longer = Record { deadline: NOW + TIMEOUT + TICK, ..in_progress() };
    for (record, settle_after) in [
        (in_progress(), latest),
        (earlier, latest),
        (longer, latest + TICK),
        (released(), latest),
        (later, latest),
        (unknown(NOW - ms(5)), latest),
        (unknown(latest - TICK), latest),
        (unknown(latest + TICK), latest + TICK),
    ] {
        let written = Record {
            state: State::Uncertain,
            fence: Fence { attempt: 3, holder: NEW },
            revision: 8,
            settle_after: Some(settle_after),
            not_before: None,
            reason: Some(Reason::Restore),
            finished_at: None,
            ..record.clone()
        };
        assert_eq!(transition(&record, &Event::Horizon, &context(&policy)), wrote(written.clone()));
        // Whoever held it says what it likes, once or again: another attempt may have had its effect since.
        for said in [Finish::Terminal(answer(201)), Finish::Released { not_before: None }] {
            let late = transition(&written, &Event::Finish(MINE, said), &context(&policy));
            assert_eq!(late, stale(&written));
        }
    }
}

#[test]
fn n1_every_other_state_is_left_alone() {
    let policy = policy().recovery(Recovery::Probe);
    let later = context_at(NOW + GIVE_UP + PROBE_AFTER, &policy);
    let settle = |settlement| Event::Operator { revision: 7, looked_at: NOW, force: true, settlement };
    let ask = |verdict| Event::Probe { revision: 7, asked_at: NOW, verdict };
    let settlers = [
        ask(Probed::Done(answer(201))),
        ask(Probed::Absent),
        ask(Probed::Unclear),
        settle(Settlement::Ended(answer(201))),
        settle(Settlement::Released),
        Event::GiveUp,
    ];
    for record in all_but(&[State::Uncertain]) {
        let record = Record { settle_after: Some(NOW), ..record };
        for event in &settlers {
            assert_eq!(transition(&record, event, &later), nothing(&record), "{event:?}");
        }
    }
    for record in all_but(&[State::InProgress]) {
        assert_eq!(transition(&record, &Event::Tick, &later), nothing(&record));
    }
    for record in all_but(&[State::InProgress, State::Released, State::Uncertain]) {
        assert_eq!(transition(&record, &Event::Horizon, &later), nothing(&record));
    }
}
