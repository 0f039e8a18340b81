//! Alert rules and dashboard use what is exported, and are what Prometheus understands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use promql_parser::label::Matchers;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use samekey::observe::{Kind, METRICS};
use serde::Deserialize;
use support::{Request, Serve, Upstream};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    alert: String,
    expr: String,
    #[serde(default)]
    r#for: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// What a query names: metrics, each with the labels that are asked of it, and labels that are grouped by.
#[derive(Debug, Default)]
struct Named {
    metrics: BTreeMap<String, BTreeSet<String>>,
    grouped: BTreeSet<String>,
}

impl Named {
    fn of(query: &str) -> Self {
        let expr = parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut named = Self::default();
        named.visit(&expr);
        named
    }

    fn visit(&mut self, expr: &Expr) {
        match expr {
            Expr::Aggregate(aggregate) => {
                self.group(aggregate.modifier.as_ref());
                self.visit(&aggregate.expr);
                aggregate.param.iter().for_each(|param| self.visit(param));
            }
            Expr::Binary(binary) => {
                if let Some(modifier) = &binary.modifier {
                    self.group(modifier.matching.as_ref());
                }
                self.visit(&binary.lhs);
                self.visit(&binary.rhs);
            }
            Expr::Call(call) => call.args.args.iter().for_each(|argument| self.visit(argument)),
            Expr::MatrixSelector(matrix) => self.select(&matrix.vs),
            Expr::Paren(paren) => self.visit(&paren.expr),
            Expr::Subquery(subquery) => self.visit(&subquery.expr),
            Expr::Unary(unary) => self.visit(&unary.expr),
            Expr::VectorSelector(vector) => self.select(vector),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => {}
            other => panic!("{other} is not looked into"),
        }
    }

    fn group(&mut self, modifier: Option<&LabelModifier>) {
        if let Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = modifier {
            self.grouped.extend(labels.labels.iter().cloned());
        }
    }

    fn select(&mut self, vector: &VectorSelector) {
        let Matchers { matchers, .. } = &vector.matchers;
        let labels = matchers.iter().map(|matcher| matcher.name.clone());
        let name = vector.name.clone().expect("each selector names its metric");
        self.metrics.entry(name).or_default().extend(labels);
    }
}

/// The metric that a series belongs to, and its labels; Prometheus itself adds `instance` and `job`.
fn labels_of(series: &str) -> Option<BTreeSet<&'static str>> {
    let histogram =
        |name: &str| series.strip_prefix(name).is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest));
    let metric = METRICS.iter().find(|metric| match metric.kind {
        Kind::Histogram { .. } => histogram(metric.name),
        Kind::Counter | Kind::Gauge => metric.name == series,
    });
    let own: &[&str] = match metric {
        Some(metric) => metric.labels,
        None if series.starts_with("process_") => &[],
        None => return None,
    };
    let bucket = series.ends_with("_bucket").then_some("le");
    Some(own.iter().copied().chain(bucket).chain(["instance", "job"]).collect())
}

fn check(place: &str, query: &str, seen: &mut BTreeSet<String>) {
    let Named { metrics, grouped } = Named::of(query);
    assert!(!metrics.is_empty(), "{place}: {query} asks for nothing");
    let mut known = BTreeSet::new();
    for (metric, asked) in &metrics {
        let labels = labels_of(metric).unwrap_or_else(|| panic!("{place}: {metric} is not exported"));
        for label in asked {
            assert!(labels.contains(label.as_str()), "{place}: {metric} has no label {label}");
        }
        known.extend(labels);
    }
    for label in &grouped {
        assert!(known.contains(label.as_str()), "{place}: {query} groups by {label}, which nothing in it has");
    }
    seen.extend(metrics.into_keys());
}

fn ops(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/ops").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Vec<Alert> {
    let rules: Rules = serde_norway::from_str(&ops("samekey.rules.yml")).expect("a file of rules");
    assert!(rules.groups.iter().all(|group| !group.name.is_empty()));
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

/// Every query of the dashboard with the title of its panel, the variables of Grafana filled in.
fn panels() -> Vec<(String, String)> {
    let board: serde_json::Value = serde_json::from_str(&ops("samekey.dashboard.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let filled = |query: &str| query.replace("$__rate_interval", "5m").replace("$operation", ".*");
    let of = |panel: &serde_json::Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), filled(target["expr"].as_str().expect("a query"))))
    };
    panels.iter().flat_map(of).collect()
}

#[tokio::test]
async fn alerts_and_dashboard_name_what_is_exported() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    samekey.send(&Request::post("/orders")).await;
    samekey.until_scraped("samekey_store_size_bytes", &[], |bytes| bytes > 0.0).await;
    let scrape = samekey.scrape().await;
    let mut seen = BTreeSet::new();
    let rules = rules();
    assert!(rules.len() > 8);
    for Alert { alert, expr, r#for, labels, annotations } in &rules {
        check(alert, expr, &mut seen);
        let severity = labels.get("severity").map(String::as_str);
        assert!(severity.is_some_and(|severity| ["page", "warning", "info"].contains(&severity)), "{alert}");
        assert!(annotations.contains_key("summary"), "{alert} says what is the matter");
        assert!(r#for.as_deref().is_none_or(|time| time.ends_with('m')), "{alert}");
        for text in annotations.values() {
            for label in text.split("$labels.").skip(1) {
                let label = label.split([' ', '}']).next().unwrap_or_default();
                let metrics = Named::of(expr).metrics;
                let has = metrics.keys().filter_map(|metric| labels_of(metric)).any(|labels| labels.contains(label));
                assert!(has, "{alert} speaks of {label}, which its query has not");
            }
        }
    }
    let panels = panels();
    for (title, query) in &panels {
        check(title, query, &mut seen);
    }
    let base = |series: &str| {
        let parts = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix));
        parts.filter(|name| scrape.kinds().contains_key(*name)).unwrap_or(series).to_owned()
    };
    let exported: BTreeSet<String> = seen.iter().map(|series| base(series)).collect();
    for metric in exported.iter().filter(|metric| *metric != "samekey_probes_total") {
        assert!(scrape.kinds().contains_key(metric), "{metric} is not in a scrape: {}", scrape.text());
    }
    for metric in METRICS {
        assert!(exported.contains(metric.name), "{} is shown nowhere", metric.name);
    }
}

#[test]
fn the_reference_has_every_metric_with_its_labels() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/README.md");
    let page = std::fs::read_to_string(path).expect("server/README.md");
    let rows: BTreeMap<&str, &str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `samekey_"))
        .filter_map(|row| row.split_once("` | "))
        .collect();
    for metric in METRICS {
        let short = metric.name.trim_start_matches("samekey_");
        let row = rows.get(short).unwrap_or_else(|| panic!("{} has no row in server/README.md", metric.name));
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { .. } => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let expected = format!("{kind} | {} |", labels.join(", "));
        assert!(row.starts_with(&expected), "{}: {row:?} should begin with {expected:?}", metric.name);
    }
    assert_eq!(rows.len(), METRICS.len(), "a row for something that is no metric");
}
