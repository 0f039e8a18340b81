//! What PostgreSQL's errors mean.

use std::sync::Arc;

use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// Why a transaction came to nothing.
#[derive(Debug)]
pub(in crate::store) enum Trouble {
    /// The database refused, or the connection is gone.
    Postgres(tokio_postgres::Error),
    /// This item alone; it wrote nothing that another item sees.
    Item(StoreError),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl Trouble {
    pub(in crate::store) fn into_error(self, place: &Arc<str>) -> StoreError {
        match self {
            Self::Postgres(error) => of(place, &error),
            Self::Item(error) => error,
        }
    }
}

/// What an error means for the database at `place`.
pub(crate) fn of(place: &Arc<str>, error: &tokio_postgres::Error) -> StoreError {
    let place = Arc::clone(place);
    let why = Arc::from(told(error));
    let Some(code) = error.code() else {
        // Without an answer of the server: the connection, or what came over it.
        return StoreError::Unreachable { place, why };
    };
    match code.code() {
        // Connections, shutting down, starting up, too many of them.
        class if class.starts_with("08") => StoreError::Unreachable { place, why },
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" => StoreError::Unreachable { place, why },
        // Another transaction is in the way, or the server has no room to work in.
        "55P03" | "57014" | "40001" | "40P01" | "53000" | "53200" => StoreError::Busy { place },
        "53100" => StoreError::Full { place },
        "25006" => StoreError::ReadOnly { place, why },
        "XX001" | "XX002" => StoreError::Corrupt { place, why },
        // Bytes that PostgreSQL's text cannot hold.
        "22021" | "22P05" => StoreError::misuse(format!("actor, operation and names must hold no NUL ({why})")),
        _ => StoreError::Backend { place, source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(&*why)) },
    }
}

/// The error and what is behind it: the library's own text names only the first.
fn told(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Another transaction held what this one wanted for longer than `lock_timeout`.
pub(crate) fn is_lock_timeout(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// The connection is of no use any more.
pub(super) fn is_connection(error: &tokio_postgres::Error) -> bool {
    error.is_closed()
        || error.code().is_none_or(|code| {
            let code = code.code();
            code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03")
        })
}
