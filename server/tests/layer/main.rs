//! The layer around axum handlers, on a real SQLite store.

mod anonymous;
mod binding;
mod handlers;
mod hangups;
mod routes;
mod support;
mod waiting;
