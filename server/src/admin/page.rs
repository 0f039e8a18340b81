//! The operator's page: files that anybody may have. What they show comes from the routes behind the token.

use axum::Router;
use axum::extract::Path;
use axum::response::{Redirect, Response};
use axum::routing::get;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, StatusCode};
use rust_embed::Embed;

use crate::problem::plain;
use crate::static_file;

#[derive(Embed)]
#[folder = "../www/ops"]
struct Files;

#[derive(Embed)]
#[folder = "../www/shared"]
struct Shared;

/// Nothing from elsewhere, in no frame: what it shows is for operators only.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router {
    Router::new()
        .route("/ops", get(async || Redirect::permanent("/ops/")))
        .route("/ops/", get(async |headers: HeaderMap| file("index.html", &headers)))
        .route("/ops/{name}", get(async |Path(name): Path<String>, headers: HeaderMap| file(&name, &headers)))
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(name).or_else(|| Shared::get(name)) else {
        return plain(StatusCode::NOT_FOUND, "The page has no such file.");
    };
    let mut response = static_file::answer(name, file.data, headers.get(IF_NONE_MATCH));
    static_file::guard(&mut response, POLICY);
    response
}
