//! What is done to a store's file beside those that use it: copies, and erasing.

use std::path::Path;
use std::time::Duration;

use samekey_core::{Actor, Timestamp};

#[cfg(feature = "cli")]
use super::Secret;
use super::{Policies, StoreError, sqlite};
use crate::clock::Clock;

/// How long a piece of work beside a serving process waits for the write lock.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a backup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// So many records are in it.
    pub records: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a restored backup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// So many records are in the new store.
    pub records: u64,
    /// Of so many nobody knows how they ended.
    pub uncertain: usize,
    /// When the backup was taken.
    pub taken_at: Option<Timestamp>,
    /// Before this moment absence proves nothing.
    pub horizon: Timestamp,
}

/// What erasing an actor came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// So many records say nothing of them any more.
    pub records: usize,
    /// So many commands still run and were left as they are: erase again when they have ended.
    pub running: usize,
    /// No page that is free, and none of the WAL, holds what was deleted.
    pub scrubbed: bool,
}

/// Makes a new store of a backup. Blocks.
///
/// What the old store did since the backup was taken is lost, and nothing in the copy says what that was. So the
/// present moment becomes the new store's *horizon*: keys that it does not know and that may have run before are
/// `outcome_uncertain`, and so is every record that had not ended. `policies`: the contracts, for how long something
/// may still be under way.
///
/// # Errors
/// If `to` is there already, `from` holds no sound store, or the clock shows a time before the backup was taken.
/// Nothing is left behind then.
pub fn restore(from: &Path, to: &Path, policies: &Policies) -> Result<Restored, StoreError> {
    restore_at(from, to, Clock::system().now(), policies)
}

/// [`restore`] by another clock than the machine's, for stores that have one.
///
/// # Errors
/// The same.
pub fn restore_at(from: &Path, to: &Path, now: Timestamp, policies: &Policies) -> Result<Restored, StoreError> {
    sqlite::copy::restore(from, to, now, policies)
}

/// Copies the store in `from` into the new file `to`, while other processes use it. Blocks, and takes its time: their
/// claims go before.
///
/// # Errors
/// If `to` is there already, or `from` holds no sound store. Nothing is left behind then.
pub fn backup(from: &Path, to: &Path) -> Result<Backup, StoreError> {
    sqlite::copy::backup(from, to, Clock::system().now())
}

/// [`Store::erase`](super::Store::erase) on a file that other processes use, without opening it as a store. Blocks.
pub fn erase(file: &Path, actor: &Actor) -> Result<Erased, StoreError> {
    sqlite::erase::erase_in(file, PATIENCE, actor, Clock::system().now())
}

/// The secret of the store in this file. Blocks.
#[cfg(feature = "cli")]
pub(crate) fn secret_of(file: &Path) -> Result<Secret, StoreError> {
    sqlite::secret_of(file)
}
