//! A SQLite store becomes a PostgreSQL one: every row, under the same ids and the same secret.
//!
//! The file is locked against writes meanwhile. Records go over in pages, each in a transaction with what belongs to
//! it, in the order of their ids; so whoever starts again goes on after the newest one that is there. Until all was
//! compared, a mark in the database keeps servers from opening it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient};

use super::error::Trouble;
use super::row::without_nul;
use super::{PostgresOptions, error, open, pool};
use crate::store::StoreError;

/// Records of one page.
const PAGE: i64 = 500;

/// How long a serving process may hold the file's write lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// In `samekey_meta`: from which store this one is being made.
pub(super) const MARK: &str = "importing";

/// What went over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Records in the database, each equal to that in the file.
    pub records: u64,
    /// Of these, so many were there already, from a run that was interrupted.
    pub there_before: u64,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Small,
    Truth,
    Bytes,
}

struct Table {
    name: &'static str,
    /// Pages go by this.
    by: &'static str,
    order: &'static str,
    columns: &'static [(&'static str, Kind)],
}

use Kind::{Bytes, Number, Small, Text, Truth};

const RECORDS: Table = Table {
    name: "idempotency_keys",
    by: "id",
    order: "id",
    columns: &[
        ("id", Number),
        ("actor_id", Text),
        ("operation", Text),
        ("idem_key", Text),
        ("configured", Truth),
        ("payload_hash", Text),
        ("state", Text),
        ("attempt", Number),
        ("holder", Bytes),
        ("took_over", Truth),
        ("revision", Number),
        ("lease_until", Number),
        ("deadline", Number),
        ("settle_after", Number),
        ("not_before", Number),
        ("reason", Text),
        ("ended", Text),
        ("status_code", Small),
        ("result_id", Text),
        ("created_at", Number),
        ("finished_at", Number),
        ("expires_at", Number),
        ("request_id", Text),
        ("effects_open", Number),
        ("effects_finished", Number),
        ("effects_not_applied", Number),
        ("looks", Number),
        ("look_at", Number),
        ("response_headers", Bytes),
        ("response_body", Bytes),
    ],
};

const EFFECTS: Table = Table {
    name: "idempotency_effects",
    by: "record",
    order: "record, name",
    columns: &[
        ("record", Number),
        ("name", Text),
        ("provider_key", Text),
        ("input_hash", Bytes),
        ("attempt", Number),
        ("call", Bytes),
        ("started_at", Number),
        ("finished_at", Number),
        ("ended", Text),
        ("result", Bytes),
    ],
};

const TRAIL: Table = Table {
    name: "idempotency_trail",
    by: "record",
    order: "record, revision",
    columns: &[
        ("record", Number),
        ("revision", Number),
        ("at", Number),
        ("attempt", Number),
        ("state", Text),
        ("reason", Text),
        ("by", Text),
        ("who", Text),
        ("why", Text),
        ("request_id", Text),
    ],
};

/// Small ones go over as a whole.
const WHOLE: &[Table] = &[
    Table { name: "samekey_profiles", by: "", order: "id", columns: &[("id", Text), ("definition", Text)] },
    Table {
        name: "samekey_forgotten_before",
        by: "",
        order: "operation",
        columns: &[("operation", Text), ("mark", Number)],
    },
];

/// What a store remembers of itself. The secret goes along, or hashes of credentials would mean nothing.
const FACTS: &[(&str, Kind)] = &[
    ("created_at", Number),
    ("secret", Bytes),
    ("erased", Bytes),
    ("horizon", Number),
    ("horizon_configured", Number),
    ("actor_kind", Text),
    ("passed", Number),
    ("passed_wall", Number),
];

/// Makes `to` of the store in this file. Started again after an interruption, it goes on where it was.
///
/// # Errors
/// If the file is no store, the database holds another one, or a row is not the same in both in the end.
pub async fn import(from: &Path, to: PostgresOptions) -> Result<Imported, StoreError> {
    let source = Source::open(from)?;
    open::open(&to).await?;
    let place = to.place();
    let mut client = pool::connect(&to).await?;
    client.batch_execute(&pool::set_up(&to)).await.map_err(|error| error::of(&place, &error))?;
    client.batch_execute("SET statement_timeout = 0").await.map_err(|error| error::of(&place, &error))?;
    go_over(&source, &mut client).await.map_err(|trouble| trouble.into_error(&place))
}

async fn go_over(source: &Source, client: &mut Client) -> Result<Imported, Trouble> {
    let mark = source.mark()?;
    begin(client, &mark, source).await?;
    let last: Option<i64> = client.query_one("SELECT max(id) FROM idempotency_keys", &[]).await?.try_get(0)?;
    let there_before = count(client).await?;
    let mut last = last.unwrap_or(i64::MIN);
    while let Some(end) = source.page_end(last)? {
        let tx = client.transaction().await?;
        for table in [&RECORDS, &EFFECTS, &TRAIL] {
            insert(&tx, table, source.rows(table, Some((last, end)))?).await?;
        }
        tx.commit().await?;
        last = end;
    }
    let records = compare(source, client).await?;
    client
        .execute("SELECT setval(pg_get_serial_sequence('idempotency_keys', 'id'), greatest($1, 1))", &[&last])
        .await?;
    client.execute("DELETE FROM samekey_meta WHERE name = $1", &[&MARK]).await?;
    Ok(Imported { records, there_before })
}

