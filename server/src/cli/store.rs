//! Which store a command works on.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::config::{self, Loaded, Source};
use crate::store::{PostgresOptions, StoreError};

/// `sqlite:PATH`, or the URL of a PostgreSQL database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// A file.
    Sqlite(PathBuf),
    /// As it was given: it may hold a password, and what is wrong with it is told where it is opened.
    Postgres(String),
}

impl StoreUrl {
    /// How messages name it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => PostgresOptions::new(url).map_or("postgres:".into(), |of| of.place().to_string()),
        }
    }

    /// The file, where it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// The same, or why this command is not for it.
    pub(crate) fn into_file(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Sqlite(path) => Ok(path),
            Self::Postgres(_) => anyhow::bail!(
                "{} is copied and restored with PostgreSQL's own tools, pg_basebackup or pg_dump; samekey sees by itself that \
                 a database was restored",
                self.place()
            ),
        }
    }

    /// As the flag spells it.
    fn word(&self) -> OsString {
        match self {
            Self::Sqlite(path) => {
                let mut url = OsString::from("sqlite:");
                url.push(path);
                url
            }
            Self::Postgres(url) => url.into(),
        }
    }

    /// The options of a PostgreSQL store.
    pub(crate) fn postgres(url: &str) -> Result<PostgresOptions, StoreError> {
        PostgresOptions::new(url)
    }
}

// A password must not come into a log by way of its settings.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.trim_start_matches("//").into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Ok(Self::Postgres(text.to_owned())),
            _ => Err("it names no store; write sqlite:PATH, for instance sqlite:samekey.db, or \
                      postgres://USER:PASSWORD@HOST/DATABASE"
                .into()),
        }
    }
}

/// The flags of commands beside `serve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store, as `samekey serve` is told [default: what samekey.toml says, or sqlite:samekey.db]
    #[arg(long, env = "SAMEKEY_STORE", value_name = "STORE", hide_env_values = true)]
    store: Option<StoreUrl>,

    /// The configuration of the server [default: samekey.toml, if it is there]
    #[arg(long, env = "SAMEKEY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreArgs {
    /// What `serve` with these flags would be told.
    pub(crate) fn loaded(&self) -> anyhow::Result<Loaded> {
        let mut words: Vec<OsString> = vec!["samekey".into(), "serve".into()];
        if let Some(config) = &self.config {
            words.extend(["--config".into(), config.into()]);
        }
        if let Some(store) = &self.store {
            words.extend(["--store".into(), store.word()]);
        }
        config::load(&Source::of_words(words), None)
    }

    /// The store alone. Naming it is enough: what else the configuration says does not matter then.
    pub(crate) fn url(&self) -> anyhow::Result<StoreUrl> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => Ok(self.loaded()?.args.store),
        }
    }

    /// The store's file, for what is done to files.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        self.url()?.into_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_say_what_to_write() {
        for text in ["samekey.db", "mysql://x", "postgres:x"] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert!(error.contains("sqlite:PATH") && error.contains("postgres://"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        for url in ["postgres://ann:s3cret@db/shop", "postgres://ann:s3cret@db/shop?sslmode=perhaps"] {
            let url: StoreUrl = url.parse().unwrap();
            assert!(!format!("{url:?} {}", url.place()).contains("s3cret"));
        }
    }
}
