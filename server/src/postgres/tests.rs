//! Claim, effect and answer are one, whatever the connection was like and whoever else is there.

use http::StatusCode;
use samekey_core::receipt::Word;
use samekey_core::{Actor, Key};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::*;
use crate::command::Fingerprint;
use crate::store::conformance::server::Postgres;

/// A database of its own on the server of this process.
struct App {
    url: String,
    policy: Policy,
    _server: Arc<Postgres>,
}

impl App {
    async fn new() -> Option<Self> {
        let server = tokio::task::block_in_place(Postgres::of_this_process)?;
        let key = Key::mint(samekey_core::Timestamp::from_millis(0), rand());
        let name = format!("app_{}", key.expose().replace('-', "_"));
        let url = format!("{}?sslmode=disable&options=-csearch_path%3D{name}", server.url("postgres"));
        let app = Self { url, policy: Policy::new("tickets.create"), _server: server };
        let mut db = app.connect().await;
        db.batch_execute(&format!("CREATE SCHEMA {name}; CREATE TABLE tickets (id bigserial, title text NOT NULL)"))
            .await
            .unwrap();
        migrate(&mut db).await.unwrap();
        migrate(&mut db).await.unwrap();
        Some(app)
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.connect().await.query_one(&sql, &[]).await.unwrap().get(0)
    }

    async fn create(
        &self,
        db: &mut Client,
        key: &str,
        title: &str,
    ) -> Result<Outcome, RunError<tokio_postgres::Error>> {
        run_once(db, &command(key, title), &self.policy, async |tx| insert(tx, title).await).await
    }
}

fn rand() -> [u8; 10] {
    let mut bytes = [0; 10];
    crate::random(&mut bytes);
    bytes
}

fn command(key: &str, title: &str) -> Command {
    let fingerprint = Fingerprint::of_json(&serde_json::json!({ "title": title })).unwrap();
    Command::new(Actor::new("ann"), "tickets.create", key.parse().unwrap(), fingerprint)
}

async fn insert(tx: &Transaction<'_>, title: &str) -> Result<Answer, tokio_postgres::Error> {
    let row = tx.query_one("INSERT INTO tickets (title) VALUES ($1) RETURNING id", &[&title]).await?;
    let id: i64 = row.get(0);
    Ok(Answer::json(StatusCode::CREATED, &id).result_id(id.to_string()))
}

fn refused<E: std::fmt::Debug>(ended: Result<Outcome, RunError<E>>) -> Code {
    match ended {
        Err(RunError::Refused(problem)) => problem.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_once_and_its_answer_is_replayed() {
    let Some(app) = App::new().await else { return };
    let mut db = app.connect().await;
    let first = app.create(&mut db, "k1", "No light").await.unwrap();
    let again = app.create(&mut db, "k1", "No light").await.unwrap();
    assert_eq!((first.replayed, again.replayed, &again.answer), (false, true, &first.answer));
    assert_eq!(refused(app.create(&mut db, "k1", "Other").await), Code::KeyPayloadMismatch);
    assert_eq!(app.count("tickets").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_fails_leaves_nothing_and_may_run_again() {
    let Some(app) = App::new().await else { return };
    let mut db = app.connect().await;
    let first = command("k1", "No light");
    let ended = run_once(&mut db, &first, &app.policy, async |tx| {
        insert(tx, "No light").await.map_err(drop)?;
        Err(())
    });
    assert!(matches!(ended.await, Err(RunError::Effect(()))));
    assert_eq!((app.count("tickets").await, app.count("idempotency_keys").await), (0, 0));
    assert!(!app.create(&mut db, "k1", "No light").await.unwrap().replayed);
    let refusal = async |_: &Transaction<'_>| Ok::<_, ()>(Answer::empty(StatusCode::UNPROCESSABLE_ENTITY));
    for replayed in [false, true] {
        let ended = run_once(&mut db, &command("k2", ""), &app.policy, refusal).await.unwrap();
        assert_eq!((ended.replayed, ended.receipt.word), (replayed, Word::Failed));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_with_one_key_have_one_effect() {
    let Some(app) = App::new().await else { return };
    let app = Arc::new(app);
    let mut tasks = JoinSet::new();
    for _ in 0..12 {
        let app = Arc::clone(&app);
        tasks.spawn(async move {
            let mut db = app.connect().await;
            app.create(&mut db, "k1", "No light").await.unwrap().replayed
        });
    }
    let replayed = tasks.join_all().await.into_iter().filter(|replayed| *replayed).count();
    assert_eq!((replayed, app.count("tickets").await), (11, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_waits_for_the_first_and_hears_that_it_runs() {
    let Some(app) = App::new().await else { return };
    let (mut one, mut other) = (app.connect().await, app.connect().await);
    let tx = one.transaction().await.unwrap();
    let Ok(Begun::Run(open)) = begin(&tx, &command("k1", "No light"), &app.policy).await else { panic!("it runs") };
    let hasty = app.policy.clone().wait(Duration::from_millis(50), Duration::from_secs(1));
    let effect = async |tx: &Transaction<'_>| insert(tx, "No light").await;
    let ended = run_once(&mut other, &command("k1", "No light"), &hasty, effect).await;
    assert_eq!(refused(ended), Code::OperationInProgress);
    let waiting = app.create(&mut other, "k1", "No light");
    let (waited, ()) = tokio::join!(waiting, async {
        let answer = insert(&tx, "No light").await.unwrap();
        open.finish(&tx, answer).await.unwrap();
        tx.commit().await.unwrap();
    });
    assert!(waited.unwrap().replayed, "it waited");
    assert_eq!(app.count("tickets").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_tear_claim_and_effect_apart_is_refused() {
    let Some(app) = App::new().await else { return };
    let mut db = app.connect().await;
    db.batch_execute("BEGIN").await.unwrap();
    let error = app.create(&mut db, "k1", "No light").await.unwrap_err();
    assert!(error.to_string().contains("postgres::begin"), "{error}");
    db.batch_execute("ROLLBACK").await.unwrap();
    let tx = db.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    assert_eq!(begin(&tx, &command("k1", "x"), &app.policy).await.unwrap_err().code, Code::StoreUnavailable);
    drop(tx);
    db.batch_execute("CREATE TEMPORARY TABLE idempotency_keys (x int)").await.unwrap();
    let error = app.create(&mut db, "k1", "No light").await.unwrap_err();
    assert!(error.to_string().contains("temporary table"), "{error}");
    assert_eq!(app.count("tickets").await, 0);
}

/// In a handler the future has to be `Send`, and the effect borrows what the handler has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_in_a_task() {
    let Some(app) = App::new().await else { return };
    let mut db = app.connect().await;
    let policy = app.policy.clone();
    let task = tokio::spawn(async move {
        let title = String::from("No light");
        run_once(&mut db, &command("k1", &title), &policy, async |tx| insert(tx, &title).await).await
    });
    assert!(!task.await.unwrap().unwrap().replayed);
}
