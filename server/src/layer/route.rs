//! Which operation a request belongs to, and whether it is covered.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use http::request::Parts;
use samekey_core::select::Profile;
use samekey_core::uri::normalise_path;
use samekey_core::{KeyRule, Policy, PolicyError};

use super::Shared;
use super::params::Params;
use crate::observe::Unprotected;
use crate::store::Policies;

/// The operation of one request.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name under which new records are made.
    pub operation: Cow<'static, str>,
    /// Further names under which records are found.
    pub also: Vec<String>,
    /// The operation stands in the configuration.
    pub configured: bool,
    /// Its contract.
    pub policy: Arc<Policy>,
    /// What of its payload counts.
    pub profile: Arc<Profile>,
    /// A 405 comes from the method router's fallback, not from the operation: it passes through.
    pub passes_405: bool,
    /// The values of the path's parameters; `None`: axum's router found them, or nobody.
    pub params: Option<Params>,
    /// All names and aliases that are written down here. A key whose record stands under another name belongs to a
    /// configuration that is not this one, and does not run. `None`: nobody knows all names.
    pub named: Option<Arc<BTreeSet<String>>>,
}

/// Finds the operation of a request.
pub trait Resolve: Send + Sync + 'static {
    /// The operation of this request.
    fn route(&self, parts: &Parts) -> Route;

    /// The operations that the contract publishes, and the status route finds by name. Automatic names need none:
    /// they are found by [`Resolve::route`].
    fn operations(&self) -> Vec<Published> {
        Vec::new()
    }
}

/// An operation as the contract publishes it.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its contract, with name and former names.
    pub policy: Arc<Policy>,
    /// What of its payload counts.
    pub profile: Arc<Profile>,
    /// Its method, where that is known.
    pub method: Option<Method>,
    /// The template of its path, where that is known.
    pub path: Option<String>,
    /// It has no name of its own: it holds for every request that no named operation takes.
    pub automatic: bool,
}

impl Published {
    fn is_called(&self, name: &str) -> bool {
        !self.automatic && (self.policy.operation == name || self.policy.aliases.iter().any(|alias| alias == name))
    }

    /// Records may have been made under the automatic name, before the operation had one of its own.
    fn automatic_name(&self) -> Option<String> {
        let path = self.path.as_ref().filter(|path| !path.contains('{'))?;
        Some(format!("{} {}", self.method.as_ref()?, normalise_path(path)))
    }

    fn route(&self) -> Route {
        let mut also = self.policy.aliases.clone();
        also.extend(self.automatic_name());
        Route {
            operation: self.policy.operation.clone(),
            also,
            configured: true,
            policy: Arc::clone(&self.policy),
            profile: Arc::clone(&self.profile),
            passes_405: false,
            params: None,
            named: None,
        }
    }
}

/// Makes an operation known to the routes; a second one of the same name takes its place.
pub(crate) fn publish(shared: &Shared, operation: Published) {
    let mut known = shared.policies.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|other| other.policy.operation != operation.policy.operation);
    known.push(operation);
}

/// Makes the contracts known by which the store looks after the records of these operations in the background.
pub(crate) fn register(policies: &Policies, operations: &[Published]) {
    for operation in operations {
        if operation.automatic {
            policies.add_others(Arc::clone(&operation.policy));
        } else {
            policies.add_under(&operation.policy, operation.automatic_name());
        }
    }
}

/// Every operation of a layer, each name once.
pub(crate) fn published(shared: &Shared) -> Vec<Published> {
    let mut all = shared.resolve.operations();
    let known = shared.policies.lock().unwrap_or_else(PoisonError::into_inner);
    for operation in known.iter() {
        if !all.iter().any(|other| !other.automatic && other.policy.operation == operation.policy.operation) {
            all.push(operation.clone());
        }
    }
    all
}

/// The operation that a name means: its own, a former one, or method and path.
pub(crate) fn by_name(shared: &Shared, name: &str) -> Option<Route> {
    if let Some(operation) = published(shared).iter().find(|operation| operation.is_called(name)) {
        return Some(operation.route());
    }
    let (method, path) = name.split_once(' ').filter(|(_, path)| path.starts_with('/'))?;
    let request = http::Request::builder().method(method).uri(path).body(()).ok()?;
    let mut route = shared.resolve.route(&request.into_parts().0);
    // A record of that time has the automatic name for its own.
    let automatic = format!("{method} {}", normalise_path(path));
    if route.operation != automatic && !route.also.contains(&automatic) {
        route.also.push(automatic);
    }
    Some(route)
}

/// Whether deliveries with a key are covered under this name; a name without a method is asked about none.
pub(crate) fn is_covered(shared: &Shared, name: &str, route: &Route) -> bool {
    let published = published(shared);
    let method = match published.iter().find(|operation| operation.is_called(name)) {
        Some(operation) => operation.method.clone(),
        None => name.split_once(' ').and_then(|(method, _)| method.parse().ok()),
    };
    matches!(coverage(&method.unwrap_or(Method::POST), true, route), Coverage::Covered)
}

/// One operation for all requests: a layer on a method router.
pub(crate) struct One {
    policy: Arc<Policy>,
    /// By path template: one method router may stand on several routes.
    profiles: Mutex<HashMap<Option<String>, Arc<Profile>>>,
}

impl One {
    /// The policy must hold what [`Policy::check`] checks.
    pub(crate) fn new(policy: Policy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { policy: Arc::new(policy), profiles: Mutex::default() })
    }

    /// Where its method router stands is known only once a request came.
    pub(crate) fn published(&self) -> Published {
        Published {
            policy: Arc::clone(&self.policy),
            profile: self.profile(None),
            method: None,
            path: None,
            automatic: false,
        }
    }

    fn profile(&self, template: Option<&str>) -> Arc<Profile> {
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        let template = template.map(str::to_owned);
        let made = || profile(template.clone(), &self.policy);
        Arc::clone(profiles.entry(template.clone()).or_insert_with(made))
    }
}

