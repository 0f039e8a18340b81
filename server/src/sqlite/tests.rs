//! Claim, effect and answer are one, whatever the connection was like and whoever else is there.

use std::cell::Cell;
use std::time::Duration;

use http::StatusCode;
use http::header::{ETAG, HeaderValue, LOCATION, SET_COOKIE};
use samekey_core::receipt::Word;
use samekey_core::select::Significant;
use samekey_core::{Actor, Keep};

use super::*;
use crate::command::Fingerprint;

struct App {
    folder: tempfile::TempDir,
    db: Connection,
    policy: Policy,
}

impl App {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut db = Connection::open(folder.path().join("app.db")).unwrap();
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL)").unwrap();
        migrate(&mut db).unwrap();
        Self { folder, db, policy: Policy::new("tickets.create") }
    }

    fn another_connection(&self) -> Connection {
        Connection::open(self.folder.path().join("app.db")).unwrap()
    }

    fn create(&mut self, key: &str, title: &str) -> Result<Outcome, RunError<rusqlite::Error>> {
        let policy = self.policy.clone();
        run_once(&mut self.db, &command(key, title), &policy, |tx| insert(tx, title))
    }

    fn tickets(&self) -> u32 {
        count(&self.db, "tickets")
    }
}

fn command(key: &str, title: &str) -> Command {
    let fingerprint = Fingerprint::of_json(&serde_json::json!({ "title": title })).unwrap();
    Command::new(Actor::new("ann"), "tickets.create", key.parse().unwrap(), fingerprint)
}

fn insert(tx: &Transaction<'_>, title: &str) -> Result<Answer, rusqlite::Error> {
    tx.execute("INSERT INTO tickets (title) VALUES (?1)", [title])?;
    let id = tx.last_insert_rowid();
    Ok(Answer::json(StatusCode::CREATED, &serde_json::json!({ "id": id })).result_id(id.to_string()))
}

