//! Which store a command works on: the one that `serve` would open.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use super::config::{self, Loaded, Source};

/// `sqlite:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreUrl {
    pub(crate) path: PathBuf,
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self { path: path.trim_start_matches("//").into() }),
            Some(("postgres" | "postgresql", _)) => Err("PostgreSQL is not supported yet; write sqlite:PATH".into()),
            _ => Err(format!("{text} names no store; write sqlite:PATH, for instance sqlite:samekey.db")),
        }
    }
}

/// The flags of commands beside `serve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The store, as `samekey serve` is told [default: what samekey.toml says, or sqlite:samekey.db]
    #[arg(long, env = "SAMEKEY_STORE", value_name = "STORE")]
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
            let mut url = OsString::from("sqlite:");
            url.push(&store.path);
            words.extend(["--store".into(), url]);
        }
        config::load(&Source::of_words(words), None)
    }

    /// The store alone. Naming it is enough: what else the configuration says does not matter then.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.store {
            Some(store) => Ok(store.path.clone()),
            None => Ok(self.loaded()?.args.store.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_say_what_to_write() {
        for (error, hint) in [
            ("samekey.db".parse::<StoreUrl>().unwrap_err(), "sqlite:PATH"),
            ("postgres://x".parse::<StoreUrl>().unwrap_err(), "sqlite:PATH"),
        ] {
            assert!(error.contains(hint), "{error}");
        }
    }
}
