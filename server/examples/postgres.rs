//! Claim, effect and answer in one transaction of the application's own PostgreSQL database.
//!
//! ```console
//! $ DATABASE_URL=postgres://postgres@127.0.0.1/postgres cargo run -p samekey --features postgres --example postgres
//! ```

use axum::http::StatusCode;
use samekey::postgres::{self, Begun, tokio_postgres};
use samekey::{Actor, Answer, Command, Fingerprint, Outcome, Policy};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The claim is made in the caller's transaction: if it rolls back, so does the claim, and the same key may run again.
async fn create(
    client: &mut tokio_postgres::Client,
    command: &Command,
    policy: &Policy,
    title: &str,
) -> Result<Outcome, BoxError> {
    let tx = client.transaction().await?;
    let open = match postgres::begin(&tx, command, policy).await? {
        Begun::Run(open) => open,
        Begun::Replay(outcome) => return Ok(outcome),
    };
    let row = tx.query_one("INSERT INTO tickets (title) VALUES ($1) RETURNING id", &[&title]).await?;
    let id: i64 = row.get(0);
    let answer = Answer::json(StatusCode::CREATED, &serde_json::json!({ "id": id })).result_id(id.to_string());
    let outcome = open.finish(&tx, answer).await?;
    tx.commit().await?;
    Ok(outcome)
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "it shows what it did")]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("DATABASE_URL")?;
    println!("{}", deliver_three_times(&url).await?);
    Ok(())
}

/// As a client does that heard nothing the first two times.
async fn deliver_three_times(url: &str) -> Result<String, BoxError> {
    let (mut client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let connected = tokio::spawn(connection);
    postgres::migrate(&mut client).await?;
    client.batch_execute("CREATE TABLE IF NOT EXISTS tickets (id bigserial PRIMARY KEY, title text NOT NULL)").await?;
    let policy = Policy::new("tickets.create");
    let fingerprint = Fingerprint::of_json(&serde_json::json!({ "title": "No light" }))?;
    let command = Command::new(Actor::new("ann"), "tickets.create", "k1".parse()?, fingerprint);
    let mut told = Vec::new();
    for _ in 0..3 {
        let outcome = create(&mut client, &command, &policy, "No light").await?;
        let body = String::from_utf8_lossy(&outcome.answer.body).into_owned();
        told.push(format!("{} {body}{}", outcome.answer.status, if outcome.replayed { " (replayed)" } else { "" }));
    }
    drop(client);
    connected.await??;
    Ok(told.join("\n"))
}

#[cfg(test)]
#[path = "../../tests/support/postgres.rs"]
#[allow(dead_code, unreachable_pub, reason = "the suites' own, of which this uses a part")]
mod server;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn three_deliveries_are_one_ticket() {
        let Some(server) = tokio::task::block_in_place(|| server::Postgres::start(&["fsync=off"])) else { return };
        let told = deliver_three_times(&server.url("postgres")).await.unwrap();
        assert_eq!(
            told,
            "201 Created {\"id\":1}\n201 Created {\"id\":1} (replayed)\n201 Created {\"id\":1} (replayed)"
        );
    }
}
