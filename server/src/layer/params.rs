//! The values of a path's parameters, as a profile wants them.

use http::request::Parts;
use samekey_core::uri::{normalise_path, percent_decode};

/// The parameters of one request's path.
#[derive(Clone, Debug, Default)]
pub struct Params {
    template: Option<String>,
    /// Name and value in template order, percent-decoded once.
    values: Vec<(String, String)>,
    path: String,
}

impl Params {
    /// What the router before us found.
    pub(crate) fn matched<'a>(
        template: impl Into<String>,
        path: &str,
        found: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let values = found.into_iter().map(|(name, value)| (name.to_owned(), decode(value))).collect();
        Self { template: Some(template.into()), values, path: path.to_owned() }
    }

    /// What axum's router found.
    pub(crate) async fn of_axum(parts: &mut Parts) -> Self {
        use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
        let values = match RawPathParams::from_request_parts(parts, &()).await {
            Ok(params) => params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            Err(_) => Vec::new(),
        };
        let template = parts.extensions.get::<MatchedPath>().map(|matched| matched.as_str().to_owned());
        Self { template, values, path: normalise_path(parts.uri.path()) }
    }

    /// The values that a record counts which was made under this template: its own, whatever the operation's path
    /// looks like today. Where the path has moved, parameters of the same name are the same.
    pub(crate) fn under(&self, template: Option<&str>) -> Vec<String> {
        let Some(template) = template else {
            // Made under the automatic name, which holds the whole path.
            return if self.template.is_none() { self.own() } else { Vec::new() };
        };
        if self.template.as_deref() == Some(template) {
            return self.own();
        }
        let mut router = matchit::Router::new();
        if router.insert(template, ()).is_err() {
            return self.own();
        }
        if let Ok(found) = router.at(&self.path) {
            return found.params.iter().map(|(_, value)| decode(value)).collect();
        }
        let by_name = names(template)
            .into_iter()
            .map(|name| self.values.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone()))
            .collect::<Option<Vec<_>>>();
        by_name.unwrap_or_else(|| self.own())
    }

    fn own(&self) -> Vec<String> {
        self.values.iter().map(|(_, value)| value.clone()).collect()
    }
}

/// The names of a template's parameters, in order.
fn names(template: &str) -> Vec<&str> {
    template
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name.trim_start_matches('*'))
        .collect()
}

/// Once. What is not UTF-8 then stays as it was sent: it is still the same for each delivery.
fn decode(value: &str) -> String {
    let decoded = percent_decode(value.as_bytes()).ok();
    decoded.and_then(|bytes| String::from_utf8(bytes.into_owned()).ok()).unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_the_parameters_of_its_own_template() {
        let params =
            Params::matched("/orders/{id}/lines/{line}", "/orders/4%202/lines/7", [("id", "4%202"), ("line", "7")]);
        for (template, values) in [
            (Some("/orders/{id}/lines/{line}"), vec!["4 2", "7"]),
            (Some("/orders/{order}/lines/{no}"), vec!["4 2", "7"]),
            (Some("/orders/{*rest}"), vec!["4 2/lines/7"]),
            (Some("/v1/{line}/of/{id}"), vec!["7", "4 2"]),
            (Some("/v1/lines/{line}"), vec!["7"]),
            (None, vec![]),
        ] {
            assert_eq!(params.under(template), values, "{template:?}");
        }
    }

    #[test]
    fn a_value_is_decoded_once_and_no_more() {
        for (sent, counted) in [("%2541", "%41"), ("a%2Fb", "a/b"), ("%FF", "%FF"), ("%zz", "%zz"), ("%C3%A9", "é")] {
            assert_eq!(decode(sent), counted);
        }
    }
}
