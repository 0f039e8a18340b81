//! All that is wrong with a file, with the lines.

use std::fmt;
use std::path::Path;

/// Every error of a file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigErrors {
    pub(crate) file: Option<String>,
    /// Line, where there is one, and what to write.
    pub(crate) all: Vec<(Option<usize>, String)>,
}

impl ConfigErrors {
    /// One text per error: `samekey.toml:7: lease: 30 has no unit; …`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(|(line, error)| match (&self.file, line) {
            (Some(file), Some(line)) => format!("{file}:{line}: {error}"),
            (Some(file), None) => format!("{file}: {error}"),
            (None, _) => error.clone(),
        })
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines().enumerate() {
            f.write_str(if number > 0 { "\n  and: " } else { "" })?;
            f.write_str(&line)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Errors as they are found.
#[derive(Debug)]
pub(super) struct Errors(ConfigErrors);

impl Errors {
    pub(super) fn new(file: Option<&Path>) -> Self {
        Self(ConfigErrors { file: file.map(super::shown), all: Vec::new() })
    }

    pub(super) fn add(&mut self, line: Option<usize>, error: impl Into<String>) {
        self.0.all.push((line, error.into()));
    }

    /// Nothing was wrong so far.
    pub(super) fn done(&mut self) -> anyhow::Result<()> {
        if self.0.all.is_empty() { Ok(()) } else { Err(self.taken()) }
    }

    pub(super) fn into_error(mut self) -> anyhow::Error {
        self.taken()
    }

    fn taken(&mut self) -> anyhow::Error {
        let mut errors = ConfigErrors { file: self.0.file.clone(), all: std::mem::take(&mut self.0.all) };
        errors.all.sort();
        errors.all.dedup();
        errors.into()
    }
}
