//! What Prometheus reads: the text, and what a parser of others makes of it.

use std::collections::{BTreeMap, BTreeSet};

use prometheus_parse::Value;

/// One scrape.
#[derive(Clone, Debug)]
pub struct Scrape {
    text: String,
    /// Samples by name and labels; of a histogram its `_sum`, `_count` and `_bucket`.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
    kinds: BTreeMap<String, String>,
    helps: BTreeSet<String>,
}

impl Scrape {
    /// Parses, and checks what the format demands: each metric is announced once, and no series comes twice.
    pub fn of(text: &str) -> Self {
        let lines = text.lines().map(|line| Ok::<_, std::io::Error>(line.to_owned()));
        let parsed = prometheus_parse::Scrape::parse(lines).expect("the text format of Prometheus");
        let mut samples = Vec::new();
        for sample in parsed.samples {
            let labels: BTreeMap<String, String> =
                sample.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => {
                    samples.push((sample.metric, labels, value));
                }
                Value::Histogram(buckets) => samples.extend(buckets.into_iter().map(|bucket| {
                    let mut labels = labels.clone();
                    labels.insert("le".into(), bucket.less_than.to_string());
                    (format!("{}_bucket", sample.metric), labels, bucket.count)
                })),
                Value::Summary(_) => panic!("{} is a summary, which cannot be summed over servers", sample.metric),
            }
        }
        let announced = |word: &str| -> Vec<(String, String)> {
            let of = |line: &str| {
                let rest = line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' ')?;
                let (name, what) = rest.split_once(' ')?;
                Some((name.to_owned(), what.to_owned()))
            };
            text.lines().filter_map(of).collect()
        };
        let (kinds, helps) = (announced("TYPE"), announced("HELP"));
        for told in [&kinds, &helps] {
            let names: BTreeSet<&String> = told.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), told.len(), "each metric is announced once");
        }
        let series: BTreeSet<(&String, &BTreeMap<String, String>)> =
            samples.iter().map(|(name, labels, _)| (name, labels)).collect();
        assert_eq!(series.len(), samples.len(), "each series comes once");
        let helps = helps.into_iter().map(|(name, _)| name).collect();
        Self { text: text.to_owned(), samples, kinds: kinds.into_iter().collect(), helps }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.samples.len()
    }

    /// The sum of the samples of this name that have these labels; nought if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |of: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| of.get(*label).is_some_and(|seen| seen == value))
        };
        self.samples.iter().filter(|(of, seen, _)| of == name && has(seen)).map(|(.., value)| value).sum()
    }

    /// Each metric by name, with its type; histograms under their own name.
    pub fn kinds(&self) -> &BTreeMap<String, String> {
        &self.kinds
    }

    /// Metrics with a help text.
    pub fn helps(&self) -> &BTreeSet<String> {
        &self.helps
    }

    /// The labels of a metric, without `le`.
    pub fn labels(&self, name: &str) -> BTreeSet<String> {
        let own =
            |of: &str| of.strip_prefix(name).is_some_and(|rest| ["", "_sum", "_count", "_bucket"].contains(&rest));
        let of = self.samples.iter().filter(|(of, ..)| own(of)).flat_map(|(_, labels, _)| labels.keys());
        of.filter(|label| *label != "le").cloned().collect()
    }

    /// All values of a label, whatever metric has it.
    pub fn values(&self, label: &str) -> BTreeSet<String> {
        self.samples.iter().filter_map(|(_, labels, _)| labels.get(label)).cloned().collect()
    }
}
