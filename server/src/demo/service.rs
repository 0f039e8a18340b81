//! The part that restarts: the store, the layer, the routes, and who may settle what.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::header::{AUTHORIZATION, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::desk::{self, json};
use super::network::{self, Lost, whole};
use super::provider::{Notification, Provider};
use super::switches::Switches;
use super::tickets::{From, NewTicket, Tickets};
use crate::admin::{self, Guard, Phase, Tokens};
use crate::observe::Exporter;
use crate::problem::plain;
use crate::routes::Prefix;
use crate::{Actor, Answer, IdempotencyLayer, Policy, Probe, Probed, Recovery, ResultId, RunError, Running, Store};

/// The command that clients send.
const CREATE: &str = "tickets.create";
/// Its row, as a command of its own.
pub(super) const ROW: &str = "tickets.row";
/// Its effect outside the database.
const NOTIFY: &str = "notify";
/// The people of the demo. Their tokens are their names.
const USERS: [&str; 2] = ["ann", "ben"];
/// Whose intent a request is for, so that the ledger can count; samekey does not look at it.
const INTENT: &str = "demo-intent";
/// How long a slow handler takes: longer than the page waits for an answer.
const SLOW: Duration = Duration::from_secs(4);
/// How long handlers may go on when the server restarts. Not long enough for a slow one: that is what restarts are like.
const GRACE: Duration = Duration::from_millis(300);

/// A contract whose times suit somebody who watches.
fn policy() -> Policy {
    Policy::new(CREATE)
        .recovery(Recovery::Probe)
        .journaled(true) // the row is a command of its own, the notification stands in the journal
        .lease(Duration::from_secs(5))
        .timeout(Duration::from_secs(10))
        // The provider takes three seconds at most: after six nothing of a notification can be under way.
        .probe_after_uncertain(Duration::from_secs(6))
        .wait(Duration::from_secs(2), Duration::from_secs(10))
        .max_body(1 << 20)
}

/// What handlers need. Clones are the same.
#[derive(Clone)]
pub(super) struct App {
    pub(super) tickets: Tickets,
    pub(super) provider: Provider,
    pub(super) switches: Arc<Switches>,
}

/// A started server.
pub(super) struct Service {
    store: Store,
    layer: IdempotencyLayer,
    token_file: std::path::PathBuf,
    tasks: Vec<JoinHandle<()>>,
}

impl Service {
    pub(super) async fn open(
        path: &Path,
        provider: &Provider,
        switches: &Arc<Switches>,
        exporter: &Exporter,
        [public, admin]: [TcpListener; 2],
    ) -> anyhow::Result<Self> {
        let store = Store::sqlite(path).await.context("the store cannot be used")?;
        // Behind the store, which takes no file that other programs made.
        let tickets = Tickets::open(path)?;
        let app = App { tickets, provider: provider.clone(), switches: Arc::clone(switches) };
        store.policies().add(Policy::new(ROW));
        store.probe(CREATE, probe(app.clone()));
        let layer = IdempotencyLayer::new(store.clone())
            .actor(|parts| parts.extensions.get::<User>().map(|user| Actor::new(user.0)));
        let routes = Router::new()
            .route("/api/tickets", post(create).layer(layer.policy(policy())))
            .with_state(app.clone())
            .merge(layer.routes())
            .layer(from_fn_with_state(app.clone(), authenticate))
            .merge(desk::routes(app));
        let token_file = admin::default_file(path);
        let guard = Guard::new(Tokens::open(&token_file)?);
        let admin_routes =
            admin::routes(store.clone(), Phase::default(), &guard, exporter.clone(), layer.api(), Prefix::default());
        let tasks = vec![
            tokio::spawn(through(public, routes, Arc::clone(switches))),
            tokio::spawn(admin::serve(admin, admin_routes, std::future::pending())),
            tokio::spawn({
                let layer = layer.clone();
                async move { layer.observe().await }
            }),
        ];
        Ok(Self { store, layer, token_file, tasks })
    }

    /// The token of the operator's page.
    pub(super) fn token(&self) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(&self.token_file).context("the token file")?;
        let token = text.split_whitespace().find(|word| word.starts_with("samekey_"));
        Ok(token.context("the token file holds no token")?.to_owned())
    }

    /// As a process ends that does not wait: its connections break, and whatever still runs finds the store closed.
    pub(super) async fn close(self) {
        for task in self.tasks {
            task.abort();
            // Aborted or ended: its listener is closed.
            let _ = task.await;
        }
        self.layer.drain(GRACE).await;
        self.store.close().await;
    }
}

/// The network before the service.
async fn through(listener: TcpListener, routes: Router, switches: Arc<Switches>) {
    let answer = move |request: Request<hyper::body::Incoming>| {
        let (routes, switches) = (routes.clone(), Arc::clone(&switches));
        async move {
            if request.method() != Method::POST || request.uri().path() != "/api/tickets" {
                return ask(routes, request.map(Body::new)).await;
            }
            let request = whole(request).await?;
            if switches.take(|set| &mut set.lose_request) {
                switches.note("a request got lost on its way");
                return Err(Lost);
            }
            let again = switches.set().duplicate.then(|| copy(&request));
            let answer = ask(routes.clone(), request.map(Body::from));
            let answer = match again {
                Some(again) => {
                    switches.note("a request arrived twice");
                    tokio::join!(answer, ask(routes, again)).1
                }
                None => answer.await,
            };
            if switches.take(|set| &mut set.lose_answer) {
                switches.note("an answer got lost on its way");
                return Err(Lost);
            }
            answer
        }
    };
    network::serve(listener, answer).await;
}

