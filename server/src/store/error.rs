//! What a store refuses, and what to do about it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

/// Why a store did not do what it was asked. Nothing ran and nothing was half written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process kept the write lock for longer than the timeout.
    #[error(
        "{place}: another process holds the write lock; look for a long transaction or a copy in progress, then try again"
    )]
    Busy {
        /// The file.
        place: Arc<str>,
    },
    /// The disk or the file's own limit is full.
    #[error("{place}: no space is left for the store; free some on that file system, samekey goes on by itself")]
    Full {
        /// The file.
        place: Arc<str>,
    },
    /// The file or its directory cannot be written.
    #[error("{place}: cannot be written ({why}); the store needs write access to the file and to its directory")]
    ReadOnly {
        /// The file.
        place: Arc<str>,
        /// What the system said.
        why: Arc<str>,
    },
    /// The file is damaged.
    #[error(
        "{place}: the store is damaged ({why}); keep the file, restore a backup with `samekey restore`, and check the disk"
    )]
    Corrupt {
        /// The file.
        place: Arc<str>,
        /// What is wrong.
        why: Arc<str>,
    },
    /// A newer samekey wrote the file.
    #[error("{place}: has schema {found}, this samekey knows up to {known}; use the newer samekey that wrote it")]
    NewerSchema {
        /// The file.
        place: Arc<str>,
        /// The file's schema.
        found: u32,
        /// The newest schema known here.
        known: u32,
    },
    /// The file belongs to another program.
    #[error("{place}: is not a samekey store ({why}); name another file, samekey does not write into this one")]
    ForeignFile {
        /// The file.
        place: Arc<str>,
        /// How it shows.
        why: Arc<str>,
    },
    /// The file would stand on a network file system.
    #[error(
        "{place}: is on a network file system ({kind}), where SQLite's locks do not hold; use a local disk, or PostgreSQL for many hosts"
    )]
    NetworkFileSystem {
        /// The file.
        place: Arc<str>,
        /// Which kind.
        kind: &'static str,
    },
    /// The directory does not exist.
    #[error("{place}: its directory does not exist; create it, or name another file")]
    NoDirectory {
        /// The file.
        place: Arc<str>,
    },
    /// The path names something that is no file.
    #[error("{place}: is not a file; name a file, which samekey creates if it is missing")]
    NotAFile {
        /// The path.
        place: Arc<str>,
    },
    /// The file is there already.
    #[error("{place}: is there already, and nothing is overwritten; name a new file, or move this one away")]
    Exists {
        /// The file.
        place: Arc<str>,
    },
    /// There is no store in the file, or no file.
    #[error("{place}: holds no store; name the file that `samekey serve --store sqlite:FILE` uses, or a backup of it")]
    NoStore {
        /// The file.
        place: Arc<str>,
    },
    /// The store was closed, or its writer ended.
    #[error("the store is closed; open it again")]
    Closed,
    /// A record holds what this version cannot read. It is neither a mismatch nor a reason to run.
    #[error("a record cannot be read: {what}; use the samekey that wrote it, or a newer one")]
    Unreadable {
        /// What could not be read.
        what: Arc<str>,
    },
    /// The key has a record under a name of another configuration. Whether it is the same command, only that one knows.
    #[error(
        "the key has a record of the operation {operation}, which this server's configuration does not name; \
         add it to the aliases of the operation that took its place"
    )]
    UnnamedOperation {
        /// The name.
        operation: Arc<str>,
    },
    /// The database does not answer, or takes no more connections.
    #[error("{place}: the database cannot be used now ({why}); samekey goes on by itself once it can")]
    Unreachable {
        /// The database.
        place: Arc<str>,
        /// What is in the way.
        why: Arc<str>,
    },
    /// It was called in a way that would break its promise.
    #[error("{what}")]
    Misuse {
        /// What was done, and what to do instead.
        what: Arc<str>,
    },
    /// Anything else.
    #[error("{place}: {source}")]
    Backend {
        /// The file.
        place: Arc<str>,
        /// What the database said.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    pub(crate) fn misuse(what: impl Into<Arc<str>>) -> Self {
        Self::Misuse { what: what.into() }
    }

    /// The store is closed for good.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// The same request may well succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Full { .. } | Self::Unreachable { .. })
    }

    /// Every kind that metrics count.
    #[cfg(feature = "cli")]
    pub(crate) const KINDS: &[&str] = &["busy", "full", "io", "corrupt"];

    /// As metrics count it; `None`: the store is not at fault.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => Some("busy"),
            Self::Full { .. } => Some("full"),
            Self::Corrupt { .. } | Self::Unreadable { .. } => Some("corrupt"),
            Self::ReadOnly { .. } | Self::Backend { .. } => Some("io"),
            _ => None,
        }
    }

    pub(super) fn unreadable(what: impl Into<Arc<str>>) -> Self {
        Self::Unreadable { what: what.into() }
    }

    pub(super) fn backend(place: &Arc<str>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend { place: Arc::clone(place), source: Arc::from(source.into()) }
    }

    /// What SQLite's error means for the file at `place`.
    pub(crate) fn sqlite(place: &Arc<str>, error: rusqlite::Error) -> Self {
        let place = Arc::clone(place);
        let why = || Arc::from(error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { place },
            Some(ErrorCode::DiskFull) => Self::Full { place },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { place, why: why() }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt { place, why: why() },
            _ => Self::Backend { place, source: Arc::new(error) },
        }
    }

    /// What the system's error means for the file at `path`.
    pub(super) fn io(path: &Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let place = place(path);
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { place, why: error.to_string().into() }
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { place },
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::NoDirectory { place },
            ErrorKind::IsADirectory => Self::NotAFile { place },
            _ => Self::Backend { place, source: Arc::new(error) },
        }
    }
}

/// How messages name a file.
pub(super) fn place(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn errors_of_the_system_say_what_and_where() {
        let path = Path::new("/srv/samekey.db");
        let of = |errno: rustix::io::Errno| StoreError::io(path, io::Error::from(errno));
        assert!(matches!(of(rustix::io::Errno::ROFS), StoreError::ReadOnly { .. }));
        assert!(matches!(of(rustix::io::Errno::ACCESS), StoreError::ReadOnly { .. }));
        assert!(matches!(of(rustix::io::Errno::NOSPC), StoreError::Full { .. }));
        assert!(matches!(of(rustix::io::Errno::DQUOT), StoreError::Full { .. }));
        assert!(matches!(of(rustix::io::Errno::NOENT), StoreError::NoDirectory { .. }));
        assert!(matches!(of(rustix::io::Errno::IO), StoreError::Backend { .. }));
        assert!(of(rustix::io::Errno::ROFS).to_string().starts_with("/srv/samekey.db: cannot be written"));
    }

    #[test]
    fn errors_of_sqlite_are_told_apart() {
        let place: Arc<str> = "a.db".into();
        let of =
            |code| StoreError::sqlite(&place, rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        assert!(matches!(of(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT), StoreError::Busy { .. }));
        assert!(matches!(of(rusqlite::ffi::SQLITE_FULL), StoreError::Full { .. }));
        assert!(matches!(of(rusqlite::ffi::SQLITE_READONLY_DIRECTORY), StoreError::ReadOnly { .. }));
        assert!(matches!(of(rusqlite::ffi::SQLITE_CORRUPT_INDEX), StoreError::Corrupt { .. }));
        assert!(matches!(of(rusqlite::ffi::SQLITE_IOERR_FSYNC), StoreError::Backend { .. }));
        assert!(of(rusqlite::ffi::SQLITE_BUSY).is_transient());
    }
}
