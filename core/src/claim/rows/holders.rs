//! Rows S1, S2 and F1–F7: what the holder of a claim may do.

use super::*;

fn finish(record: &Record, finish: Finish, context: &Context<'_>) -> Result<Write, Refused> {
    transition(record, &Event::Finish(record.fence, finish), context)
}

const RELEASED: Finish = Finish::Released { not_before: None };
const NO_ANSWER: Finish = Finish::Uncertain(Reason::NoAnswer);

/// What F1 and the settlements write.
fn ended(record: &Record, answer: &Terminal) -> Record {
    let state = if answer.status.is_some_and(|status| status < 400) { State::Completed } else { State::Failed };
    Record {
        state,
        took_over: false,
        revision: 8,
        settle_after: None,
        not_before: None,
        reason: answer.reason,
        status_code: answer.status,
        result_id: answer.result_id.clone(),
        has_response: answer.has_response,
        finished_at: Some(NOW),
        expires_at: Some(NOW + RETENTION),
        ..record.clone()
    }
}

/// What F3 and F5 write.
fn unknown(record: &Record, reason: Reason) -> Record {
    Record {
        state: State::Uncertain,
        reason: Some(reason),
        revision: 8,
        settle_after: record.settle_after.or(Some(NOW + PROBE_AFTER)),
        not_before: None,
        finished_at: None,
        ..record.clone()
    }
}

fn may_finish() -> [Record; 5] {
    let not_before = Some(NOW + ms(5));
    [
        in_progress(),
        lapsed_claim(),
        uncertain(),
        Record { settle_after: Some(NOW + ms(9)), ..uncertain() },
        Record { not_before, ..released() },
    ]
}

#[test]
fn s1_the_holder_starts_before_lease_and_deadline() {
    let policy = policy();
    let start = |record: &Record| transition(record, &Event::Start(MINE), &context(&policy));
    assert_eq!(start(&in_progress()), Ok(Write::Nothing));
    let lease = |until| Record { lease_until: until, ..in_progress() };
    assert_eq!(start(&lease(NOW + TICK)), Ok(Write::Nothing));
    assert_eq!(start(&lease(NOW)), stale(&in_progress()));
    let deadline = |deadline| Record { deadline, ..in_progress() };
    assert_eq!(start(&deadline(NOW + TICK)), Ok(Write::Nothing));
    assert_eq!(start(&deadline(NOW)), stale(&in_progress()));
    let cannot_judge = Context { may_judge: false, ..context(&policy) };
    let started = transition(&lapsed_claim(), &Event::Start(MINE), &cannot_judge);
    assert_eq!(started, stale(&in_progress()), "nobody has to judge the claim before it is refused");
}

#[test]
fn s2_a_heartbeat_moves_the_lease_up_to_the_deadline() {
    let policy = policy();
    let renew = |record: &Record| transition(record, &Event::Renew(MINE), &context(&policy));
    let deadline = |deadline| Record { deadline, ..in_progress() };
    let renewed = |record: &Record, lease_until| Record { lease_until, revision: 8, ..record.clone() };
    let far = deadline(NOW + LEASE + TICK);
    assert_eq!(renew(&far), wrote(renewed(&far, NOW + LEASE)));
    let near = deadline(NOW + LEASE - TICK);
    assert_eq!(renew(&near), wrote(renewed(&near, near.deadline)));
    let last = deadline(NOW + TICK);
    assert_eq!(renew(&last), wrote(renewed(&last, NOW + TICK)));
    assert_eq!(renew(&deadline(NOW)), stale(&in_progress()));
    // A lease that lapsed and was judged by nobody is still the holder's.
    assert_eq!(renew(&lapsed_claim()), wrote(renewed(&lapsed_claim(), NOW + LEASE)));
}