fn count(db: &Connection, table: &str) -> u32 {
    db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn refused(result: Result<Outcome, RunError<rusqlite::Error>>) -> Problem {
    match result {
        Err(RunError::Refused(problem)) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

fn misused(result: Result<Outcome, RunError<rusqlite::Error>>) -> String {
    match result {
        Err(RunError::Store(StoreError::Misuse { what })) => what.to_string(),
        other => panic!("no misuse: {other:?}"),
    }
}

#[test]
fn a_retry_gets_the_answer_and_no_second_effect() {
    let mut app = App::new();
    let first = app.create("k1", "No light").unwrap();
    let again = app.create("k1", "No light").unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!(first.answer, again.answer);
    assert_eq!((first.receipt.word, again.receipt), (Word::Completed, first.receipt));
    assert_eq!(app.tickets(), 1);
}

#[test]
fn another_payload_never_reaches_the_effect() {
    let mut app = App::new();
    app.create("k1", "No light").unwrap();
    assert_eq!(refused(app.create("k1", "No heat")).code, Code::KeyPayloadMismatch);
    assert_eq!(app.tickets(), 1);
}

#[test]
fn a_failed_effect_leaves_nothing_and_the_key_may_run_again() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let failed = run_once::<rusqlite::Error>(&mut app.db, &command("k1", "No light"), &policy, |tx| {
        insert(tx, "No light")?;
        tx.execute("INSERT INTO tickets (title) VALUES (NULL)", [])?;
        unreachable!("title is NOT NULL")
    });
    assert!(matches!(failed, Err(RunError::Effect(_))), "{failed:?}");
    assert_eq!((app.tickets(), count(&app.db, "idempotency_keys")), (0, 0));
    assert!(!app.create("k1", "No light").unwrap().replayed);
}

#[test]
fn a_panic_in_the_effect_leaves_nothing() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = run_once::<rusqlite::Error>(&mut app.db, &command("k1", "No light"), &policy, |tx| {
            insert(tx, "No light")?;
            panic!("after the insert")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!((app.tickets(), count(&app.db, "idempotency_keys")), (0, 0));
    assert!(!app.create("k1", "No light").unwrap().replayed);
}

#[test]
fn a_refusal_by_the_effect_is_terminal() {
    let mut app = App::new();
    let policy = app.policy.clone();
    for replayed in [false, true] {
        let outcome = run_once::<rusqlite::Error>(&mut app.db, &command("k1", ""), &policy, |_| {
            Ok(Answer::empty(StatusCode::UNPROCESSABLE_ENTITY))
        })
        .unwrap();
        assert_eq!((outcome.answer.status, outcome.replayed), (StatusCode::UNPROCESSABLE_ENTITY, replayed));
        assert_eq!(outcome.receipt.word, Word::Failed);
    }
}

#[test]
fn many_threads_with_one_key_have_one_effect() {
    let app = App::new();
    let replayed: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (mut db, policy) = (app.another_connection(), app.policy.clone());
                db.busy_timeout(Duration::from_secs(20)).unwrap();
                scope.spawn(move || {
                    let outcome = run_once(&mut db, &command("k1", "No light"), &policy, |tx| insert(tx, "No light"));
                    u32::from(outcome.unwrap().replayed)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((replayed, app.tickets()), (7, 1));
}

#[test]
fn a_lock_that_is_held_too_long_is_overload_and_nothing_ran() {
    let mut app = App::new();
    let other = app.another_connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    app.db.busy_timeout(Duration::from_millis(20)).unwrap();
    let problem = refused(app.create("k1", "No light"));
    assert_eq!(problem.code, Code::Overloaded);
    assert!(problem.retry_after.is_some());
    other.execute_batch("ROLLBACK").unwrap();
    assert!(!app.create("k1", "No light").unwrap().replayed);
    assert_eq!(app.tickets(), 1);
}

#[test]
fn a_transaction_around_it_is_refused() {
    let mut app = App::new();
    app.db.execute_batch("BEGIN").unwrap();
    let ran = Cell::new(false);
    let policy = app.policy.clone();
    let result = run_once::<rusqlite::Error>(&mut app.db, &command("k1", "x"), &policy, |_| {
        ran.set(true);
        Ok(Answer::empty(StatusCode::OK))
    });
    assert!(misused(result).contains("sqlite::begin"));
    assert!(!ran.get());
    app.db.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn a_savepoint_around_it_and_a_database_without_a_journal_are_refused() {
    let mut app = App::new();
    app.db.execute_batch("SAVEPOINT outer_one").unwrap();
    assert!(misused(app.create("k1", "x")).contains("sqlite::begin"));
    app.db.execute_batch("ROLLBACK TO outer_one; RELEASE outer_one").unwrap();
    for mode in ["DELETE", "OFF"] {
        app.db.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(())).unwrap();
    }
    assert!(misused(app.create("k1", "x")).contains("journal_mode"));
    assert_eq!(app.tickets(), 0);
}

#[test]
fn a_commit_that_a_reader_blocks_leaves_nothing() {
    let mut app = App::new();
    // Without WAL whoever reads keeps others from committing.
    app.db.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    app.db.busy_timeout(Duration::from_millis(20)).unwrap();
    let reader = app.another_connection();
    reader.execute_batch("BEGIN; SELECT * FROM tickets").unwrap();
    assert_eq!(refused(app.create("k1", "x")).code, Code::Overloaded);
    assert!(app.db.is_autocommit(), "the pool gets it back as it was");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!((app.tickets(), count(&app.db, "idempotency_keys")), (0, 0));
    assert!(!app.create("k1", "x").unwrap().replayed);
}

#[test]
fn attached_databases_and_hiding_tables_are_refused() {
    let mut app = App::new();
    let other = app.folder.path().join("other.db");
    app.db.execute("ATTACH ?1 AS archive", [other.to_str().unwrap()]).unwrap();
    assert!(misused(app.create("k1", "x")).contains("archive"));
    app.db.execute_batch("DETACH archive; CREATE TEMP TABLE idempotency_keys (id INTEGER)").unwrap();
    assert!(misused(app.create("k1", "x")).contains("temporary"));
    app.db.execute_batch("DROP TABLE temp.idempotency_keys").unwrap();
    assert!(app.create("k1", "x").is_ok());
}

#[test]
fn it_is_durable_even_where_the_application_is_not() {
    let mut app = App::new();
    app.db.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let policy = app.policy.clone();
    let during = Cell::new(0);
    run_once::<rusqlite::Error>(&mut app.db, &command("k1", "x"), &policy, |tx| {
        during.set(tx.pragma_query_value(None, "synchronous", |row| row.get(0))?);
        insert(tx, "x")
    })
    .unwrap();
    let after: i64 = app.db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!((during.get(), after), (2, 1));
}

#[test]
fn an_effect_that_ends_the_transaction_is_found_out() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let result = run_once::<rusqlite::Error>(&mut app.db, &command("k1", "x"), &policy, |tx| {
        let answer = insert(tx, "x")?;
        tx.execute_batch("COMMIT")?;
        Ok(answer)
    });
    assert!(misused(result).contains("ended the transaction"));
}

#[test]
fn only_what_may_be_replayed_is_kept() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let answer = Answer::empty(StatusCode::CREATED)
        .header(LOCATION, HeaderValue::from_static("/tickets/1"))
        .header(SET_COOKIE, HeaderValue::from_static("s=1"))
        .header(ETAG, HeaderValue::from_static("\"1\""));
    let mut run =
        || run_once::<rusqlite::Error>(&mut app.db, &command("k1", "x"), &policy, |_| Ok(answer.clone())).unwrap();
    assert!(run().answer.headers.contains_key(SET_COOKIE));
    let again = run();
    assert!(again.replayed && !again.answer.headers.contains_key(SET_COOKIE));
    assert_eq!(again.answer.headers[ETAG], "\"1\"");
}

#[test]
fn an_answer_that_is_not_kept_is_done_all_the_same() {
    for policy in [Policy::new("tickets.create").max_response(3), Policy::new("tickets.create").keep(Keep::Status)] {
        let mut app = App { policy, ..App::new() };
        app.create("k1", "x").unwrap();
        let problem = refused(app.create("k1", "x"));
        assert_eq!(problem.code, Code::ResponseNotStored);
        assert_eq!(problem.members["result_id"], "1");
        assert_eq!(app.tickets(), 1);
    }
}

#[test]
fn a_deploy_that_changes_what_counts_keeps_known_keys() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let sent = |significant: &Significant| {
        let body = br#"{"title":"x","ui":1}"#;
        let fingerprint = Fingerprint::of_body(Some("application/json"), None, body, significant).unwrap();
        Command::new(Actor::new("ann"), "tickets.create", "k1".parse().unwrap(), fingerprint)
    };
    for (significant, replayed) in [(Significant::everything(), false), (Significant::exclude(["/ui"]), true)] {
        let outcome = run_once(&mut app.db, &sent(&significant), &policy, |tx| insert(tx, "x")).unwrap();
        assert_eq!(outcome.replayed, replayed);
    }
}

#[test]
fn begin_and_finish_are_part_of_the_callers_transaction() {
    let mut app = App::new();
    let policy = app.policy.clone();
    for (commits, runs) in [(false, true), (true, true), (true, false)] {
        let tx = app.db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        match begin(&tx, &command("k1", "x"), &policy).unwrap() {
            Begun::Run(open) => {
                assert!(runs);
                let answer = insert(&tx, "x").unwrap();
                open.finish(&tx, answer).unwrap();
            }
            Begun::Replay(outcome) => assert!(!runs && outcome.replayed),
        }
        if commits { tx.commit().unwrap() } else { tx.rollback().unwrap() }
    }
    assert_eq!(app.tickets(), 1);
}

#[test]
fn a_commit_without_the_end_becomes_uncertain_and_never_runs_again() {
    let mut app = App::new();
    app.policy = app.policy.lease(Duration::from_millis(1)).timeout(Duration::from_millis(1));
    let policy = app.policy.clone();
    let tx = app.db.transaction().unwrap();
    let Begun::Run(open) = begin(&tx, &command("k1", "x"), &policy).unwrap() else { panic!("a replay") };
    assert_eq!(open.attempt(), 1);
    tx.commit().unwrap();
    std::thread::sleep(Duration::from_millis(3)); // the lease is what time tells
    assert_eq!(refused(app.create("k1", "x")).code, Code::OutcomeUncertain);
    assert_eq!(refused(app.create("k1", "x")).code, Code::OutcomeUncertain);
    assert_eq!(app.tickets(), 0);
}

#[test]
fn finish_belongs_into_the_transaction_of_begin() {
    let mut app = App::new();
    let policy = app.policy.clone();
    let tx = app.db.transaction().unwrap();
    let Begun::Run(open) = begin(&tx, &command("k1", "x"), &policy).unwrap() else { panic!("a replay") };
    tx.rollback().unwrap();
    let tx = app.db.transaction().unwrap();
    assert!(matches!(open.finish(&tx, Answer::empty(StatusCode::OK)), Err(StoreError::Misuse { .. })));
}

#[test]
fn migrating_twice_changes_nothing_and_leaves_the_applications_version_alone() {
    let mut app = App::new();
    app.db.pragma_update(None, "user_version", 7).unwrap();
    app.create("k1", "x").unwrap();
    migrate(&mut app.db).unwrap();
    assert!(app.create("k1", "x").unwrap().replayed);
    let version: i64 = app.db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
}
