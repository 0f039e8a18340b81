//! From turns to figures: medians, and ratios of turns that stood beside each other.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run::spelled;

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time for one: the server's, or that of whoever did it alone.
    spent_us: f64,
}

impl Sample {
    /// Runs the load and reads its one line.
    pub fn of(helper: &Path, words: &[&str]) -> Result<Self> {
        let mut command = Command::new(helper);
        command.args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("cannot start `{}`", spelled(&command)))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = said.split_whitespace().collect();
        let figures: HashMap<&str, f64> =
            words.chunks(2).filter_map(|pair| Some((*pair.first()?, pair.get(1)?.parse().ok()?))).collect();
        let figure = |name| figures.get(name).copied().with_context(|| format!("no {name} in {said:?}"));
        if !output.status.success() {
            bail!("`{}` ended with {}", spelled(&command), output.status);
        }
        // A server that refuses is fast.
        if figure("other")? > 0.0 {
            bail!("`{}`: {} answers were not the expected one", spelled(&command), figure("other")?);
        }
        Ok(Self {
            rate: figure("rate")?,
            p50_us: figure("p50_us")?,
            p99_us: figure("p99_us")?,
            spent_us: figure("own_us")?,
        })
    }

    /// What another program measured and told.
    pub fn told(rate: f64, latency_us: f64) -> Self {
        Self { rate, p50_us: latency_us, p99_us: f64::NAN, spent_us: f64::NAN }
    }

    /// With what the server used meanwhile.
    pub fn spent(self, processor_seconds: f64, seconds: f64) -> Self {
        let requests = (self.rate * seconds).max(1.0);
        Self { spent_us: processor_seconds * 1e6 / requests, ..self }
    }
}

/// What a row says.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub rate: f64,
    pub ratio: f64,
    /// The least and the greatest ratio of any round.
    pub spread: (f64, f64),
    pub p50_us: f64,
    pub p99_us: f64,
    pub spent_us: f64,
}

impl Figures {
    /// Each turn is compared with the base's turn of the same round.
    pub fn of(samples: &[Sample], base: &[Sample]) -> Self {
        let ratios: Vec<f64> = samples.iter().zip(base).map(|(one, base)| one.rate / base.rate).collect();
        let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        Self {
            rate: of(|sample| sample.rate),
            spread: (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max)),
            ratio: median(ratios),
            p50_us: of(|sample| sample.p50_us),
            p99_us: of(|sample| sample.p99_us),
            spent_us: of(|sample| sample.spent_us),
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_within_its_round() {
        let turn = |rate| Sample { rate, p50_us: 1.0, p99_us: 2.0, spent_us: 3.0 };
        // Whoever else uses the machine slows both turns of a round.
        let (base, one) = ([100.0, 10.0, 50.0].map(turn), [50.0, 5.0, 20.0].map(turn));
        let figures = Figures::of(&one, &base);
        assert_eq!((figures.rate, figures.ratio, figures.spread), (20.0, 0.5, (0.4, 0.5)));
    }
}
