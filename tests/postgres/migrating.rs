//! `samekey migrate`: a file becomes a database, also if it is interrupted.

use std::path::Path;
use std::process::Stdio;

use rusqlite::Connection;
use support::build::samekey;
use support::{Request, Serve, Upstream};
use tokio::process::Command;

use crate::servers::{serve, server};

fn migrate(from: &Path, to: &str) -> Command {
    let mut command = Command::new(samekey());
    command.args(["migrate", "--from"]).arg(format!("sqlite:{}", from.display())).env("SAMEKEY_STORE", to);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// More records than one page holds, made of one that a server wrote.
fn multiply(file: &Path, records: usize) {
    let conn = Connection::open(file).expect("the store's file");
    let columns: String = conn
        .query_row(
            "SELECT group_concat('\"' || name || '\"') FROM pragma_table_info('idempotency_keys') \
             WHERE name NOT IN ('id', 'idem_key')",
            [],
            |row| row.get(0),
        )
        .expect("its columns");
    conn.execute(
        &format!(
            "INSERT INTO idempotency_keys (idem_key, {columns}) SELECT 'copy-' || n.value, {columns} \
             FROM idempotency_keys, generate_series(1, ?1) AS n WHERE idem_key = 'k'"
        )
        .replace("generate_series(1, ?1) AS n", "(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ?1) SELECT value FROM n) AS n"),
        [records as i64],
    )
    .expect("copies");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_was_interrupted_twice_ends_complete_and_equal() {
    let Some(database) = server() else { return };
    let records = std::env::var("SAMEKEY_MIGRATE_RECORDS").map_or(6_000, |text| text.parse().expect("a number"));
    let upstream = Upstream::start().await;
    let in_a_file = Serve::before(&upstream).start().await;
    let first = in_a_file.send(&Request::order("k")).await;
    first.ran(201, "completed", 1);
    in_a_file.send(&Request::order("lost")).await;
    // Its folder goes with it.
    let stopped = in_a_file.kill().await;
    let file = stopped.store();
    multiply(&file, records);
    let url = format!("{}?sslmode=disable", database.url("postgres"));

    for interrupted in 1..=2_u64 {
        let mut child = migrate(&file, &url).spawn().expect("samekey migrate");
        let reached = |count: i64| count as usize >= records * interrupted as usize / 3;
        support::patience::patiently("a part of the migration", async {
            while child.try_wait().expect("its status").is_none() && !reached(counted(&database).await) {
                tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            }
        })
        .await;
        child.kill().await.expect("killed");
        let (_, said) = serve(&upstream, &database, "postgres").refused().await;
        assert!(said.contains("samekey migrate"), "half a store is no store: {said}");
    }
    let ended = migrate(&file, &url).output().await.expect("samekey migrate");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains(&format!("{} records are in", records + 2)) && said.contains("from a run before"), "{said}");
    assert_eq!(counted(&database).await as usize, records + 2);

    let server = serve(&upstream, &database, "postgres").start().await;
    server.send(&Request::order("k")).await.replays(&first);
    server.send(&Request::order(&format!("copy-{}", records / 2))).await.replays(&first);
    server.send(&Request::order("new")).await.ran(201, "completed", 1);
    assert_eq!(upstream.effects("k"), 1);

    let twice = migrate(&file, &url).output().await.expect("samekey migrate");
    assert!(String::from_utf8_lossy(&twice.stderr).contains("not of this file"), "it is in use by now");
}

async fn counted(database: &support::Postgres) -> i64 {
    let mut psql = database.program("psql");
    psql.args(["-h", "127.0.0.1", "-p", &database.port().to_string(), "-U", "postgres", "-Atc"]);
    psql.arg("SELECT count(*) FROM idempotency_keys");
    let said = tokio::task::block_in_place(|| psql.output()).expect("psql");
    String::from_utf8_lossy(&said.stdout).trim().parse().unwrap_or(0)
}
