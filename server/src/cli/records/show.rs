//! `samekey records show`: how a record stands, what happened to it, and what to do about it.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use super::list::{last, next};
use super::source::SourceArgs;
use crate::api::view::{RecordDetail, StepView, age};

/// What `show` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The record's number, as `list` and the log print it
    #[arg(value_name = "ID")]
    id: i64,

    /// One JSON object instead of text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) async fn run(args: &ShowArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let source = args.source.open().await?;
    let detail = source.detail(args.id).await;
    source.close().await;
    let detail = detail?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&detail)?)?;
    } else {
        print(&detail, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The record as people read it.
pub(super) fn print(detail: &RecordDetail, out: &mut dyn Write) -> std::io::Result<()> {
    let (record, now) = (&detail.record, detail.server_time);
    let effect = record.effect.as_ref().map(|effect| format!(", effect {effect}")).unwrap_or_default();
    writeln!(
        out,
        "record {}   {}   {}{effect} ({})   attempt {}   revision {}",
        record.id,
        record.operation,
        record.state,
        last(record),
        record.attempt,
        record.revision
    )?;
    let mut line = |name: &str, text: String| writeln!(out, "  {name:<13} {text}");
    line("made", format!("{}, {} ago", time(record.created_at), age(record.created_at, now)))?;
    line("key", format!("{}   actor {}", record.key_hash, record.actor_hash))?;
    for (name, moment) in [
        ("lease until", record.lease_until),
        ("deadline", record.deadline),
        ("ended", record.finished_at),
        ("replayed until", record.expires_at),
        ("not before", record.not_before),
    ] {
        if let Some(moment) = moment {
            line(name, time(moment))?;
        }
    }
    if let Some(moment) = record.settle_after {
        let open =
            if moment > now { "until then something may still be under way" } else { "nothing is under way any more" };
        line("settle after", format!("{}: {open}", time(moment)))?;
    }
    if let Some(status) = record.status_code {
        let stored = if record.response_stored { "its answer is kept" } else { "its answer is not kept" };
        line("status", format!("{status}, {stored}"))?;
    }
    if let Some(id) = &record.result_id {
        line("result id", id.clone())?;
    }
    line("next", next(record, now))?;
    writeln!(out, "timeline")?;
    for step in &detail.timeline {
        writeln!(out, "  {}", said(step))?;
    }
    if !detail.effects.is_empty() {
        writeln!(out, "effects")?;
    }
    for effect in &detail.effects {
        let ended = effect.finished_at.map(|at| format!(", ended {}", time(at))).unwrap_or_default();
        writeln!(
            out,
            "  {:<13} {}   attempt {}   called {}{ended}   provider key {}",
            effect.name,
            effect.state,
            effect.attempt,
            time(effect.started_at),
            effect.provider_key
        )?;
    }
    if record.state == "uncertain" {
        advise(detail, out)?;
    }
    Ok(())
}

fn said(step: &StepView) -> String {
    let mut text = format!("{}  attempt {}  {} by {}", time(step.at), step.attempt, step.state, step.by);
    let reason = step.reason.as_ref().map(|reason| reason.replace('_', " "));
    for (name, value) in [
        ("", reason.as_ref()),
        ("request ", step.request_id.as_ref()),
        ("who: ", step.who.as_ref()),
        ("why: ", step.why.as_ref()),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("   {name}{value}"));
        }
    }
    text
}

/// What to do about an outcome that nobody knows.
fn advise(detail: &RecordDetail, out: &mut dyn Write) -> std::io::Result<()> {
    let record = &detail.record;
    writeln!(
        out,
        "to settle it, find out whether the command took effect, by the provider key or the request id; then"
    )?;
    let seen = format!("samekey records settle {} --seen {}@{}", record.id, record.revision, time(detail.server_time));
    writeln!(out, "  {seen} --completed --status 200 --body @answer.json --why \"found it in …\"")?;
    writeln!(out, "  {seen} --failed --status 422 --why \"it was refused: …\"")?;
    if record.settle_after.is_some_and(|moment| moment > detail.server_time) {
        return writeln!(out, "  (that nothing happened can be said once it was looked at after settle after)");
    }
    writeln!(out, "  {seen} --released --why \"nothing in …\"")
}

/// In UTC, to the second: down, so that whoever looked is never said to have looked later.
pub(super) fn time(millis: i64) -> String {
    let since = Duration::from_secs(u64::try_from(millis).unwrap_or(0) / 1000);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
