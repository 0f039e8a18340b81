//! Gives pages back that nothing needs any more: in turns of the writer, and never all of them.

use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long a turn takes at most: a claim of the same batch waits for so long.
const TURN: Duration = Duration::from_millis(2);

/// Pages between two looks at the clock.
const STEP: u32 = 8;

/// Pages that are kept for what comes: 4 MiB, or an eighth of the file. A store into which as much comes as expires
/// takes them again at once, and moving pages about costs as much as writing them.
const RESERVE: u32 = 1024;
const RESERVED_SHARE: u32 = 8;

/// Says whether more may be given back, and how many pages were written, more or less.
pub(super) fn turn(conn: &Connection) -> rusqlite::Result<(bool, usize)> {
    let began = Instant::now();
    let ask = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let reserve = RESERVE.max(ask("page_count")? / RESERVED_SHARE);
    let before = ask("freelist_count")?;
    let mut free = before;
    while free > reserve && began.elapsed() < TURN {
        conn.execute_batch(&format!("PRAGMA incremental_vacuum({})", STEP.min(free - reserve)))?;
        let left = ask("freelist_count")?;
        if left >= free {
            // A file of an application, or one that was made without this: its pages are used again, no more.
            return Ok((false, 0));
        }
        free = left;
    }
    Ok((free > reserve, 2 * (before - free) as usize))
}
