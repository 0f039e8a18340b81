//! Reads beside the writer: no write lock, no fsync.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{Trouble, open};
use crate::store::StoreError;

/// Read-only connections, opened when they are first needed.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) path: PathBuf,
    place: Arc<str>,
    pub(super) busy_timeout: Duration,
    permits: Semaphore,
    /// `None` once the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, place: Arc<str>, busy_timeout: Duration, readers: usize) -> Self {
        let permits = Semaphore::new(readers.max(1));
        Self { path, place, busy_timeout, permits, idle: Mutex::new(Some(Vec::new())) }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on a thread that may block: a look into a cold file waits for the disk.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        tokio::task::spawn_blocking(move || readers.read_now(read)).await.map_err(|_| StoreError::Closed)?
    }

    fn read_now<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let of = |error| StoreError::sqlite(&self.place, error);
        let idle = self.idle().as_mut().ok_or(StoreError::Closed)?.pop();
        let mut conn = match idle {
            Some(conn) => conn,
            None => open::reader(&self.path, self.busy_timeout).map_err(of)?,
        };
        // Record, response and profile of one moment.
        let tx = conn.transaction().map_err(of)?;
        let result = read(&tx);
        tx.finish().map_err(of)?;
        if let Some(idle) = self.idle().as_mut() {
            idle.push(conn);
        }
        result.map_err(|trouble| match trouble {
            Trouble::Sqlite(error) => of(error),
            Trouble::Item(error) => error,
        })
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle().take();
    }
}