#[test]
fn f1_a_terminal_answer_ends_the_record_however_late() {
    let policy = policy();
    for record in may_finish() {
        for record in [record.clone(), Record { took_over: true, ..record }] {
            for status in [200, 303, 399, 400, 404, 500] {
                let answer = answer(status);
                let written = finish(&record, Finish::Terminal(answer.clone()), &context(&policy));
                assert_eq!(written, wrote(ended(&record, &answer)), "{status}");
            }
        }
    }
}

#[test]
fn f1_the_status_tells_completed_from_failed() {
    let policy = policy();
    let state = |status| {
        let answer = Terminal { status, reason: None, result_id: None, has_response: false };
        match finish(&in_progress(), Finish::Terminal(answer), &context(&policy)) {
            Ok(Write::Update(record)) => record.state,
            other => panic!("{other:?}"),
        }
    };
    for (status, expected) in [
        (Some(199), State::Failed),
        (Some(200), State::Completed),
        (Some(399), State::Completed),
        (Some(400), State::Failed),
        (None, State::Failed),
    ] {
        assert_eq!(state(status), expected, "{status:?}");
    }
    // The reason of a failure is that its effect is unknown; a success has none.
    let odd = Terminal { reason: Some(Reason::ServerError), ..answer(200) };
    let written = finish(&in_progress(), Finish::Terminal(odd), &context(&policy));
    assert_eq!(written, wrote(ended(&in_progress(), &answer(200))));
}

#[test]
fn f1_f3_a_failure_with_an_open_effect_is_uncertain_a_success_is_not() {
    let policy = policy();
    for record in [in_progress(), uncertain()] {
        for effects in [OPEN, FINISHED, NOT_APPLIED] {
            let record = Record { effects, ..record.clone() };
            let end = |status| finish(&record, Finish::Terminal(answer(status)), &context(&policy));
            assert_eq!(end(201), wrote(ended(&record, &answer(201))));
            let failed =
                if effects == OPEN { unknown(&record, Reason::EarlierAttempt) } else { ended(&record, &answer(404)) };
            assert_eq!(end(404), wrote(failed));
        }
    }
}

#[test]
fn f2_nothing_happened_releases_the_key() {
    let policy = policy();
    for record in [in_progress(), uncertain(), Record { settle_after: Some(NOW + ms(9)), ..uncertain() }] {
        for not_before in [None, Some(NOW + ms(60))] {
            for effects in [NO_EFFECTS, FINISHED, NOT_APPLIED] {
                let record = Record { effects, ..record.clone() };
                let expected = Record {
                    state: State::Released,
                    revision: 8,
                    settle_after: None,
                    not_before,
                    reason: None,
                    finished_at: Some(NOW),
                    ..record.clone()
                };
                let written = finish(&record, Finish::Released { not_before }, &context(&policy));
                assert_eq!(written, wrote(expected));
            }
        }
    }
}

#[test]
fn f3_nothing_in_this_attempt_says_nothing_of_an_earlier_one() {
    let policy = policy();
    for record in [in_progress(), uncertain(), Record { settle_after: Some(NOW + ms(9)), ..uncertain() }] {
        let took_over = Record { took_over: true, ..record.clone() };
        let open = Record { effects: OPEN, ..record };
        for record in [took_over, open] {
            let written = finish(&record, RELEASED, &context(&policy));
            assert_eq!(written, wrote(unknown(&record, Reason::EarlierAttempt)));
        }
    }
}

#[test]
fn f4_releasing_twice_is_right() {
    let policy = policy();
    let record = Record { not_before: Some(NOW + ms(5)), ..released() };
    for finish_again in [RELEASED, Finish::Released { not_before: Some(NOW + ms(9)) }] {
        assert_eq!(finish(&record, finish_again, &context(&policy)), Ok(Write::Nothing));
    }
}

