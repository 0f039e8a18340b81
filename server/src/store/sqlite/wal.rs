//! When the WAL is moved into the file: between batches, when there is nothing else to do or it grew too long.
//!
//! SQLite's own checkpoint would run inside some claim's COMMIT. The WAL's file is kept at its length, because
//! overwriting costs half of what appending does.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Pages at which it is moved even though writes are waiting: 64 MiB.
const MAX_PAGES: usize = 16_384;

/// Pages that are worth moving when nothing else is to be done, and how long that is to have lasted.
const WORTH_PAGES: usize = 256;
const IDLE: Duration = Duration::from_millis(250);

/// How long the WAL is, as far as the writer knows: SQLite tells only when it moves it.
#[derive(Debug)]
pub(super) struct Wal {
    pages: usize,
    /// Moved at this length; grows while a reader keeps it from shrinking.
    bound: usize,
    last_write: Instant,
}

impl Wal {
    pub(super) fn new() -> Self {
        Self { pages: 0, bound: MAX_PAGES, last_write: Instant::now() }
    }

    /// A transaction wrote about this many pages.
    pub(super) fn grew(&mut self, pages: usize) {
        self.pages += pages;
        self.last_write = Instant::now();
    }

    /// When it is to be looked after, if nobody writes.
    pub(super) fn nap(&self) -> Option<Duration> {
        (self.pages > WORTH_PAGES).then(|| IDLE.saturating_sub(self.last_write.elapsed()))
    }

    /// Between two batches.
    pub(super) fn tend(&mut self, conn: &Connection) {
        if self.pages >= self.bound || self.nap() == Some(Duration::ZERO) {
            self.checkpoint(conn);
        }
    }

    /// Moves it into the file, as far as no reader and no other process is in the way.
    pub(super) fn checkpoint(&mut self, conn: &Connection) {
        let moved = conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        match moved {
            // All was moved: the next write begins at the start of the file.
            Ok((length, moved)) if length == moved => (self.pages, self.bound) = (0, MAX_PAGES),
            // A reader still needs the older pages: trying again after each batch would only cost.
            Ok((length, _)) => {
                self.pages = usize::try_from(length).unwrap_or(0);
                self.bound = MAX_PAGES.max(self.pages + MAX_PAGES / 4);
            }
            Err(error) => {
                tracing::warn!(%error, "the WAL could not be moved into the store's file");
                self.bound = self.pages + MAX_PAGES / 4;
            }
        }
        self.last_write = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wal_is_moved_and_a_reader_only_delays_that() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)").unwrap();
        let mut wal = Wal::new();
        wal.grew(10);
        assert_eq!(wal.nap(), None);
        wal.tend(&conn);
        assert_eq!(wal.pages, 10, "not worth it");

        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        conn.execute_batch("INSERT INTO t VALUES (randomblob(40960))").unwrap();
        wal.grew(MAX_PAGES);
        wal.tend(&conn);
        assert!(wal.pages > 5 && wal.pages < 100, "the true length, {}", wal.pages);
        reader.execute_batch("COMMIT").unwrap();
        wal.grew(MAX_PAGES * 2);
        wal.tend(&conn);
        assert_eq!((wal.pages, wal.bound), (0, MAX_PAGES));
    }
}
