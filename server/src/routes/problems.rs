//! `GET problems/<code>`: the page that `type` leads to, made of core's table.

use std::fmt::Write as _;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use samekey_core::problem::Code;
use serde_json::{Value, json};
use std::sync::Arc;

use super::plain;
use crate::layer::Shared;

/// The pages change with the program only.
const FRESH: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// The pages load nothing; their style stands in them.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");

/// What the caller reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Text,
}

pub(super) async fn get(State(shared): State<Arc<Shared>>, Path(code): Path<String>, request: Request) -> Response {
    let Some(code) = Code::from_name(&code) else {
        return plain(StatusCode::NOT_FOUND, "There is no such code.");
    };
    let (row, prefix) = (code.row(), &*shared.prefix);
    match form(request.headers()) {
        Form::Html => {
            let body = format!("<p><a href=\"{prefix}/problems/\">All codes</a></p>\n{}", html_facts(code));
            page(Form::Html, html(row.name, row.title, &body))
        }
        Form::Json => page(Form::Json, json_of(code, prefix).to_string()),
        Form::Text => page(Form::Text, text_of(code)),
    }
}

pub(super) async fn index(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let prefix = &*shared.prefix;
    let codes = Code::ALL.iter().copied();
    match form(request.headers()) {
        Form::Html => {
            let rows = codes.fold(String::from("<dl>\n"), |mut rows, code| {
                let row = code.row();
                let _ = writeln!(
                    rows,
                    "<dt><a href=\"{prefix}/problems/{}\"><code>{}</code></a> {}<dd>{}",
                    row.name, row.name, row.status, row.title
                );
                rows
            });
            page(Form::Html, html("Codes", "What a refusal says, and what to do next.", &(rows + "</dl>")))
        }
        Form::Json => page(Form::Json, Value::from_iter(codes.map(|code| json_of(code, prefix))).to_string()),
        Form::Text => {
            page(Form::Text, codes.map(|code| format!("{}  {}\n", code.as_str(), code.row().title)).collect())
        }
    }
}

/// Browsers name `text/html`, programs JSON; whoever names neither, as curl, gets text.
fn form(headers: &HeaderMap) -> Form {
    let accepts = |kind: &str| {
        let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let refused = |part: &str| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
            parts.next().is_some_and(|named| named.eq_ignore_ascii_case(kind)) && !parts.any(refused)
        })
    };
    match () {
        () if accepts("text/html") => Form::Html,
        () if accepts("application/problem+json") || accepts("application/json") => Form::Json,
        () => Form::Text,
    }
}

fn page(form: Form, body: String) -> Response {
    let kind = match form {
        Form::Html => "text/html; charset=utf-8",
        Form::Json => "application/json",
        Form::Text => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, FRESH);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Nothing of it comes from a request: names and texts are core's.
fn html(name: &str, title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{name}: samekey</title>\n\
         <style>\n:root {{ color-scheme: light dark }}\n\
         body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }}\n\
         h1 {{ font-size: 1.4rem; overflow-wrap: anywhere }}\nh2 {{ font-size: 1rem; margin-bottom: 0 }}\n\
         p {{ margin-top: 0.25rem }}\ndd {{ margin: 0 0 0.75rem }}\n</style>\n<h1>{name}</h1>\n<p>{title}</p>\n{body}\n"
    )
}

fn html_facts(code: Code) -> String {
    let (row, page) = (code.row(), code.page());
    format!(
        "<h2>What happened</h2>\n<p>{}</p>\n<h2>What the client does next: <code>{}</code></h2>\n<p>{}</p>\n\
         <h2>What the operator does</h2>\n<p>{}</p>\n<h2>On the wire</h2>\n\
         <p>Status {}, <code>Samekey-State: {}</code></p>",
        page.happened,
        row.next.as_str(),
        page.client,
        page.operator,
        row.status,
        state(code),
    )
}

fn text_of(code: Code) -> String {
    let (row, page) = (code.row(), code.page());
    format!(
        "{}\n{}\n\nWhat happened\n{}\n\nWhat the client does next: {}\n{}\n\nWhat the operator does\n{}\n\n\
         On the wire\nStatus {}, Samekey-State: {}\n",
        row.name,
        row.title,
        page.happened,
        row.next.as_str(),
        page.client,
        page.operator,
        row.status,
        state(code),
    )
}

fn json_of(code: Code, prefix: &str) -> Value {
    let (row, page) = (code.row(), code.page());
    json!({
        "type": format!("{prefix}/problems/{}", row.name),
        "code": row.name,
        "title": row.title,
        "status": row.status,
        "state": row.word.map(samekey_core::receipt::Word::as_str),
        "next": row.next.as_str(),
        "happened": page.happened,
        "client": page.client,
        "operator": page.operator,
    })
}

fn state(code: Code) -> &'static str {
    match code {
        Code::ResponseNotStored => "completed or failed",
        _ => code.row().word.map_or("none of its own", samekey_core::receipt::Word::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_accept() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form::Html),
            ("application/json", Form::Json),
            ("text/html;q=0, application/problem+json", Form::Json),
            ("*/*", Form::Text),
            ("", Form::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(form(&headers), expected, "{accept}");
        }
    }
}
