//! Operations by method and path: what a configuration file makes of a proxy.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use http::Method;
use http::request::Parts;
use samekey_core::select::Profile;
use samekey_core::uri::normalise_path;
use samekey_core::{Policy, PolicyError};

use super::params::Params;
use super::route::{Automatic, Published, Resolve, Route, automatic_name};

/// One operation: requests of one method to one path, or what programs claim by its name.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Where its requests go: any method but GET, HEAD, OPTIONS, TRACE and CONNECT, and a path as axum 0.8 writes it,
    /// `/orders/{id}`, `/files/{*rest}`. `None`: nowhere, it is claimed by programs that are not HTTP services.
    pub at: Option<(Method, String)>,
    /// Its contract, with name and aliases.
    pub policy: Policy,
}

/// Why operations cannot stand side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationError {
    /// A method that never changes anything, or no request to a service.
    Method,
    /// A path that no router understands.
    Path {
        /// What is wrong with it.
        why: String,
    },
    /// Another operation takes the same requests.
    SameRequests {
        /// Its name.
        other: String,
    },
    /// Another operation has this name or alias.
    SameName {
        /// The name.
        name: String,
        /// The other operation.
        other: String,
    },
    /// An alias that is method and path, and cannot be.
    Alias {
        /// What is wrong with it.
        why: String,
    },
    /// The contract cannot hold.
    Policy(PolicyError),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str(
                "method: GET, HEAD, OPTIONS, TRACE and CONNECT take no keys; write POST, PATCH, PUT or DELETE",
            ),
            Self::Path { why } => write!(f, "path: {why}"),
            Self::Alias { why } => write!(f, "aliases: {why}"),
            Self::SameRequests { other } => write!(f, "path: {other} takes the same requests; give them one operation"),
            Self::SameName { name, other } => {
                write!(f, "{name:?} also names {other}; every name and alias belongs to one operation")
            }
            Self::Policy(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OperationError {}

/// Finds the operation of a request. Clones share it, so that it can be replaced while the server runs.
#[derive(Clone)]
pub struct Operations {
    table: Arc<RwLock<Arc<Table>>>,
}

type Routers = HashMap<Method, matchit::Router<Entry>>;

struct Table {
    routers: Routers,
    fallback: Automatic,
    names: Arc<BTreeSet<String>>,
    /// In the order in which they were written down.
    published: Vec<Published>,
}

#[derive(Clone)]
struct Entry {
    /// What matched: the operation's path, or that of an alias.
    template: String,
    policy: Arc<Policy>,
    profile: Arc<Profile>,
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Operations {
    /// These operations; all other requests go by the automatic name under the last contract. Every error comes with
    /// the number of its operation.
    pub fn new(operations: Vec<Operation>, others: Policy) -> Result<Self, Vec<(usize, OperationError)>> {
        Table::new(operations, others).map(|table| Self { table: Arc::new(RwLock::new(Arc::new(table))) })
    }

    /// Takes the others' place for requests that come from now on; what is under way ends as it began.
    pub fn replace(&self, with: &Self) {
        let table = with.table();
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// All names and aliases that were written down.
    pub fn names(&self) -> Arc<BTreeSet<String>> {
        Arc::clone(&self.table().names)
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table {
    fn new(operations: Vec<Operation>, others: Policy) -> Result<Self, Vec<(usize, OperationError)>> {
        let mut errors = Vec::new();
        let mut owners: HashMap<String, (usize, String)> = HashMap::new();
        let mut routers: Routers = HashMap::new();
        let mut entries: HashMap<usize, Entry> = HashMap::new();
        for (number, operation) in operations.iter().enumerate() {
            let name = operation.policy.operation.to_string();
            let mut own: Vec<String> = std::iter::once(&name).chain(&operation.policy.aliases).cloned().collect();
            if let Some((method, path)) = operation.at.as_ref().filter(|(_, path)| !path.contains('{')) {
                own.push(format!("{method} {}", normalised(path)));
            }
            own.sort_unstable();
            own.dedup();
            for claimed in own {
                match owners.get(&claimed) {
                    Some((_, other)) => {
                        let (name, other) = (claimed, other.clone());
                        errors.push((number, OperationError::SameName { name, other }));
                    }
                    None => drop(owners.insert(claimed, (number, name.clone()))),
                }
            }
        }
        let mut published = Vec::with_capacity(operations.len());
        for (number, operation) in operations.into_iter().enumerate() {
            let Operation { at, policy } = operation;
            let silent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::CONNECT];
            if at.as_ref().is_some_and(|(method, _)| silent.contains(method)) {
                errors.push((number, OperationError::Method));
                continue;
            }
            if let Err(error) = policy.check() {
                errors.push((number, OperationError::Policy(error)));
                continue;
            }
            if let Some(Err(why)) = at.as_ref().map(|(_, path)| check_path(path)) {
                errors.push((number, OperationError::Path { why }));
                continue;
            }
            let template = at.as_ref().map(|(_, path)| normalised(path));
            let profile = match Profile::new(template.clone(), policy.significant.clone()) {
                Ok(profile) => Arc::new(profile),
                Err(error) => {
                    errors.push((number, OperationError::Policy(PolicyError::Significant(error))));
                    continue;
                }
            };
            let policy = Arc::new(policy);
            let (method, path) = at.unzip();
            published.push(Published {
                policy: Arc::clone(&policy),
                profile: Arc::clone(&profile),
                method: method.clone(),
                path,
                automatic: false,
            });
            let entry = Entry { template: template.clone().unwrap_or_default(), policy, profile };
            entries.insert(number, entry.clone());
            if let (Some(method), Some(template)) = (method, template) {
                let router = routers.entry(method).or_default();
                if let Err(error) = router.insert(&template, entry) {
                    errors.push((number, refused(router, &error)));
                }
            }
        }
        add_former_paths(&owners, &entries, &mut routers, &mut errors);
        let fallback = match Automatic::new(others) {
            Ok(fallback) => Some(fallback),
            Err(error) => {
                errors.push((usize::MAX, OperationError::Policy(error)));
                None
            }
        };
        match fallback {
            Some(fallback) if errors.is_empty() => {
                published.extend(fallback.operations());
                Ok(Self { routers, published, fallback, names: Arc::new(owners.into_keys().collect()) })
            }
            _ => Err(errors),
        }
    }
}

/// An alias with a space is a method and a path where the operation's requests once went, and may still go: they are
/// its own, unless another operation's path takes them.
fn add_former_paths(
    owners: &HashMap<String, (usize, String)>,
    entries: &HashMap<usize, Entry>,
    routers: &mut Routers,
    errors: &mut Vec<(usize, OperationError)>,
) {
    let mut former = Vec::new();
    for (alias, (number, owner)) in owners {
        let Some((method, path)) = alias.split_once(' ') else { continue };
        let (Ok(method), Some(entry)) = (Method::from_bytes(method.as_bytes()), entries.get(number)) else { continue };
        if let Err(why) = check_path(path) {
            errors.push((*number, OperationError::Alias { why: format!("{alias:?}: {why}") }));
            continue;
        }
        let some = sample(path);
        let taken = routers.get(&method).and_then(|router| router.at(&some).ok());
        match taken.map(|taken| taken.value.policy.operation.to_string()) {
            Some(other) if other != *owner => {
                errors.push((*number, OperationError::SameName { name: alias.clone(), other }));
            }
            Some(_) => {}
            None => former.push((*number, method, Entry { template: normalised(path), ..entry.clone() })),
        }
    }
    for (number, method, entry) in former {
        let router = routers.entry(method).or_default();
        let template = entry.template.clone();
        if let Err(error) = router.insert(&template, entry) {
            let why = match refused(router, &error) {
                OperationError::SameRequests { other } => format!("{other} takes the same requests"),
                other => other.to_string(),
            };
            errors.push((number, OperationError::Alias { why: format!("{template:?}: {why}") }));
        }
    }
}

fn refused(router: &matchit::Router<Entry>, error: &matchit::InsertError) -> OperationError {
    match error {
        matchit::InsertError::Conflict { with } => {
            let other = router
                .at(&sample(with))
                .map_or_else(|_| with.clone(), |found| found.value.policy.operation.to_string());
            OperationError::SameRequests { other }
        }
        matchit::InsertError::InvalidCatchAll => {
            OperationError::Path { why: "{*rest} takes all that follows and stands at the end".into() }
        }
        _ => OperationError::Path {
            why: "a parameter is one whole segment, {id} or {*rest}, with a name of its own".into(),
        },
    }
}

/// Some path that a template matches.
fn sample(template: &str) -> String {
    template
        .split('/')
        .map(|segment| if segment.starts_with('{') { "0" } else { segment })
        .collect::<Vec<_>>()
        .join("/")
}

fn check_path(path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("{path:?} must start with a slash; write for instance /orders/{{id}}"));
    }
    if path.contains(['?', '#']) {
        return Err("query and fragment are no part of it; write the path alone".into());
    }
    for segment in path.split('/') {
        if matches!(segment, "." | "..") {
            return Err("write it without . and .. segments".into());
        }
        if let Some(name) = segment.strip_prefix(':').filter(|name| !name.is_empty()) {
            return Err(format!("a parameter is written {{{name}}}, not :{name}"));
        }
    }
    Ok(())
}

/// As the paths of requests are spelled when they are looked up.
fn normalised(template: &str) -> String {
    let mut text = String::with_capacity(template.len());
    for character in template.chars() {
        if character.is_ascii_graphic() {
            text.push(character);
        } else {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    normalise_path(&text)
}

impl Resolve for Operations {
    fn route(&self, parts: &Parts) -> Route {
        let table = self.table();
        let path = normalise_path(parts.uri.path());
        let found = table.routers.get(&parts.method).and_then(|router| router.at(&path).ok());
        let Some(found) = found else {
            return Route { named: Some(Arc::clone(&table.names)), ..table.fallback.route(parts) };
        };
        let Entry { template, policy, profile } = found.value;
        let mut also = policy.aliases.clone();
        also.push(automatic_name(parts));
        Route {
            operation: Cow::clone(&policy.operation),
            also,
            configured: true,
            policy: Arc::clone(policy),
            profile: Arc::clone(profile),
            passes_405: false,
            params: Some(Params::matched(template, &path, found.params.iter())),
            named: Some(Arc::clone(&table.names)),
        }
    }

    fn operations(&self) -> Vec<Published> {
        self.table().published.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn operation(name: &'static str, method: Method, path: &str) -> Operation {
        Operation { at: Some((method, path.into())), policy: Policy::new(name) }
    }

    fn of(operations: &Operations, method: Method, target: &str) -> (String, bool, Vec<String>) {
        let parts = Request::builder().method(method).uri(target).body(()).unwrap().into_parts().0;
        let route = operations.route(&parts);
        let params = route.params.map(|params| params.under(route.profile.template())).unwrap_or_default();
        (route.operation.into_owned(), route.configured, params)
    }

    #[test]
    fn the_more_special_path_wins_and_slashes_count() {
        let operations = Operations::new(
            vec![
                operation("pay", Method::POST, "/orders/{id}/pay"),
                operation("one", Method::PUT, "/orders/{id}"),
                operation("import", Method::PUT, "/orders/import"),
                operation("files", Method::PUT, "/files/{*rest}"),
                operation("café", Method::PUT, "/café/~x"),
            ],
            Policy::new("others"),
        )
        .unwrap();
        for (method, target, name, configured, params) in [
            (Method::POST, "/orders/7/pay?x=1", "pay", true, vec!["7"]),
            (Method::POST, "/orders/a%2Fb/pay", "pay", true, vec!["a/b"]),
            (Method::PUT, "/orders/7", "one", true, vec!["7"]),
            (Method::PUT, "/orders/import", "import", true, vec![]),
            (Method::PUT, "/orders/%69mport", "import", true, vec![]),
            (Method::PUT, "/orders/import/", "PUT /orders/import/", false, vec![]),
            (Method::PUT, "//orders/7", "PUT //orders/7", false, vec![]),
            (Method::PUT, "/files/a/b%20c", "files", true, vec!["a/b c"]),
            (Method::PUT, "/caf%c3%a9/%7ex", "café", true, vec![]),
            (Method::POST, "/orders/7", "POST /orders/7", false, vec![]),
        ] {
            let params: Vec<String> = params.into_iter().map(str::to_owned).collect();
            assert_eq!(of(&operations, method, target), (name.into(), configured, params), "{target}");
        }
    }

    #[test]
    fn a_former_path_leads_to_the_operation_that_took_its_place() {
        let mut moved = operation("pay", Method::POST, "/v2/{id}/pay");
        moved.policy.aliases = vec!["POST /orders/{id}/pay".into(), "PUT /pay".into(), "POST /v2/7/pay".into()];
        let operations = Operations::new(vec![moved], Policy::new("others")).unwrap();
        for (method, target, params) in [
            (Method::POST, "/v2/7/pay", vec!["7".to_owned()]),
            (Method::POST, "/orders/7/pay", vec!["7".to_owned()]),
            (Method::PUT, "/pay", vec![]),
        ] {
            assert_eq!(of(&operations, method, target), ("pay".into(), true, params), "{target}");
        }
        let mut bad = operation("a", Method::PUT, "/a");
        bad.policy.aliases = vec!["PUT /b/:id".into()];
        let error = Operations::new(vec![bad], Policy::new("others")).unwrap_err().remove(0).1;
        assert!(error.to_string().contains("{id}"), "{error}");
    }

    #[test]
    fn what_no_request_goes_to_has_a_name_and_its_former_paths() {
        let mut policy = Policy::new("invoice.send");
        policy.aliases = vec!["POST /invoices".into()];
        let operations = Operations::new(vec![Operation { at: None, policy }], Policy::new("others")).unwrap();
        assert!(operations.operations().iter().any(|known| known.policy.operation == "invoice.send"));
        assert_eq!(of(&operations, Method::POST, "/invoices").0, "invoice.send", "it was moved off HTTP");
        assert_eq!(of(&operations, Method::POST, "/other").0, "POST /other");
    }

    #[test]
    fn what_cannot_stand_side_by_side_names_both() {
        let pair = |first: Operation, second: Operation| {
            Operations::new(vec![first, second], Policy::new("others")).unwrap_err().remove(0).1.to_string()
        };
        let text = pair(operation("a", Method::PUT, "/x/{id}"), operation("b", Method::PUT, "/x/{no}"));
        assert!(text.contains("a takes the same requests"), "{text}");
        let text = pair(operation("a", Method::PUT, "/x"), operation("a", Method::PUT, "/y"));
        assert!(text.contains("\"a\" also names a"), "{text}");
        let mut alias = operation("b", Method::PUT, "/y");
        alias.policy.aliases = vec!["PUT /x".into()];
        let text = pair(operation("a", Method::PUT, "/x"), alias.clone());
        assert!(text.contains("\"PUT /x\" also names a"), "{text}");
        alias.policy.aliases = vec!["PUT /x/7".into()];
        let text = pair(operation("a", Method::PUT, "/x/{id}"), alias);
        assert!(text.contains("\"PUT /x/7\" also names a"), "{text}");
        for (path, hint) in [
            ("x", "slash"),
            ("/x?y", "query"),
            ("/a/../b", ".."),
            ("/x/:id", "{id}"),
            ("/{*all}/x", "end"),
            ("/{}", "segment"),
        ] {
            let text = pair(operation("a", Method::PUT, path), operation("b", Method::PUT, "/y"));
            assert!(text.contains(hint), "{path}: {text}");
        }
        assert!(pair(operation("a", Method::GET, "/x"), operation("b", Method::PUT, "/y")).contains("POST"));
    }
}
