//! A fault at every step of what is written, at COMMIT and after it.
//!
//! SQLite itself fails, where it is told to: a progress handler interrupts its machine at the n-th step, a commit hook
//! refuses a COMMIT, a WAL hook makes one that happened report an error, and a limit on the number of pages is a
//! full disk. For n = 1, 2, … until everything passes untouched.

mod batch;
mod command;

use std::cell::Cell;

use super::*;

/// What goes wrong on the writer's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Its machine is interrupted at this step, one time.
    Step(u32),
    /// The same, and at every later step until it is mended.
    StepsFrom(u32),
    /// So many COMMITs pass, then one is refused.
    Commit(u32),
    /// So many COMMITs pass, then one happens, and is not acknowledged.
    Acknowledgement(u32),
    /// The same, and every later one until it is mended.
    AcknowledgementsFrom(u32),
    /// So many more pages can be had.
    Full(u32),
}

#[derive(Clone, Copy, Default)]
struct Armed {
    fault: Option<Fault>,
    steps: u32,
    commits: u32,
    acknowledged: u32,
    happened: bool,
}

thread_local! {
    /// The writer's thread has one connection and one fault.
    static ARMED: Cell<Armed> = const { Cell::new(Armed { fault: None, steps: 0, commits: 0, acknowledged: 0, happened: false }) };
}

/// Counts, and says whether it fails now.
fn fails(count: impl FnOnce(&mut Armed) -> (u32, u32, bool)) -> bool {
    let mut armed = ARMED.get();
    if armed.fault.is_none() {
        return false;
    }
    let (number, at, lasting) = count(&mut armed);
    let fails = number == at || (lasting && number > at);
    armed.happened |= fails;
    ARMED.set(armed);
    fails
}

fn step() -> bool {
    fails(|armed| {
        armed.steps += 1;
        match armed.fault {
            Some(Fault::Step(at)) => (armed.steps, at, false),
            Some(Fault::StepsFrom(at)) => (armed.steps, at, true),
            _ => (0, 1, false),
        }
    })
}

fn commit() -> bool {
    fails(|armed| {
        armed.commits += 1;
        match armed.fault {
            Some(Fault::Commit(after)) => (armed.commits, after + 1, false),
            _ => (0, 1, false),
        }
    })
}

fn acknowledgement() -> bool {
    fails(|armed| {
        armed.acknowledged += 1;
        match armed.fault {
            Some(Fault::Acknowledgement(after)) => (armed.acknowledged, after + 1, false),
            Some(Fault::AcknowledgementsFrom(after)) => (armed.acknowledged, after + 1, true),
            _ => (0, 1, false),
        }
    })
}

impl Bench {
    /// Something goes wrong from now on.
    async fn breaks(&self, fault: Fault) {
        self.on_writer(move |conn| {
            conn.progress_handler(1, Some(step)).unwrap();
            conn.commit_hook(Some(commit)).unwrap();
            conn.wal_hook(Some(|_, _| {
                if acknowledgement() {
                    let lost = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
                    return Err(rusqlite::Error::SqliteFailure(lost, None));
                }
                Ok(())
            }));
            if let Fault::Full(pages) = fault {
                let used: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
                let free: i64 = conn.pragma_query_value(None, "freelist_count", |row| row.get(0)).unwrap();
                let most = used + i64::from(pages) - free;
                conn.pragma_update_and_check(None, "max_page_count", most, |_| Ok(())).unwrap();
            }
            ARMED.set(Armed { fault: Some(fault), ..Armed::default() });
        })
        .await;
    }

    /// All is well again; whether anything had gone wrong.
    async fn mended(&self) -> bool {
        self.on_writer(|conn| {
            let happened = ARMED.replace(Armed::default()).happened;
            conn.progress_handler(0, None::<fn() -> bool>).unwrap();
            conn.pragma_update_and_check(None, "max_page_count", 1 << 30, |_| Ok(())).unwrap();
            happened
        })
        .await
    }
}
