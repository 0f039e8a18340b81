//! Reads beside the writer: no write lock, no fsync.
//!
//! A look-up that finds its pages in memory takes some microseconds, and handing it to another thread takes several
//! times that. It is therefore made at once, where it is asked for, by a connection that waits for nobody. What
//! may take longer goes to a thread that may block: a lock that is taken, a long answer, the opening of another
//! connection, and for a while everything, once a look-up showed that the disk is being waited for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::Semaphore;

use super::{Trouble, open};
use crate::store::StoreError;

/// A look-up from memory stays far below this; one that reads from a disk, or whose thread was put off, does not.
const SLOW: Duration = Duration::from_millis(1);

/// How long look-ups then go to other threads: a cold disk holds up an async thread at most this seldom.
const SLOW_HOLDS: Duration = Duration::from_millis(100);

/// Read-only connections, opened when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) path: PathBuf,
    place: Arc<str>,
    /// How long a read on a thread of its own waits for a lock.
    pub(super) patience: Duration,
    most: usize,
    permits: Semaphore,
    /// Those that wait for no lock. `None` once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    started: Instant,
    /// Until when, in microseconds since `started`, reads go to other threads.
    slow_until: AtomicU64,
}

impl Readers {
    pub(super) fn new(path: PathBuf, place: Arc<str>, patience: Duration, readers: usize) -> Self {
        let most = readers.max(1);
        let (permits, idle) = (Semaphore::new(most), Mutex::new(Some(Vec::new())));
        Self { path, place, patience, most, permits, idle, started: Instant::now(), slow_until: AtomicU64::new(0) }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads here and now; `None` if that could take long, or `read` says so.
    pub(super) fn read_now<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<Option<T>, Trouble>,
    ) -> Result<Option<T>, StoreError> {
        let began = self.started.elapsed();
        if micros(began) < self.slow_until.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(conn) = self.idle().as_mut().ok_or(StoreError::Closed)?.pop() else { return Ok(None) };
        let result = snapshot(&conn, read);
        if !is_busy(&result) {
            self.put_back(conn, &result);
        }
        let ended = self.started.elapsed();
        if ended.saturating_sub(began) > SLOW {
            self.slow_until.store(micros(ended + SLOW_HOLDS), Ordering::Relaxed);
        }
        match result {
            Err(_) if is_busy(&result) => Ok(None),
            result => result.map_err(|trouble| self.error(trouble)),
        }
    }

    /// Reads on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        tokio::task::spawn_blocking(move || readers.read_blocking(read)).await.map_err(|_| StoreError::Closed)?
    }

    fn read_blocking<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let of = |error| StoreError::sqlite(&self.place, error);
        let idle = self.idle().as_mut().ok_or(StoreError::Closed)?.pop();
        let conn = match idle {
            Some(conn) => conn,
            None => open::reader(&self.path, self.patience).map_err(of)?,
        };
        conn.busy_timeout(self.patience).map_err(of)?;
        let result = snapshot(&conn, read);
        conn.busy_timeout(Duration::ZERO).map_err(of)?;
        self.put_back(conn, &result);
        result.map_err(|trouble| self.error(trouble))
    }

    /// For the next read, unless something is wrong with it, or there are enough.
    fn put_back<T>(&self, conn: Connection, result: &Result<T, Trouble>) {
        if matches!(result, Err(Trouble::Sqlite(_))) || !conn.is_autocommit() {
            return;
        }
        if let Some(idle) = self.idle().as_mut().filter(|idle| idle.len() < self.most) {
            idle.push(conn);
        }
    }

    fn error(&self, trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Sqlite(error) => StoreError::sqlite(&self.place, error),
            Trouble::Item(error) => error,
        }
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle().take();
    }
}

/// Record, response and profile of one moment.
fn snapshot<T>(conn: &Connection, read: impl FnOnce(&Connection) -> Result<T, Trouble>) -> Result<T, Trouble> {
    conn.prepare_cached("BEGIN")?.execute([])?;
    let result = read(conn);
    // After some errors SQLite has ended it already; what the read met comes first.
    if !conn.is_autocommit()
        && let Err(error) = conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]))
    {
        return result.and(Err(error.into()));
    }
    result
}

/// Somebody recovers the WAL, for instance.
fn is_busy<T>(result: &Result<T, Trouble>) -> bool {
    let Err(Trouble::Sqlite(error)) = result else { return false };
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