async fn count(client: &impl GenericClient) -> Result<u64, Trouble> {
    let count: i64 = client.query_one("SELECT count(*) FROM idempotency_keys", &[]).await?.try_get(0)?;
    Ok(count.unsigned_abs())
}

/// Facts and small tables, and the mark; only into a database that holds nothing else.
async fn begin(client: &mut Client, mark: &str, source: &Source) -> Result<(), Trouble> {
    let kept = client.query_opt("SELECT value FROM samekey_meta WHERE name = $1", &[&MARK]).await?;
    let kept: Option<String> = kept.map(|row| row.try_get(0)).transpose()?;
    if kept.as_deref() != Some(mark) && (kept.is_some() || count(client).await? > 0) {
        return Err(Trouble::Item(StoreError::misuse(
            "the database holds records that are not of this file; name an empty one, nothing was changed",
        )));
    }
    let tx = client.transaction().await?;
    let note = "INSERT INTO samekey_meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    tx.execute(note, &[&MARK, &mark]).await?;
    for (name, kind) in FACTS {
        if let Some(value) = source.fact(name)? {
            tx.execute(note, &[name, &fact(&value, *kind)]).await?;
        }
    }
    for table in WHOLE {
        insert(&tx, table, source.rows(table, None)?).await?;
    }
    Ok(tx.commit().await?)
}

/// As the PostgreSQL store spells a fact.
fn fact(value: &Value, kind: Kind) -> String {
    match (value, kind) {
        (Value::Integer(number), _) => number.to_string(),
        (Value::Blob(bytes), Bytes) => crate::hex(bytes),
        (Value::Text(text), _) => text.clone(),
        _ => String::new(),
    }
}

/// One array for each column.
enum Column {
    Text(Vec<Option<String>>),
    Number(Vec<Option<i64>>),
    Small(Vec<Option<i32>>),
    Truth(Vec<Option<bool>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Text => Self::Text(Vec::new()),
            Number => Self::Number(Vec::new()),
            Small => Self::Small(Vec::new()),
            Truth => Self::Truth(Vec::new()),
            Bytes => Self::Bytes(Vec::new()),
        }
    }

    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Text(all), Value::Text(text)) => all.push(Some(text)),
            (Self::Text(all), _) => all.push(None),
            (Self::Number(all), Value::Integer(number)) => all.push(Some(number)),
            (Self::Number(all), _) => all.push(None),
            (Self::Small(all), Value::Integer(number)) => all.push(i32::try_from(number).ok()),
            (Self::Small(all), _) => all.push(None),
            (Self::Truth(all), Value::Integer(number)) => all.push(Some(number != 0)),
            (Self::Truth(all), _) => all.push(None),
            (Self::Bytes(all), Value::Blob(bytes)) => all.push(Some(bytes)),
            (Self::Bytes(all), _) => all.push(None),
        }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Text(all) => all,
            Self::Number(all) => all,
            Self::Small(all) => all,
            Self::Truth(all) => all,
            Self::Bytes(all) => all,
        }
    }
}

async fn insert(client: &impl GenericClient, table: &Table, rows: Vec<Vec<Value>>) -> Result<(), Trouble> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut columns: Vec<Column> = table.columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let arrays: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, (_, kind))| {
            let kind = match kind {
                Text => "text",
                Number => "bigint",
                Small => "int",
                Truth => "bool",
                Bytes => "bytea",
            };
            format!("${}::{kind}[]", index + 1)
        })
        .collect();
    let sql = format!(
        "INSERT INTO {} ({}) SELECT * FROM unnest({}) ON CONFLICT DO NOTHING",
        table.name,
        names.join(", "),
        arrays.join(", ")
    );
    let parameters: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Column::parameter).collect();
    client.execute(sql.as_str(), &parameters).await?;
    Ok(())
}

/// Every row of every table, in both. Says how many records there are.
async fn compare(source: &Source, client: &Client) -> Result<u64, Trouble> {
    for table in WHOLE {
        same(table, &source.rows(table, None)?, &theirs(client, table, None).await?)?;
    }
    let (mut last, mut records) = (i64::MIN, 0);
    while let Some(end) = source.page_end(last)? {
        for table in [&RECORDS, &EFFECTS, &TRAIL] {
            let ours = source.rows(table, Some((last, end)))?;
            same(table, &ours, &theirs(client, table, Some((last, end))).await?)?;
            if table.by == "id" {
                records += ours.len() as u64;
            }
        }
        last = end;
    }
    let counted = count(client).await?;
    if counted != records {
        return Err(differs(&format!("{counted} records are in the database, {records} in the file")));
    }
    Ok(records)
}

