//! Where the records are: one of the stores that pass the conformance suite.

use super::sqlite::{Sqlite, SqliteOptions};
#[cfg(feature = "postgres")]
use super::{PostgresOptions, postgres::Postgres};

/// Where the records are.
#[derive(Debug)]
pub(super) enum Backend {
    Sqlite(Box<Sqlite>),
    #[cfg(feature = "postgres")]
    Postgres(Box<Postgres>),
}

/// The same verb, whichever backend it is.
macro_rules! on {
    ($store:expr, $backend:ident => $call:expr) => {
        match &$store.inner.backend {
            $crate::store::backend::Backend::Sqlite($backend) => $call,
            #[cfg(feature = "postgres")]
            $crate::store::backend::Backend::Postgres($backend) => $call,
        }
    };
}

pub(super) use on;

/// How to open a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "one for each store that is opened")]
pub enum StoreOptions {
    /// In a file.
    Sqlite(SqliteOptions),
    /// In a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(PostgresOptions),
}

impl From<SqliteOptions> for StoreOptions {
    fn from(options: SqliteOptions) -> Self {
        Self::Sqlite(options)
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresOptions> for StoreOptions {
    fn from(options: PostgresOptions) -> Self {
        Self::Postgres(options)
    }
}
