//! `samekey records settle`: say how an uncertain command ended.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail};
use clap::ArgGroup;

use super::show;
use super::source::SourceArgs;
use crate::api::json::{Json, base64};
use crate::api::settle::{OutcomeWord, SettleRequest};

/// What `settle` takes.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("outcome").required(true), after_help = "\
  samekey records show 4711                # prints --seen, and what was called with which provider key
  samekey records settle 4711 --seen 3@2026-12-01T09:14:03Z --completed --status 200 --body @answer.json \\
          --why \"found ch_9 in the provider\"")]
pub(crate) struct SettleArgs {
    /// The record's number
    #[arg(value_name = "ID")]
    id: i64,

    /// Which revision you looked at, and when, as `show` prints it: 3@2026-12-01T09:14:03Z; nothing is written if
    /// anything happened to the record since
    #[arg(long, value_name = "REVISION")]
    seen: Seen,

    /// It happened
    #[arg(long, group = "outcome")]
    completed: bool,

    /// It failed for good, and nothing came of it
    #[arg(long, group = "outcome", requires = "status")]
    failed: bool,

    /// It did not happen and is not under way: the same key may run again
    #[arg(long, group = "outcome", conflicts_with_all = ["status", "body", "header", "result_id"])]
    released: bool,

    /// The status that retries get [default: 200 with --completed]
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,

    /// The body that retries get: @FILE, @- for the standard input, or text; without it they hear that it is done
    #[arg(long, value_name = "BODY")]
    body: Option<String>,

    /// A header that goes with the body: "Content-Type: text/csv"; JSON needs none
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,

    /// The id of what was made
    #[arg(long, value_name = "ID")]
    result_id: Option<String>,

    /// What you found, and where; the record keeps it
    #[arg(long, value_name = "TEXT")]
    why: String,

    /// Who you are; the record keeps it
    #[arg(long, value_name = "NAME", env = "USER")]
    who: Option<String>,

    /// Although something may still be under way, on your own risk
    #[arg(long)]
    force: bool,

    /// One JSON object instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    revision: u64,
    /// Unix milliseconds.
    at: Option<i64>,
}

impl FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no revision; copy it from `samekey records show`: 3@2026-12-01T09:14:03Z");
        let (revision, at) = match text.split_once('@') {
            None => (text, None),
            Some((revision, at)) => {
                let at = humantime::parse_rfc3339(at).map_err(|_| wrong())?;
                let at = at.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_millis()).ok());
                (revision, Some(at.ok_or_else(wrong)?))
            }
        };
        Ok(Self { revision: revision.parse().map_err(|_| wrong())?, at })
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("{text:?} is no header; write Name: value"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

pub(super) async fn run(args: &SettleArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let settlement = args.settlement()?;
    let source = args.source.open().await?;
    let detail = source.settle(args.id, settlement).await;
    source.close().await;
    let detail = detail.with_context(|| format!("record {} was not settled", args.id))?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&detail)?)?;
    } else {
        show::print(&detail, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl SettleArgs {
    fn settlement(&self) -> anyhow::Result<SettleRequest> {
        let outcome = match (self.completed, self.failed) {
            (true, _) => OutcomeWord::Completed,
            (_, true) => OutcomeWord::Failed,
            _ => OutcomeWord::Released,
        };
        let body = self.body.as_deref().map(read).transpose()?;
        let names_type = self.header.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let (result, body_base64) = match body {
            None => (None, None),
            Some(bytes) if names_type => (None, Some(base64(&bytes))),
            Some(bytes) => match Json::of(&bytes) {
                Some(json) => (Some(json), None),
                None => bail!("--body is not JSON; say what it is: --header \"Content-Type: text/plain\""),
            },
        };
        let who = self.who.clone().filter(|who| !who.trim().is_empty());
        Ok(SettleRequest {
            revision: self.seen.revision,
            looked_at: self.seen.at,
            outcome,
            status: self.status,
            result,
            body_base64,
            headers: self.header.clone(),
            result_id: self.result_id.clone(),
            force: self.force,
            who: who.context("say who you are: --who NAME; the record keeps it")?,
            why: self.why.clone(),
        })
    }
}

fn read(body: &str) -> anyhow::Result<Vec<u8>> {
    match body.strip_prefix('@') {
        None => Ok(body.as_bytes().to_owned()),
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).context("--body: the standard input cannot be read")?;
            Ok(bytes)
        }
        Some(file) => std::fs::read(file).with_context(|| format!("--body: {file} cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_copied_from_show() {
        assert_eq!("3".parse(), Ok(Seen { revision: 3, at: None }));
        let at = show::time(1_796_116_443_999);
        assert_eq!(format!("12@{at}").parse(), Ok(Seen { revision: 12, at: Some(1_796_116_443_000) }));
        for bad in ["", "x", "3@", "3@now", "@2026-12-01T09:14:03Z", "-1"] {
            let error = bad.parse::<Seen>().unwrap_err();
            assert!(error.contains("records show"), "{error}");
        }
    }
}