fn same(table: &Table, ours: &[Vec<Value>], theirs: &[Vec<Value>]) -> Result<(), Trouble> {
    if ours == theirs {
        return Ok(());
    }
    let row = ours.iter().zip(theirs).find(|(one, other)| one != other).map_or(ours.last(), |(one, _)| Some(one));
    Err(differs(&format!("{} at {:?}", table.name, row.and_then(|row| row.first()))))
}

fn differs(what: &str) -> Trouble {
    Trouble::Item(StoreError::misuse(format!(
        "the copy is not equal to the file ({what}): something else wrote into it; empty the database and start again"
    )))
}

async fn theirs(client: &Client, table: &Table, range: Option<(i64, i64)>) -> Result<Vec<Vec<Value>>, Trouble> {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let rows = match range {
        None => {
            let sql = format!("SELECT {} FROM {} ORDER BY {}", names.join(", "), table.name, table.order);
            client.query(sql.as_str(), &[]).await?
        }
        Some((after, end)) => {
            let sql = format!(
                "SELECT {} FROM {} WHERE {by} > $1 AND {by} <= $2 ORDER BY {}",
                names.join(", "),
                table.name,
                table.order,
                by = table.by
            );
            client.query(sql.as_str(), &[&after, &end]).await?
        }
    };
    let mut all = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut values = Vec::with_capacity(table.columns.len());
        for (index, (_, kind)) in table.columns.iter().enumerate() {
            let value = match kind {
                Text => row.try_get::<_, Option<String>>(index)?.map(Value::Text),
                Number => row.try_get::<_, Option<i64>>(index)?.map(Value::Integer),
                Small => row.try_get::<_, Option<i32>>(index)?.map(|number| Value::Integer(number.into())),
                Truth => row.try_get::<_, Option<bool>>(index)?.map(|truth| Value::Integer(truth.into())),
                Bytes => row.try_get::<_, Option<Vec<u8>>>(index)?.map(Value::Blob),
            };
            values.push(value.unwrap_or(Value::Null));
        }
        all.push(values);
    }
    Ok(all)
}

/// The file, which nobody writes as long as this lives.
struct Source {
    conn: std::sync::Mutex<Connection>,
    place: Arc<str>,
}

impl Source {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let place = crate::store::error::place(path);
        let of = |error| StoreError::sqlite(&place, error);
        drop(crate::store::sqlite::reader_of(path, PATIENCE)?);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(of)?;
        conn.busy_timeout(PATIENCE).map_err(of)?;
        conn.execute_batch("BEGIN IMMEDIATE").map_err(of)?;
        Ok(Self { conn: std::sync::Mutex::new(conn), place })
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Trouble> {
        let conn = self.conn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        read(&conn).map_err(|error| Trouble::Item(StoreError::sqlite(&self.place, error)))
    }

    fn fact(&self, name: &str) -> Result<Option<Value>, Trouble> {
        self.with(|conn| {
            conn.query_row("SELECT (SELECT value FROM samekey_meta WHERE name = ?1)", [name], |row| row.get(0))
        })
        .map(|value: Value| Some(value).filter(|value| *value != Value::Null))
    }

    /// Tells this store from others, and says nothing of its secret.
    fn mark(&self) -> Result<String, Trouble> {
        use sha2::{Digest, Sha256};
        let Some(Value::Blob(secret)) = self.fact("secret")? else {
            return Err(Trouble::Item(StoreError::misuse("the file has no secret: it was never opened as a store")));
        };
        let hash: [u8; 32] = Sha256::new().chain_update(b"samekey import\0").chain_update(secret).finalize().into();
        Ok(crate::hex(&hash[..16]))
    }

    /// The id that the page after this one ends with.
    fn page_end(&self, after: i64) -> Result<Option<i64>, Trouble> {
        let sql = "SELECT max(id) FROM (SELECT id FROM idempotency_keys WHERE id > ?1 ORDER BY id LIMIT ?2)";
        self.with(|conn| conn.prepare_cached(sql)?.query_row((after, PAGE), |row| row.get(0)))
    }

    fn rows(&self, table: &Table, range: Option<(i64, i64)>) -> Result<Vec<Vec<Value>>, Trouble> {
        let names: Vec<String> = table.columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let within = match range {
            Some(_) => format!("WHERE {by} > ?1 AND {by} <= ?2", by = table.by),
            None => String::new(),
        };
        let sql = format!("SELECT {} FROM {} {within} ORDER BY {}", names.join(", "), table.name, table.order);
        self.with(|conn| {
            let mut statement = conn.prepare_cached(&sql)?;
            let bounds: Vec<i64> = range.iter().flat_map(|(after, end)| [*after, *end]).collect();
            let mut rows = statement.query(params_from_iter(bounds))?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let values = (0..table.columns.len()).map(|index| {
                    let value: Value = row.get(index)?;
                    Ok(match value {
                        Value::Text(text) => Value::Text(without_nul(&text)),
                        value => value,
                    })
                });
                all.push(values.collect::<rusqlite::Result<Vec<Value>>>()?);
            }
            Ok(all)
        })
    }
}