/// The profile of a policy that was checked.
fn profile(template: Option<String>, policy: &Policy) -> Arc<Profile> {
    let significant = policy.significant.clone();
    Arc::new(Profile::new(template, significant).expect("Policy::check refuses what a profile cannot hold"))
}

impl Resolve for One {
    fn route(&self, parts: &Parts) -> Route {
        let template = parts.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str);
        let mut also = self.policy.aliases.clone();
        also.push(automatic_name(parts));
        Route {
            operation: self.policy.operation.clone(),
            also,
            configured: true,
            policy: Arc::clone(&self.policy),
            profile: self.profile(template),
            passes_405: true,
            params: None,
            named: None,
        }
    }

    fn operations(&self) -> Vec<Published> {
        vec![self.published()]
    }
}

/// Every path is an operation of its own, under one contract: a proxy without configuration.
pub struct Automatic {
    policy: Arc<Policy>,
    profile: Arc<Profile>,
}

impl Automatic {
    /// All paths under this contract; the policy's name is not used.
    pub fn new(policy: Policy) -> Result<Self, PolicyError> {
        policy.check()?;
        Ok(Self { profile: profile(None, &policy), policy: Arc::new(policy) })
    }
}

impl Default for Automatic {
    fn default() -> Self {
        Self::new(Policy::new("automatic")).expect("the defaults hold")
    }
}

impl Resolve for Automatic {
    fn route(&self, parts: &Parts) -> Route {
        Route {
            operation: automatic_name(parts).into(),
            also: Vec::new(),
            configured: false,
            policy: Arc::clone(&self.policy),
            profile: Arc::clone(&self.profile),
            passes_405: false,
            params: Some(Params::default()),
            named: None,
        }
    }

    fn operations(&self) -> Vec<Published> {
        vec![Published {
            policy: Arc::clone(&self.policy),
            profile: Arc::clone(&self.profile),
            method: None,
            path: None,
            automatic: true,
        }]
    }
}

/// Method and concrete path, normalised by RFC 3986 section 6.2.2: `POST /orders`.
pub(crate) fn automatic_name(parts: &Parts) -> String {
    // Inside `nest`, axum strips the prefix off the URI; two nested routers must not share a name.
    let path = parts.extensions.get::<axum::extract::OriginalUri>().map_or(parts.uri.path(), |uri| uri.0.path());
    format!("{} {}", parts.method, normalise_path(path))
}

/// Whether samekey answers for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// It does.
    Covered,
    /// It passes untouched; `keyed` requests are told so.
    Passes { keyed: bool },
}

pub(crate) fn coverage(method: &Method, keyed: bool, route: &Route) -> Coverage {
    let asked = match route.policy.key {
        KeyRule::Required => true,
        KeyRule::Optional => keyed,
        KeyRule::Ignore => false,
    };
    if may_be_one(method, route) && asked { Coverage::Covered } else { Coverage::Passes { keyed } }
}

/// Whether the method is one of commands.
fn may_be_one(method: &Method, route: &Route) -> bool {
    match *method {
        Method::POST | Method::PATCH => true,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::CONNECT => false,
        _ => route.configured,
    }
}

/// Why a command that passes is not protected; `None`: it is none, or wants no protection.
pub(crate) fn unprotected(method: &Method, keyed: bool, route: &Route) -> Option<Unprotected> {
    match (may_be_one(method, route), route.policy.key) {
        (true, KeyRule::Optional) if !keyed => Some(Unprotected::NoKey),
        (true, KeyRule::Ignore) => Some(Unprotected::Ignored),
        _ => keyed.then_some(Unprotected::Ignored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn route(rule: KeyRule, configured: bool) -> Route {
        let policy = Policy::new("orders.create").key(rule);
        let request = Request::post("/orders").body(()).unwrap().into_parts().0;
        Route { configured, ..One::new(policy).unwrap().route(&request) }
    }

    #[test]
    fn only_unsafe_methods_with_a_key_are_covered() {
        use Coverage::{Covered, Passes};
        for (method, keyed, rule, configured, expected) in [
            ("POST", true, KeyRule::Optional, false, Covered),
            ("PATCH", true, KeyRule::Optional, false, Covered),
            ("POST", false, KeyRule::Optional, false, Passes { keyed: false }),
            ("POST", false, KeyRule::Required, false, Covered),
            ("POST", true, KeyRule::Ignore, true, Passes { keyed: true }),
            ("PUT", true, KeyRule::Optional, false, Passes { keyed: true }),
            ("PUT", true, KeyRule::Optional, true, Covered),
            ("DELETE", true, KeyRule::Optional, true, Covered),
            ("GET", true, KeyRule::Required, true, Passes { keyed: true }),
            ("OPTIONS", false, KeyRule::Required, true, Passes { keyed: false }),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(coverage(&method, keyed, &route(rule, configured)), expected, "{method} {keyed} {rule:?}");
        }
    }

    #[test]
    fn the_automatic_name_is_method_and_normalised_path() {
        for (target, name) in [
            ("/orders?x=1", "POST /orders"),
            ("/a/%7euser", "POST /a/~user"),
            ("/a/./b/../c", "POST /a/c"),
            ("/a//b", "POST /a//b"),
        ] {
            let parts = Request::post(target).body(()).unwrap().into_parts().0;
            assert_eq!(automatic_name(&parts), name);
        }
    }
}
