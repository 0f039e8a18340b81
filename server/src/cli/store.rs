//! Which store a command works on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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
