//! The book of routes: a route is served by being described, and so is each of its answers.
//!
//! Schemas come from the very types that requests are read into and answers written from: OpenAPI 3.1 takes JSON Schema
//! as schemars writes it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequest;
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use http::StatusCode;
use samekey_core::problem::Code;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::Api;
use super::asked::Asked;
use crate::admin::{Guard, Scope};
use crate::problem::Problem;

/// The schema of a type.
type SchemaOf = fn(&mut SchemaGenerator) -> Value;

/// What is said of a route.
pub(super) struct Doc {
    path: &'static str,
    post: bool,
    scope: Scope,
    name: &'static str,
    summary: &'static str,
    description: &'static str,
    takes: Option<SchemaOf>,
    query: Option<SchemaOf>,
    headers: &'static [(&'static str, &'static str)],
    /// Status, what it means, what its body is.
    gives: Vec<(u16, &'static str, SchemaOf)>,
    refuses: Vec<Code>,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

impl Doc {
    fn new(path: &'static str, post: bool, scope: Scope, name: &'static str) -> Self {
        let (summary, description, refuses) = ("", "", Vec::new());
        Self {
            path,
            post,
            scope,
            name,
            summary,
            description,
            takes: None,
            query: None,
            headers: &[],
            gives: Vec::new(),
            refuses,
        }
    }

    pub(super) fn post(path: &'static str, scope: Scope, name: &'static str) -> Self {
        Self::new(path, true, scope, name)
    }

    pub(super) fn get(path: &'static str, scope: Scope, name: &'static str) -> Self {
        Self::new(path, false, scope, name)
    }

    pub(super) fn says(mut self, summary: &'static str, description: &'static str) -> Self {
        (self.summary, self.description) = (summary, description);
        self
    }

    /// The type that its body is read into.
    pub(super) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Some(schema::<T>);
        self
    }

    /// The type that its query is read into.
    pub(super) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema::<T>);
        self
    }

    /// Headers that it reads.
    pub(super) fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    pub(super) fn gives<T: JsonSchema>(mut self, status: u16, what: &'static str) -> Self {
        self.gives.push((status, what, schema::<T>));
        self
    }

    pub(super) fn refuses(mut self, codes: &[Code]) -> Self {
        self.refuses.extend(codes);
        self
    }
}

/// All routes so far.
pub(super) struct Book<'a> {
    guard: &'a Guard,
    router: Router<Arc<Api>>,
    docs: Vec<Doc>,
}

impl<'a> Book<'a> {
    pub(super) fn new(guard: &'a Guard) -> Self {
        Self { guard, router: Router::new(), docs: Vec::new() }
    }

    /// Serves a route, and describes it.
    pub(super) fn add<F, Fut>(&mut self, doc: Doc, handler: F)
    where
        F: Fn(Asked) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let method = if doc.post { MethodFilter::POST } else { MethodFilter::GET };
        let route = Router::new().route(doc.path, on(method, handler));
        self.router = std::mem::take(&mut self.router).merge(self.guard.needs(doc.scope, route));
        self.docs.push(doc);
    }

    /// All of them, and their description.
    pub(super) fn bound(self, api: Arc<Api>) -> Router {
        let docs = Arc::new(self.docs);
        let described =
            get(async move |asked: Described| super::asked::answer(StatusCode::OK, &document(&docs, &asked.0)));
        let description = self.guard.any(Router::new().route("/openapi.json", described));
        self.router.merge(description).with_state(api)
    }
}

/// Who asks for the description: nothing of the request counts.
struct Described(Arc<Api>);

impl FromRequest<Arc<Api>> for Described {
    type Rejection = Infallible;

    async fn from_request(_: axum::extract::Request, api: &Arc<Api>) -> Result<Self, Infallible> {
        Ok(Self(Arc::clone(api)))
    }
}

/// A refusal, RFC 9457. Programs switch on `code` and do what `next` says.
#[derive(JsonSchema)]
#[schemars(rename = "Problem")]
#[allow(dead_code, reason = "it describes what problem.rs writes")]
struct ProblemBody {
    /// Leads to the page that explains the code, on the public listener.
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    code: Option<String>,
    /// What to do: wait, retry_same_key, follow_status, done, new_intent, fix_request, sign_in, ask, stop.
    next: Option<String>,
    /// Seconds.
    retry_after: Option<u64>,
    /// The member of the request that cannot be used.
    member: Option<String>,
    /// `claim_stale`, `record_changed`: how the record stands.
    state: Option<String>,
    attempt: Option<u32>,
    /// `record_changed`: the revision that it has now.
    revision: Option<u64>,
    /// `effect_unfinished`: which ones.
    effects: Option<Vec<String>>,
    /// `response_not_stored`.
    status_code: Option<u16>,
    /// `response_not_stored`.
    result_id: Option<String>,
}

