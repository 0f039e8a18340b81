//! Reads beside the writer: no write lock, no fsync.
//!
//! A look-up that finds its pages in memory takes some microseconds, and handing it to another thread takes several
//! times that. It is therefore made at once, where it is asked for, by a connection that waits for nobody. What
//! may take longer goes to a thread that may block: a lock that is taken, a long answer, the opening of another
//! connection, and for a while everything, once look-ups showed that the disk is being waited for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::Semaphore;

use super::{Trouble, open};
use crate::observe;
use crate::store::StoreError;

/// A look-up from memory stays far below this; one that reads from a disk, or whose thread was put off, does not.
const SLOW: Duration = Duration::from_millis(1);

/// What a slow look-up adds to the suspicion of which a quick one takes one, and how much of it is proof. One slow
/// look-up among many was a thread whose turn was over; three near each other waited for the disk.
const SUSPICION: u32 = 16;
const PROOF: u32 = 3 * SUSPICION;

/// How long look-ups then go to other threads. The first slow one after that is proof again, so that a cold disk
/// holds up an async thread at most this often.
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
    suspicion: AtomicU32,
}

impl Readers {
    pub(super) fn new(path: PathBuf, place: Arc<str>, patience: Duration, readers: usize) -> Self {
        let most = readers.max(1);
        let (permits, idle) = (Semaphore::new(most), Mutex::new(Some(Vec::new())));
        let (slow_until, suspicion) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { path, place, patience, most, permits, idle, started: Instant::now(), slow_until, suspicion }
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
        self.judge(began, self.started.elapsed());
        match result {
            Err(_) if is_busy(&result) => Ok(None),
            result => result.map_err(|trouble| self.error(trouble)),
        }
    }

    /// Whether the disk is being waited for. Threads that judge at the same moment may lose each other's counts,
    /// which makes the proof a little later.
    fn judge(&self, began: Duration, ended: Duration) {
        let suspicion = self.suspicion.load(Ordering::Relaxed);
        if ended.saturating_sub(began) <= SLOW {
            if suspicion > 0 {
                self.suspicion.store(suspicion - 1, Ordering::Relaxed);
            }
        } else if suspicion + SUSPICION < PROOF {
            self.suspicion.store(suspicion + SUSPICION, Ordering::Relaxed);
        } else {
            self.suspicion.store(PROOF - SUSPICION, Ordering::Relaxed);
            self.slow_until.store(micros(ended + SLOW_HOLDS), Ordering::Relaxed);
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
            Trouble::Sqlite(error) => {
                let error = StoreError::sqlite(&self.place, error);
                observe::store_failed(&error);
                error
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_look_up_is_chance_and_three_are_the_disk() {
        let readers = Readers::new("a.db".into(), "a.db".into(), Duration::ZERO, 1);
        let goes_elsewhere = || readers.slow_until.swap(0, Ordering::Relaxed) > 0;
        let look_up = |millis: u64| readers.judge(Duration::from_secs(1), Duration::from_millis(1000 + millis));
        for _ in 0..10 {
            look_up(5);
            (0..SUSPICION).for_each(|_| look_up(0));
        }
        assert!(!goes_elsewhere());
        (0..3).for_each(|_| look_up(5));
        assert!(goes_elsewhere());
        look_up(5);
        assert!(goes_elsewhere(), "it is still cold");
        (0..PROOF).for_each(|_| look_up(0));
        look_up(5);
        assert!(!goes_elsewhere(), "it is warm again");
    }
}
