//! When the WAL is moved into the file: when there is nothing else to do, or it grew too long.
//!
//! SQLite's own checkpoint would run inside some claim's COMMIT. Here it runs beside the writer, on a connection and
//! a thread of its own, while the writer goes on; what was written meanwhile is moved again. Once little is left, the
//! writer moves that itself between two batches, because only a WAL that was moved as a whole begins anew. Its file
//! is kept at its length then: overwriting costs half of what appending does.

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

/// Pages at which it is moved even though writes are waiting: 32 MiB. While it is being moved it grows on.
const MAX_PAGES: usize = 8192;

/// Pages that the writer moves itself: some milliseconds.
const FEW_PAGES: usize = 512;

/// Pages that are worth moving when nothing else is to be done, and how long that is to have lasted.
const WORTH_PAGES: usize = 256;
const IDLE: Duration = Duration::from_millis(250);

/// How often the writer looks whether the mover is done, if nobody writes.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long the WAL is, as far as the writer knows: SQLite tells only when it moves it.
#[derive(Debug)]
pub(super) struct Wal {
    pages: usize,
    /// Moved at this length; grows while a reader keeps it from shrinking.
    bound: usize,
    last_write: Instant,
    mover: Option<Mover>,
    /// How long it was when the mover was asked.
    moving: Option<usize>,
}

/// The WAL's length in pages, and how many of them were moved.
type Moved = rusqlite::Result<(usize, usize)>;

impl Wal {
    /// Without a mover the writer moves it all.
    pub(super) fn new(mover: Option<Mover>) -> Self {
        Self { pages: 0, bound: MAX_PAGES, last_write: Instant::now(), mover, moving: None }
    }

    /// A transaction wrote about this many pages.
    pub(super) fn grew(&mut self, pages: usize) {
        self.pages += pages;
        self.last_write = Instant::now();
    }

    /// When it is to be looked after, if nobody writes.
    pub(super) fn nap(&self) -> Option<Duration> {
        if self.moving.is_some() {
            return Some(LOOK_EVERY);
        }
        (self.pages > WORTH_PAGES).then(|| IDLE.saturating_sub(self.last_write.elapsed()))
    }

    /// Between two batches.
    pub(super) fn tend(&mut self, conn: &Connection) {
        if let (Some(mover), Some(then)) = (&self.mover, self.moving) {
            match mover.moved.try_recv() {
                Ok(moved) => self.note(moved, then),
                Err(mpsc::TryRecvError::Empty) => return,
                Err(mpsc::TryRecvError::Disconnected) => (self.mover, self.moving) = (None, None),
            }
        }
        if self.pages < self.bound && self.nap() != Some(Duration::ZERO) {
            return;
        }
        match &self.mover {
            Some(mover) if self.pages > FEW_PAGES && mover.asks.send(()).is_ok() => self.moving = Some(self.pages),
            _ => self.checkpoint(conn),
        }
    }

    /// Moves it into the file here and now, as far as no reader and no other process is in the way.
    pub(super) fn checkpoint(&mut self, conn: &Connection) {
        let then = self.pages;
        self.note(checkpoint(conn), then);
        self.last_write = Instant::now();
    }

    /// The last word before the store closes.
    pub(super) fn end(&mut self, conn: &Connection) {
        if let Some(mover) = self.mover.take() {
            drop(mover.asks);
            if mover.thread.join().is_err() {
                tracing::error!("the thread that moves the WAL ended by a panic");
            }
        }
        self.checkpoint(conn);
    }

    /// `then`: how long it seemed when it began to be moved.
    fn note(&mut self, moved: Moved, then: usize) {
        self.moving = None;
        let since = self.pages.saturating_sub(then);
        match moved {
            // All that was there was moved: if nothing came, the next write begins at the start of the file.
            Ok((length, moved)) if length == moved => {
                self.pages = since;
                self.bound = if since > 0 && then >= MAX_PAGES { 0 } else { MAX_PAGES };
            }
            // A reader still needs the older pages: trying again after each batch would only cost.
            Ok((length, _)) => {
                self.pages = length + since;
                self.bound = MAX_PAGES.max(self.pages + MAX_PAGES / 4);
            }
            Err(error) => {
                tracing::warn!(%error, "the WAL could not be moved into the store's file");
                self.bound = self.pages + MAX_PAGES / 4;
            }
        }
    }
}

fn checkpoint(conn: &Connection) -> Moved {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let pages = |column| row.get::<_, i64>(column).map(|pages| usize::try_from(pages).unwrap_or(0));
        Ok((pages(1)?, pages(2)?))
    })
}

/// A thread that moves the WAL when it is asked to.
#[derive(Debug)]
pub(super) struct Mover {
    asks: mpsc::Sender<()>,
    moved: mpsc::Receiver<Moved>,
    thread: JoinHandle<()>,
}

impl Mover {
    /// `None`, and a line in the log, if the system has no thread or no descriptor left for it.
    pub(super) fn start(path: &Path) -> Option<Self> {
        let (asks, asked) = mpsc::channel();
        let (tell, moved) = mpsc::channel();
        let started = open(path).map_err(|error| error.to_string()).and_then(|conn| {
            std::thread::Builder::new()
                .name("samekey-wal".into())
                .spawn(move || {
                    while asked.recv().is_ok() {
                        if tell.send(checkpoint(&conn)).is_err() {
                            break;
                        }
                    }
                })
                .map_err(|error| error.to_string())
        });
        match started {
            Ok(thread) => Some(Self { asks, moved, thread }),
            Err(error) => {
                tracing::warn!(%error, "the WAL is moved by the writer, which holds up claims at times");
                None
            }
        }
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, std::path::PathBuf, Connection) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)").unwrap();
        (directory, path, conn)
    }

    #[test]
    fn a_long_wal_is_moved_and_a_reader_only_delays_that() {
        let (_directory, path, conn) = store();
        let mut wal = Wal::new(None);
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

    #[test]
    fn the_writer_goes_on_while_it_is_moved_and_moves_the_rest() {
        let (_directory, path, conn) = store();
        let mut wal = Wal::new(Mover::start(&path));
        conn.execute_batch("INSERT INTO t VALUES (randomblob(40960))").unwrap();
        wal.grew(MAX_PAGES);
        wal.tend(&conn);
        assert!(wal.moving.is_some());
        conn.execute_batch("INSERT INTO t VALUES (randomblob(4096))").unwrap();
        wal.grew(2);
        while wal.moving.is_some() {
            wal.tend(&conn);
        }
        assert_eq!((wal.pages, wal.bound), (0, MAX_PAGES), "the rest was few enough for the writer");
        assert_eq!(checkpoint(&conn).unwrap(), checkpoint(&Connection::open(&path).unwrap()).unwrap());
        wal.end(&conn);
    }
}
