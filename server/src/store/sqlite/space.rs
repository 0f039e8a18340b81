//! Whether the disk has room for new claims.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one look is believed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Free space where the store stands. A full disk refuses new claims while completions still fit.
#[derive(Debug)]
pub(super) struct Space {
    directory: PathBuf,
    min_free_bytes: u64,
    last: Option<(Instant, bool)>,
}

impl Space {
    pub(super) fn of(file: &Path, min_free_bytes: u64) -> Self {
        Self { directory: super::open::directory_of(file).to_owned(), min_free_bytes, last: None }
    }

    /// Less than `min_free_bytes` is free.
    pub(super) fn is_short(&mut self) -> bool {
        match self.last {
            Some((at, short)) if at.elapsed() < LOOK_EVERY => short,
            _ => {
                // A file system that does not tell is not short: SQLite says so when it is full.
                let short = rustix::fs::statvfs(&self.directory)
                    .is_ok_and(|seen| seen.f_bavail.saturating_mul(seen.f_frsize) < self.min_free_bytes);
                self.last = Some((Instant::now(), short));
                short
            }
        }
    }
}
