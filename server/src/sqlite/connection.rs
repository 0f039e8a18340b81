//! What a connection must be like, so that claim, effect and answer are one.

use std::sync::Arc;

use rusqlite::Connection;

use crate::store::StoreError;

/// How messages name the database.
pub(super) fn place(conn: &Connection) -> Arc<str> {
    conn.path().filter(|path| !path.is_empty()).unwrap_or("the database").into()
}

/// Refuses what would tear claim and effect apart.
pub(super) fn check(conn: &Connection) -> Result<(), StoreError> {
    if !conn.is_autocommit() {
        return Err(StoreError::misuse(
            "the connection is inside a transaction, which may still be rolled back; use sqlite::begin there",
        ));
    }
    let of = |error| StoreError::sqlite(&place(conn), error);
    let attached: Option<String> = conn
        .prepare_cached("SELECT name FROM pragma_database_list WHERE name NOT IN ('main', 'temp') LIMIT 1")
        .and_then(|mut list| list.query_map([], |row| row.get(0))?.next().transpose())
        .map_err(of)?;
    if let Some(name) = attached {
        // In WAL mode a transaction over several files is not atomic across a crash.
        return Err(StoreError::misuse(format!(
            "the database {name:?} is attached, and a commit over several files is not one; use a connection without it"
        )));
    }
    let journal: String = conn
        .prepare_cached("PRAGMA main.journal_mode")
        .and_then(|mut mode| mode.query_row([], |row| row.get(0)))
        .map_err(of)?;
    if journal.eq_ignore_ascii_case("off") {
        return Err(StoreError::misuse(
            "without a journal (journal_mode = OFF) nothing can be rolled back; use WAL or another mode",
        ));
    }
    let shadowed = conn
        .prepare_cached(
            "SELECT 1 FROM temp.sqlite_schema WHERE name LIKE 'samekey!_%' ESCAPE '!' OR name = 'idempotency_keys'",
        )
        .and_then(|mut seen| seen.exists([]))
        .map_err(of)?;
    if shadowed {
        return Err(StoreError::misuse("a temporary table hides samekey's own, and would forget every key"));
    }
    Ok(())
}

/// Makes the connection's commits durable; returns how durable they were.
pub(super) fn make_durable(conn: &Connection) -> Result<i64, StoreError> {
    let of = |error| StoreError::sqlite(&place(conn), error);
    let before: i64 = conn.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(of)?;
    if before < FULL {
        conn.pragma_update(None, "synchronous", FULL).map_err(of)?;
    }
    Ok(before)
}

/// Gives the connection back as it came.
pub(super) fn restore(conn: &Connection, synchronous: i64) -> Result<(), StoreError> {
    if synchronous < FULL {
        conn.pragma_update(None, "synchronous", synchronous)
            .map_err(|error| StoreError::sqlite(&place(conn), error))?;
    }
    Ok(())
}

/// `PRAGMA synchronous = FULL`.
const FULL: i64 = 2;
