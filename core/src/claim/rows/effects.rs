//! Rows X1–X7 and Y1–Y7: what the journal lets a holder call, and what it believes of a call's end.

use super::*;
use crate::claim::effects::{Begun, Call, CallEnd, Entry, Input, Noted, end, start};

const CALL: Call = Call([1; 16]);
const ANOTHER_CALL: Call = Call([2; 16]);
const INPUT: Option<Input> = Some(Input([1; 32]));

fn entry(end: Option<CallEnd>) -> Entry {
    Entry { attempt: MINE.attempt, call: CALL, input: INPUT, end }
}

fn ends() -> [Option<CallEnd>; 4] {
    [None, Some(CallEnd::Done), Some(CallEnd::NotApplied), Some(CallEnd::Unknown)]
}

fn started(record: &Record, entry: Option<Entry>) -> Result<Begun, Refused> {
    let policy = policy();
    start(record, entry.as_ref(), MINE, CALL, INPUT, &context(&policy))
}

fn with(effects: Effects) -> Record {
    Record { effects, ..in_progress() }
}

fn written(record: &Record, effects: Effects) -> Record {
    Record { effects, revision: record.revision + 1, ..record.clone() }
}

#[test]
fn x1_only_a_proved_holder_starts_an_effect() {
    let policy = policy();
    let stale = |record: &Record| Err(Refused::Stale { state: record.state });
    for end in ends() {
        for record in [uncertain(), released(), completed(), failed(), lapsed_claim()] {
            assert_eq!(started(&record, Some(entry(end))), stale(&record), "{record:?}");
        }
        let ends_now = [Record { lease_until: NOW, ..in_progress() }, Record { deadline: NOW, ..in_progress() }];
        for record in ends_now {
            assert_eq!(started(&record, Some(entry(end))), stale(&record), "{record:?}");
        }
        for fence in [Fence { attempt: MINE.attempt + 1, ..MINE }, Fence { holder: NEW, ..MINE }] {
            let refused = start(&in_progress(), Some(&entry(end)), fence, CALL, INPUT, &context(&policy));
            assert_eq!(refused, stale(&in_progress()));
        }
    }
}

#[test]
fn x2_a_first_call_is_written_before_it_is_made() {
    let record = with(NO_EFFECTS);
    assert_eq!(started(&record, None), Ok(Begun::Go(Some(written(&record, OPEN)))));
    let record = with(FINISHED);
    assert_eq!(started(&record, None), Ok(Begun::Go(Some(written(&record, Effects { open: 1, ..FINISHED })))));
}

#[test]
fn x3_one_name_stands_for_one_input() {
    let policy = policy();
    for input in [None, Some(Input([2; 32]))] {
        for end in ends() {
            let begun = start(&in_progress(), Some(&entry(end)), MINE, CALL, input, &context(&policy));
            assert_eq!(begun, Ok(Begun::OtherInput), "{end:?}");
        }
    }
}

#[test]
fn x4_what_is_done_is_not_called_again() {
    let by_an_earlier_attempt = Entry { attempt: MINE.attempt - 1, call: ANOTHER_CALL, ..entry(Some(CallEnd::Done)) };
    for entry in [entry(Some(CallEnd::Done)), by_an_earlier_attempt] {
        assert_eq!(started(&with(FINISHED), Some(entry)), Ok(Begun::Done));
    }
}

#[test]
fn x5_what_was_not_applied_may_be_called_again() {
    let record = with(NOT_APPLIED);
    let earlier = Entry { attempt: MINE.attempt - 1, call: ANOTHER_CALL, ..entry(Some(CallEnd::NotApplied)) };
    for entry in [entry(Some(CallEnd::NotApplied)), earlier] {
        assert_eq!(started(&record, Some(entry)), Ok(Begun::Go(Some(written(&record, OPEN)))));
    }
}

#[test]
fn x6_x7_only_the_same_call_goes_on_where_one_is_open() {
    let record = with(OPEN);
    assert_eq!(started(&record, Some(entry(None))), Ok(Begun::Go(None)));
    for other in [
        Entry { call: ANOTHER_CALL, ..entry(None) },
        Entry { attempt: MINE.attempt - 1, ..entry(None) },
        entry(Some(CallEnd::Unknown)),
    ] {
        assert_eq!(started(&record, Some(other)), Ok(Begun::Unknown), "{other:?}");
    }
}

#[test]
fn y1_only_who_holds_the_record_says_how_a_call_ended() {
    for how in CallEnd::ALL.iter().copied() {
        for record in [released(), completed(), failed(), expired(Ended::Completed)] {
            let refused = end(&record, Some(&entry(None)), record.fence, how, false);
            assert_eq!(refused, Err(Refused::Stale { state: record.state }), "{record:?}");
        }
        for fence in [Fence { attempt: MINE.attempt + 1, ..MINE }, Fence { holder: NEW, ..MINE }] {
            let refused = end(&with(OPEN), Some(&entry(None)), fence, how, false);
            assert_eq!(refused, Err(Refused::Stale { state: State::InProgress }));
        }
    }
}

#[test]
fn y2_what_was_not_started_does_not_end() {
    for how in CallEnd::ALL.iter().copied() {
        assert_eq!(end(&in_progress(), None, MINE, how, false), Ok(Noted::NotStarted));
    }
}

#[test]
fn y3_to_y7_a_calls_end_is_told_once_and_what_was_unknown_may_become_known() {
    let stale = Err(Refused::Stale { state: State::InProgress });
    let write = |record: &Record, effects| Ok(Noted::Write(written(record, effects)));
    use CallEnd::{Done, NotApplied, Unknown};
    for (before, counted, says, same, expected) in [
        (None, OPEN, Done, false, write(&with(OPEN), FINISHED)),
        (None, OPEN, NotApplied, false, write(&with(OPEN), NOT_APPLIED)),
        (None, OPEN, Unknown, false, write(&with(OPEN), OPEN)),
        (Some(Unknown), OPEN, Done, false, write(&with(OPEN), FINISHED)),
        (Some(Unknown), OPEN, NotApplied, false, write(&with(OPEN), NOT_APPLIED)),
        (Some(Unknown), OPEN, Unknown, true, Ok(Noted::Same)),
        (Some(Done), FINISHED, Done, true, Ok(Noted::Same)),
        (Some(Done), FINISHED, Done, false, stale.clone()),
        (Some(Done), FINISHED, NotApplied, true, stale.clone()),
        (Some(Done), FINISHED, Unknown, true, stale.clone()),
        (Some(NotApplied), NOT_APPLIED, NotApplied, true, Ok(Noted::Same)),
        (Some(NotApplied), NOT_APPLIED, Done, true, stale.clone()),
        (Some(NotApplied), NOT_APPLIED, Unknown, true, stale.clone()),
    ] {
        let record = with(counted);
        assert_eq!(end(&record, Some(&entry(before)), MINE, says, same), expected, "{before:?} {says:?}");
    }
    let late = Record { effects: OPEN, ..uncertain() };
    assert_eq!(end(&late, Some(&entry(None)), late.fence, Done, false), write(&late, FINISHED), "a late answer counts");
    let earlier = Entry { attempt: MINE.attempt - 1, ..entry(None) };
    assert_eq!(end(&with(OPEN), Some(&earlier), MINE, Done, false), stale, "another attempt's call");
}