#[test]
fn f5_no_answer_is_uncertain_and_settles_no_later_than_before() {
    let policy = policy();
    for record in may_finish() {
        for record in [record.clone(), Record { took_over: true, effects: OPEN, ..record }] {
            for reason in [Reason::Deadline, Reason::NoAnswer, Reason::Status, Reason::NotStored, Reason::Holder] {
                let written = finish(&record, Finish::Uncertain(reason), &context(&policy));
                assert_eq!(written, wrote(unknown(&record, reason)));
            }
        }
    }
    let again = finish(&uncertain(), NO_ANSWER, &context(&policy));
    let Ok(Write::Update(again)) = again else { panic!("{again:?}") };
    assert_eq!(again.settle_after, uncertain().settle_after, "kept, so that nobody puts settling off for ever");
}

#[test]
fn f6_the_same_end_again_is_right() {
    let policy = policy();
    let end = |record: &Record, answer: Terminal| finish(record, Finish::Terminal(answer), &context(&policy));
    for record in [completed(), expired(Ended::Completed)] {
        assert_eq!(end(&record, answer(201)), Ok(Write::Nothing));
        assert_eq!(end(&record, Terminal { has_response: false, ..answer(201) }), Ok(Write::Nothing));
        assert_eq!(end(&record, answer(200)), stale(&record), "another status");
        let other_id = Some("order-18".to_string());
        assert_eq!(end(&record, Terminal { result_id: other_id, ..answer(201) }), stale(&record));
        assert_eq!(end(&record, Terminal { result_id: None, ..answer(201) }), stale(&record));
        assert_eq!(end(&record, answer(500)), stale(&record));
    }
    for record in [failed(), expired(Ended::Failed)] {
        assert_eq!(end(&record, answer(500)), Ok(Write::Nothing));
        assert_eq!(end(&record, answer(501)), stale(&record));
        assert_eq!(end(&record, answer(201)), stale(&record));
    }
    // Same words, another class: only a record that was tampered with could say so.
    let odd = Record { status_code: Some(500), result_id: None, ..completed() };
    assert_eq!(end(&odd, answer(500)), stale(&odd));
}

#[test]
fn f7_an_end_that_contradicts_is_refused() {
    let policy = policy();
    for record in [completed(), failed(), expired(Ended::Completed), expired(Ended::Failed), expired(Ended::Closed)] {
        for odd in [RELEASED, NO_ANSWER] {
            assert_eq!(finish(&record, odd, &context(&policy)), stale(&record));
        }
    }
    let closed = expired(Ended::Closed);
    let nothing_known = Terminal { status: None, reason: None, result_id: None, has_response: false };
    for answer in [answer(200), answer(404), nothing_known] {
        assert_eq!(finish(&closed, Finish::Terminal(answer), &context(&policy)), stale(&closed));
    }
}

#[test]
fn f7_nobody_starts_or_renews_but_in_progress() {
    let policy = policy();
    for record in all_but(&[State::InProgress]) {
        let record = Record { lease_until: NOW + ms(10), deadline: NOW + ms(40), ..record };
        for event in [Event::Start(MINE), Event::Renew(MINE)] {
            assert_eq!(transition(&record, &event, &context(&policy)), stale(&record), "{event:?}");
        }
    }
}

#[test]
fn f7_whoever_is_not_the_holder_is_refused_in_every_state() {
    let policy = policy();
    for record in every_state() {
        let repeat = Terminal {
            status: record.status_code,
            reason: record.reason,
            result_id: record.result_id.clone(),
            has_response: record.has_response,
        };
        for fence in NOT_MINE {
            for event in [
                Event::Start(fence),
                Event::Renew(fence),
                Event::Finish(fence, Finish::Terminal(repeat.clone())),
                Event::Finish(fence, Finish::Terminal(answer(201))),
                Event::Finish(fence, RELEASED),
                Event::Finish(fence, NO_ANSWER),
            ] {
                assert_eq!(transition(&record, &event, &context(&policy)), stale(&record), "{event:?}");
            }
        }
    }
}
