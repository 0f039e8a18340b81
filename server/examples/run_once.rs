//! One transaction for claim, effect and answer: an axum service with a pool of SQLite connections.
//!
//! ```console
//! $ cargo run -p samekey --example run_once
//! $ curl -i localhost:3000/tickets -H 'X-User: ann' -H 'Idempotency-Key: k1' -H 'Content-Type: application/json' -d '{"title":"No light"}'
//! ```

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use deadpool_sqlite::{Config, Pool, Runtime};
use samekey::{Actor, Answer, Command, CommandLayer, Outcome, Policy, RunError, sqlite};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct NewTicket {
    title: String,
}

#[derive(Serialize)]
struct Ticket {
    id: i64,
    title: String,
}

#[derive(Clone)]
struct App {
    db: Pool,
    create: Policy,
}

enum AppError {
    Run(RunError<rusqlite::Error>),
    Pool,
}

impl From<RunError<rusqlite::Error>> for AppError {
    fn from(error: RunError<rusqlite::Error>) -> Self {
        Self::Run(error)
    }
}

impl From<deadpool_sqlite::PoolError> for AppError {
    fn from(_: deadpool_sqlite::PoolError) -> Self {
        Self::Pool
    }
}

impl From<deadpool_sqlite::InteractError> for AppError {
    fn from(_: deadpool_sqlite::InteractError) -> Self {
        Self::Pool
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Run(RunError::Refused(problem)) => problem.into_response(),
            Self::Run(_) | Self::Pool => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }
}

async fn create(State(app): State<App>, command: Command, Json(input): Json<NewTicket>) -> Result<Outcome, AppError> {
    let outcome = app
        .db
        .get()
        .await?
        .interact(move |conn| {
            sqlite::run_once(conn, &command, &app.create, |tx| {
                if input.title.is_empty() {
                    return Ok(Answer::empty(StatusCode::UNPROCESSABLE_ENTITY)); // terminal, stored
                }
                tx.execute("INSERT INTO tickets (title) VALUES (?1)", [&input.title])?; // Err: rolled back, not stored
                let ticket = Ticket { id: tx.last_insert_rowid(), title: input.title };
                Ok(Answer::json(StatusCode::CREATED, &ticket).result_id(ticket.id.to_string()))
            })
        })
        .await??;
    Ok(outcome)
}

/// The service over this database file.
async fn app(path: &std::path::Path) -> Router {
    let db = Config::new(path).create_pool(Runtime::Tokio1).unwrap();
    let tables = "CREATE TABLE IF NOT EXISTS tickets (id INTEGER PRIMARY KEY, title TEXT NOT NULL)";
    db.get()
        .await
        .unwrap()
        .interact(move |conn| {
            sqlite::migrate(conn)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(conn.execute_batch(tables)?)
        })
        .await
        .unwrap()
        .unwrap();
    let policy = Policy::new("tickets.create");
    // Who asks comes from your authentication; a header stands for it here.
    let commands = CommandLayer::new(policy.clone())
        .actor(|parts| parts.headers.get("x-user").and_then(|user| user.to_str().ok()).map(Actor::new));
    Router::new().route("/tickets", post(create).layer(commands)).with_state(App { db, create: policy })
}

#[tokio::main]
async fn main() {
    let app = app("app.db".as_ref()).await;
    axum::serve(tokio::net::TcpListener::bind("127.0.0.1:3000").await.unwrap(), app).await.unwrap();
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn send(
        app: &Router,
        key: Option<&str>,
        user: Option<&str>,
        body: &'static str,
    ) -> (StatusCode, String, String) {
        let mut request = Request::post("/tickets").header("content-type", "application/json");
        for (name, value) in [("idempotency-key", key), ("x-user", user)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let answer = app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let header = |name| {
            answer.headers().get(name).map_or("", |value: &http::HeaderValue| value.to_str().unwrap()).to_owned()
        };
        let (status, state) = (answer.status(), header("samekey-state"));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, state, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_ticket_is_made_once_whatever_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(&folder.path().join("app.db")).await;
        let ann = Some("ann");
        let ticket = r#"{"title":"No light"}"#;
        let first = send(&app, Some("k1"), ann, ticket).await;
        assert_eq!((first.0, first.1.as_str()), (StatusCode::CREATED, "completed;attempt=1"));
        assert_eq!(send(&app, Some("k1"), ann, r#"{ "title": "No light" }"#).await, first, "the stored answer");
        assert_eq!(send(&app, Some("k1"), ann, r#"{"title":"No heat"}"#).await.0, StatusCode::CONFLICT);
        assert_eq!(send(&app, Some("k2"), ann, r#"{"title":""}"#).await.0, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(send(&app, Some("k1"), None, ticket).await.0, StatusCode::UNAUTHORIZED);
        assert_eq!(send(&app, None, ann, ticket).await.0, StatusCode::BAD_REQUEST);
        assert_eq!(send(&app, Some("a b"), ann, ticket).await.0, StatusCode::BAD_REQUEST);
        let bobs = send(&app, Some("k1"), Some("bob"), ticket).await;
        assert!(bobs.2.contains("\"id\":2"), "another actor's key is another key: {bobs:?}");
    }
}