fn document(docs: &[Doc], api: &Api) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator();
    let problem = schema::<ProblemBody>(&mut generator);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for doc in docs {
        let method = if doc.post { "post" } else { "get" };
        paths.entry(doc.path).or_default().insert(method.into(), described(doc, &problem, &mut generator));
    }
    let mut schemas = generator.take_definitions(true);
    name_operations(&mut schemas, api);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "samekey: claims and records",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "One intent, same key, one effect, for programs that are not HTTP services.",
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "description": "A token of the admin listener's token file.",
            } },
        },
    })
}

/// The operations that this server has now are part of what it takes.
fn name_operations(schemas: &mut Map<String, Value>, api: &Api) {
    let names: Vec<String> = crate::layer::published(&api.shared)
        .into_iter()
        .filter(|operation| !operation.automatic)
        .flat_map(|operation| {
            let policy = &operation.policy;
            std::iter::once(policy.operation.to_string()).chain(policy.aliases.iter().cloned()).collect::<Vec<_>>()
        })
        .collect();
    if let Some(operation) =
        schemas.get_mut("ClaimRequest").and_then(|claim| claim.pointer_mut("/properties/operation"))
        && !names.is_empty()
    {
        operation["enum"] = names.into();
    }
}

fn described(doc: &Doc, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = doc
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some(query) = doc.query {
        parameters.extend(query_of(&query(generator), generator));
    }
    parameters.extend(doc.headers.iter().map(
        |(name, what)| json!({ "name": name, "in": "header", "description": what, "schema": { "type": "string" } }),
    ));
    let mut answers: BTreeMap<String, Value> = BTreeMap::new();
    for (status, what, body) in &doc.gives {
        let body = json!({ "application/json": { "schema": body(generator) } });
        answers.insert(status.to_string(), json!({ "description": what, "content": body }));
    }
    let mut refusals: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    refusals.entry(401).or_default().push("No token, or one that does not stand in the token file.".into());
    refusals.entry(408).or_default().push("The call took too long; what it began may have happened.".into());
    for code in doc.refuses.iter().chain([&Code::Forbidden]) {
        let row = code.row();
        refusals.entry(row.status).or_default().push(format!("`{}`: {}", row.name, row.title));
        if *code == Code::KeyPayloadMismatch {
            // Where the operations follow the IETF draft.
            refusals.entry(code.status(true)).or_default().push(format!("`{}`: {}", row.name, row.title));
        }
    }
    for (status, mut what) in refusals {
        what.sort();
        what.dedup();
        let body = json!({ "application/problem+json": { "schema": problem } });
        answers.insert(status.to_string(), json!({ "description": what.join("\n\n"), "content": body }));
    }
    let mut operation = json!({
        "operationId": doc.name,
        "summary": doc.summary,
        "description": format!("{} Needs a token with the scope `{}`.", doc.description, doc.scope.as_str()),
        "parameters": parameters,
        "responses": answers,
    });
    if let Some(takes) = doc.takes {
        let schema = takes(generator);
        let required = !may_be_empty(&schema, generator);
        let body = json!({ "application/json": { "schema": schema } });
        operation["requestBody"] = json!({ "required": required, "content": body });
    }
    operation
}

/// No body stands for `{}`, where that says everything that must be said.
fn may_be_empty(schema: &Value, generator: &mut SchemaGenerator) -> bool {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    let whole = name.and_then(|name| generator.definitions().get(name)).unwrap_or(schema);
    let demands = |word: &str| whole[word].as_array().is_some_and(|demanded| !demanded.is_empty());
    !["required", "oneOf", "anyOf", "allOf"].into_iter().any(demands)
}

/// Each member of the type is a parameter.
fn query_of(schema: &Value, generator: &mut SchemaGenerator) -> Vec<Value> {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    let Some(whole) = name.and_then(|name| generator.definitions().get(name)) else { return Vec::new() };
    let Some(members) = whole["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let what = schema.as_object_mut().and_then(|members| members.remove("description"));
        json!({ "name": name, "in": "query", "description": what, "schema": schema })
    };
    members.iter().map(parameter).collect()
}
