//! `run_once` on connections that a pool hands out; `examples/run_once.rs` shows deadpool.

use http::StatusCode;
use r2d2_sqlite::SqliteConnectionManager;
use samekey::{Actor, Answer, Command, Fingerprint, Outcome, Policy, RunError, sqlite};

type Pool = r2d2::Pool<SqliteConnectionManager>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler does inside `spawn_blocking`.
fn create(pool: &Pool, command: &Command, policy: &Policy, title: &str) -> Result<Outcome, BoxError> {
    let mut conn = pool.get()?;
    let outcome = sqlite::run_once(&mut conn, command, policy, |tx| {
        tx.execute("INSERT INTO tickets (title) VALUES (?1)", [title])?;
        Ok::<_, rusqlite::Error>(Answer::json(StatusCode::CREATED, &tx.last_insert_rowid()))
    })?;
    Ok(outcome)
}

#[tokio::test]
async fn r2d2_hands_out_connections_and_gets_them_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let manager = SqliteConnectionManager::file(folder.path().join("app.db")).with_init(|conn| {
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "NORMAL")
    });
    let pool = r2d2::Pool::builder().max_size(4).build(manager).unwrap();
    let mut conn = pool.get().unwrap();
    sqlite::migrate(&mut conn).unwrap();
    conn.execute_batch("CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL)").unwrap();
    drop(conn);

    let policy = Policy::new("tickets.create");
    let command = |key: &str| {
        let fingerprint = Fingerprint::of_json(&serde_json::json!({ "title": "No light" })).unwrap();
        Command::new(Actor::new("ann"), "tickets.create", key.parse().unwrap(), fingerprint)
    };
    let deliveries: Vec<_> = (0..8)
        .map(|_| {
            let (pool, command, policy) = (pool.clone(), command("k1"), policy.clone());
            tokio::task::spawn_blocking(move || create(&pool, &command, &policy, "No light"))
        })
        .collect();
    let mut replayed = 0;
    for delivery in deliveries {
        replayed += u32::from(delivery.await.unwrap().unwrap().replayed);
    }
    assert_eq!(replayed, 7);

    let mut conn = pool.get().unwrap();
    let failed = sqlite::run_once(&mut conn, &command("k2"), &policy, |tx| {
        tx.execute("INSERT INTO tickets (title) VALUES (NULL)", [])?;
        unreachable!("title is NOT NULL")
    });
    assert!(matches!(failed, Err(RunError::<rusqlite::Error>::Effect(_))), "{failed:?}");
    assert!(conn.is_autocommit());
    let synchronous: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    let tickets: i64 = conn.query_row("SELECT count(*) FROM tickets", [], |row| row.get(0)).unwrap();
    assert_eq!((synchronous, tickets), (1, 1));
}