async fn ask(routes: Router, request: Request) -> Result<Response, Lost> {
    Ok(routes.oneshot(request).await.unwrap_or_else(|never| match never {}))
}

fn copy(request: &http::Request<Bytes>) -> Request {
    let mut again = Request::new(Body::from(request.body().clone()));
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// Who is signed in.
#[derive(Clone, Copy)]
struct User(&'static str);

/// Stands for the authentication of a real service.
async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if let Some(user) = user(request.headers()).filter(|user| app.switches.is_signed_in(user)) {
        request.extensions_mut().insert(User(user));
    }
    next.run(request).await
}

fn user(headers: &HeaderMap) -> Option<&'static str> {
    let token = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    USERS.into_iter().find(|user| *user == token)
}

/// Makes a ticket. With a claim: one row and one notification, however often it is asked. Without: what was asked for.
async fn create(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(User(author)) = parts.extensions.get().copied() else {
        return plain(StatusCode::UNAUTHORIZED, "Sign in first: Authorization: Bearer ann.");
    };
    let Ok(body) = to_bytes(body, 1 << 20).await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "A ticket has at most 1 MiB.");
    };
    let ticket = match NewTicket::read(&body) {
        Ok(ticket) => ticket,
        Err(why) => return plain(StatusCode::UNPROCESSABLE_ENTITY, &why),
    };
    if app.switches.set().slow {
        tokio::time::sleep(SLOW).await;
    }
    let label = parts.headers.get(INTENT).and_then(|label| label.to_str().ok()).filter(|label| label.len() <= 100);
    let told = match parts.extensions.get::<Running>() {
        Some(running) => once(&app, running, ticket, author, label).await,
        None => again(&app, ticket, author, label).await,
    };
    told.unwrap_or_else(|refused| refused)
}

/// The row is a command of its own and the call stands in the journal, so a further attempt repeats neither.
async fn once(
    app: &App,
    running: &Running,
    ticket: NewTicket,
    author: &str,
    label: Option<&str>,
) -> Result<Response, Response> {
    let intent = label.unwrap_or(running.key().expose()).to_owned();
    let mut notification = notification(&ticket, "samekey", &intent);
    let from = From { author: author.to_owned(), intent };
    let row = app.tickets.once(ticket, from, running.key().clone(), running.provider_key().to_owned()).await;
    let id = match row {
        Ok(row) => serde_json::from_slice(&row.answer.body).map_err(|error| failed(&error))?,
        Err(RunError::Refused(problem)) => return Err(problem.into_response()),
        Err(error) => return Err(failed(&error)),
    };
    notification.ticket = id;
    let tell = |key: crate::ProviderKey| async move { app.provider.tell(key.as_str(), &notification).await };
    let number: u64 = running.effect(NOTIFY, tell).await.map_err(|error| {
        app.switches.note(format!("ticket {id}: {error}"));
        error.into_response()
    })?;
    tracing::debug!(ticket = id, notification = number, "notified");
    Ok((ResultId::new(id.to_string()), made(id)).into_response())
}

/// As services are that know nothing of keys.
async fn again(app: &App, ticket: NewTicket, author: &str, label: Option<&str>) -> Result<Response, Response> {
    let mut reference = [0; 16];
    crate::random(&mut reference);
    let reference = crate::hex(&reference);
    let intent = label.map_or_else(|| reference.clone(), str::to_owned);
    let mut notification = notification(&ticket, "plain", &intent);
    let from = From { author: author.to_owned(), intent };
    let id = app.tickets.again(ticket, from).await.map_err(|error| failed(&error))?;
    notification.ticket = id;
    app.provider.tell(&reference, &notification).await.map_err(|error| {
        app.switches.note(format!("ticket {id}: {error}"));
        plain(StatusCode::BAD_GATEWAY, &error.to_string())
    })?;
    Ok(made(id))
}

fn notification(ticket: &NewTicket, way: &str, intent: &str) -> Notification {
    let title = ticket.title.clone();
    Notification { ticket: 0, title, way: way.into(), intent: intent.into(), reference: String::new(), at: 0 }
}

/// The answer of a ticket that was made.
fn made(id: i64) -> Response {
    let mut response = json(StatusCode::CREATED, &serde_json::json!({ "id": id }));
    if let Ok(location) = HeaderValue::try_from(format!("/api/tickets/{id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn failed(error: &dyn std::error::Error) -> Response {
    tracing::error!(%error, "a ticket could not be written");
    plain(StatusCode::INTERNAL_SERVER_ERROR, "The ticket could not be written.")
}

/// Finds out what became of a ticket whose handler did not live to tell.
fn probe(app: App) -> Probe {
    Probe::new(move |about| {
        let app = app.clone();
        async move {
            let called = about.effects.iter().find(|effect| effect.name == NOTIFY);
            let Some(called) = called else { return Ok::<_, crate::BoxError>(Probed::Absent) };
            if !app.provider.knows(&called.provider_key).await? {
                app.switches.note("samekey asked the provider: it had not notified");
                return Ok(Probed::Absent);
            }
            let Some(id) = app.tickets.made_by(about.provider_key).await? else {
                return Ok(Probed::Unclear("the provider knows of a ticket that has no row".into()));
            };
            app.switches.note(format!("samekey asked the provider: ticket {id} was notified"));
            let answer = Answer::json(StatusCode::CREATED, &serde_json::json!({ "id": id }));
            Ok(Probed::Done(answer.result_id(id.to_string())))
        }
    })
}
