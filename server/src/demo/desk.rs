//! Beside the service: the switches, the ledger, who is signed in, and the page.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::page;
use super::provider::Notification;
use super::service::App;
use super::switches::{Change, Note, Set};
use super::tickets::Ticket;
use crate::problem::plain;

pub(super) fn routes(app: App) -> Router {
    Router::new()
        .route("/api/tickets", get(list))
        .route("/api/tickets/{id}/photo", get(photo))
        .route("/demo/ledger", get(ledger))
        .route("/demo/switches", post(switch))
        .route("/demo/restart", post(restart))
        .route("/demo/session", post(session))
        .with_state(app)
        .merge(page::routes())
}

pub(super) fn json(status: StatusCode, content: &impl Serialize) -> Response<Body> {
    // Strings and numbers always serialise.
    let mut text = serde_json::to_vec(content).unwrap_or_default();
    text.push(b'\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What one way of sending came to.
#[derive(Debug, Default, Serialize)]
struct Count {
    /// Things that people wanted, as far as anything of them arrived.
    intents: usize,
    /// Rows.
    effects: usize,
    /// What the provider did.
    notifications: usize,
    duplicates: Vec<Duplicate>,
}

/// An intent that happened more than once.
#[derive(Debug, Serialize)]
struct Duplicate {
    intent: String,
    title: String,
    tickets: usize,
    notifications: usize,
}

#[derive(Debug, Serialize)]
struct Ledger {
    samekey: Count,
    plain: Count,
    tickets: Vec<Ticket>,
    notifications: Vec<Notification>,
    happened: Vec<Note>,
    switches: Set,
    now: u64,
}

/// Counts, and names what happened more often than somebody wanted it.
fn count(way: &str, tickets: &[Ticket], notifications: &[Notification]) -> Count {
    let mut count = Count::default();
    let mut intents = BTreeMap::<&str, Duplicate>::new();
    for ticket in tickets.iter().filter(|ticket| ticket.way == way) {
        count.effects += 1;
        let new =
            || Duplicate { intent: ticket.intent.clone(), title: ticket.title.clone(), tickets: 0, notifications: 0 };
        intents.entry(&ticket.intent).or_insert_with(new).tickets += 1;
    }
    for sent in notifications.iter().filter(|sent| sent.way == way) {
        count.notifications += 1;
        let new = || Duplicate { intent: sent.intent.clone(), title: sent.title.clone(), tickets: 0, notifications: 0 };
        intents.entry(&sent.intent).or_insert_with(new).notifications += 1;
    }
    count.intents = intents.len();
    count.duplicates = intents.into_values().filter(|one| one.tickets > 1 || one.notifications > 1).collect();
    count
}

async fn ledger(State(app): State<App>) -> Response<Body> {
    let Ok(tickets) = app.tickets.list().await else { return unreadable() };
    let notifications = app.provider.sent();
    let ledger = Ledger {
        samekey: count("samekey", &tickets, &notifications),
        plain: count("plain", &tickets, &notifications),
        tickets,
        notifications,
        happened: app.switches.notes(),
        switches: app.switches.set(),
        now: super::switches::now(),
    };
    json(StatusCode::OK, &ledger)
}

async fn list(State(app): State<App>) -> Response<Body> {
    match app.tickets.list().await {
        Ok(tickets) => json(StatusCode::OK, &tickets),
        Err(_) => unreadable(),
    }
}

async fn photo(State(app): State<App>, Path(id): Path<i64>) -> Response<Body> {
    match app.tickets.photo(id).await {
        Ok(Some(photo)) => json(StatusCode::OK, &photo),
        Ok(None) => plain(StatusCode::NOT_FOUND, "There is no such ticket."),
        Err(_) => unreadable(),
    }
}

fn unreadable() -> Response<Body> {
    plain(StatusCode::INTERNAL_SERVER_ERROR, "The tickets could not be read.")
}

async fn switch(State(app): State<App>, body: Bytes) -> Response<Body> {
    match serde_json::from_slice::<Change>(&body) {
        Ok(change) => {
            app.switches.change(change);
            json(StatusCode::OK, &app.switches.set())
        }
        Err(error) => plain(StatusCode::UNPROCESSABLE_ENTITY, &format!("No such switch: {error}.")),
    }
}

async fn restart(State(app): State<App>) -> StatusCode {
    app.switches.restart();
    StatusCode::ACCEPTED
}

/// Whether somebody is signed in from now on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Session {
    user: String,
    signed_in: bool,
}

async fn session(State(app): State<App>, body: Bytes) -> Response<Body> {
    match serde_json::from_slice::<Session>(&body) {
        Ok(Session { user, signed_in }) => {
            app.switches.sign(&user, signed_in);
            json(StatusCode::OK, &signed_in)
        }
        Err(error) => plain(StatusCode::UNPROCESSABLE_ENTITY, &format!("No session: {error}.")),
    }
}
