//! `samekey records list`: find records by what somebody reads out.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;
use samekey_core::claim::State;
use samekey_core::uri::percent_encoded;
use samekey_core::{Actor, Key, Timestamp};
use serde_json::json;

use super::source::SourceArgs;
use crate::api::records::hash;
use crate::api::view::{RecordView, age};
use crate::cli::duration;
use crate::store::Search;

/// The most that the server gives in one page.
const PAGE: usize = 500;

/// What `list` takes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Columns: AGE since the record was made; LAST why it is as it is; NEXT who moves it on, and when at the earliest.

  samekey records list --state uncertain
  samekey records list --request-id 0198f2c4-… --json")]
pub(crate) struct ListArgs {
    /// In this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateWord>,

    /// Of this operation: a configured name, or \"POST /orders\"
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,

    /// Of this actor: the id as the server knows it
    #[arg(long, value_name = "ID")]
    actor: Option<String>,

    /// What logs call the actor
    #[arg(long, value_name = "HASH", value_parser = hash_of)]
    actor_hash: Option<String>,

    /// Of this key
    #[arg(long, value_name = "KEY")]
    key: Option<Key>,

    /// What logs call the key, or its beginning
    #[arg(long, value_name = "HASH", value_parser = hash_of)]
    key_hash: Option<String>,

    /// The X-Request-Id of a delivery that ran
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,

    /// The id of what was made
    #[arg(long, value_name = "ID")]
    result_id: Option<String>,

    /// Made so long ago or longer: 30m, 2d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older_than: Option<std::time::Duration>,

    /// Made so long ago or later
    #[arg(long, value_name = "TIME", value_parser = duration)]
    newer_than: Option<std::time::Duration>,

    /// At most so many
    #[arg(long, value_name = "N", default_value = "50")]
    limit: std::num::NonZeroUsize,

    /// One JSON object instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

fn hash_of(text: &str) -> Result<String, String> {
    hash("it", text).map_err(|_| format!("{text:?} is none; write up to 8 hexadecimal digits, as the log has them"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum StateWord {
    InProgress,
    Completed,
    Failed,
    Released,
    Uncertain,
    Expired,
}

impl StateWord {
    fn state(self) -> State {
        match self {
            Self::InProgress => State::InProgress,
            Self::Completed => State::Completed,
            Self::Failed => State::Failed,
            Self::Released => State::Released,
            Self::Uncertain => State::Uncertain,
            Self::Expired => State::Expired,
        }
    }
}

impl ListArgs {
    /// For a store, whose clock is this machine's.
    fn search(&self) -> Search {
        let now = crate::clock::Clock::system().now();
        let ago = |time: std::time::Duration| -> Timestamp { now - time };
        Search {
            state: self.state.map(StateWord::state),
            operation: self.operation.clone(),
            actor: self.actor.as_ref().map(Actor::new),
            actor_hash: self.actor_hash.clone(),
            key: self.key.clone(),
            key_hash: self.key_hash.clone(),
            request_id: self.request_id.clone(),
            result_id: self.result_id.clone(),
            until: self.older_than.map(ago),
            since: self.newer_than.map(ago),
        }
    }

    /// The same for a server.
    fn query(&self) -> String {
        let time = |time: std::time::Duration| format!("{}ms", time.as_millis());
        [
            ("state", self.state.map(|state| state.state().as_str().to_owned())),
            ("operation", self.operation.clone()),
            ("actor", self.actor.clone()),
            ("actor_hash", self.actor_hash.clone()),
            ("key_hash", self.key_hash.clone()),
            ("request_id", self.request_id.clone()),
            ("result_id", self.result_id.clone()),
            ("older_than", self.older_than.map(time)),
            ("newer_than", self.newer_than.map(time)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("&{name}={}", percent_encoded(&value?))))
        .collect()
    }
}

pub(super) async fn run(args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let source = args.source.open().await?;
    let (search, query, limit) = (args.search(), args.query(), args.limit.get());
    let (mut records, mut before, mut now) = (Vec::new(), None, 0);
    loop {
        let wanted = (limit - records.len()).min(PAGE);
        let page = source.page(&search, &query, before, wanted).await?;
        records.extend(page.records);
        (before, now) = (page.more, now.max(page.server_time));
        if before.is_none() || records.len() >= limit {
            break;
        }
    }
    source.close().await;
    if args.json {
        writeln!(out, "{:#}", json!({ "records": records, "more": before, "server_time": now }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if records.is_empty() {
        writeln!(out, "no record fits")?;
        return Ok(ExitCode::SUCCESS);
    }
    table(&records, now, out)?;
    if before.is_some() {
        writeln!(out, "… there may be more: raise --limit, or say more of what you look for")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(records: &[RecordView], now: i64, out: &mut dyn Write) -> std::io::Result<()> {
    let head = ["ID", "OPERATION", "STATE", "ATT", "AGE", "KEY-HASH", "LAST", "NEXT"].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(records.iter().map(|record| row(record, now))).collect();
    let widths: Vec<usize> =
        (0..8).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(record: &RecordView, now: i64) -> [String; 8] {
    [
        record.id.to_string(),
        record.operation.clone(),
        record.state.clone(),
        record.attempt.to_string(),
        age(record.created_at, now),
        record.key_hash.clone(),
        last(record),
        next(record, now),
    ]
}

/// Why it is as it is, in short.
pub(super) fn last(record: &RecordView) -> String {
    let ended = || record.status_code.map(|status| status.to_string());
    let of_record = record.reason.as_ref().map(|reason| reason.replace('_', " "));
    of_record.or_else(ended).or_else(|| record.ended.clone()).unwrap_or_else(|| "-".into())
}

/// Who moves it on, in short.
pub(super) fn next(record: &RecordView, now: i64) -> String {
    let who = match record.next.as_str() {
        "nobody" => "-",
        who => who,
    };
    match record.next_at.filter(|at| *at > now) {
        Some(at) => format!("{who} in {}", age(now, at)),
        None => who.to_owned(),
    }
}
