//! `samekey check`: what the settings come to, and what to think about.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use samekey_core::{Keep, KeyRule, KeyTime, OutcomeClass, Policy, Recovery, Timeless};
use serde_json::{Value, json};

use super::config::{self, ConfigErrors, Loaded, Source};
use super::probes::Probes;
use super::serve::ServeArgs;

mod warnings;

use self::warnings::{Kind, Remark, remarks};

/// What `check` takes: all that `serve` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Warnings are errors, too
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    serve: Box<ServeArgs>,
}

/// Prints the contract of each operation. Fails on errors, a probe that answers wrongly among them, and on warnings if
/// it is to be strict.
pub(crate) fn run(args: &CheckArgs, source: &Source, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let usable = |loaded: Loaded| {
        let args = &loaded.args;
        args.actor.check(args.upstream.as_ref(), args.upstream_ca.as_deref())?;
        let probes = Probes::new(&loaded, args)?;
        Ok((loaded, probes))
    };
    let (loaded, probes) = match config::load(source, None).and_then(usable) {
        Ok(usable) => usable,
        Err(error) if args.json => {
            let errors: Vec<Value> = match error.downcast_ref::<ConfigErrors>() {
                Some(errors) => {
                    let entry = |(line, message): &(Option<usize>, String)| json!({ "file": errors.file, "line": line, "message": message });
                    errors.all.iter().map(entry).collect()
                }
                None => vec![json!({ "message": format!("{error:#}") })],
            };
            writeln!(out, "{:#}", json!({ "errors": errors }))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    let mut remarks = remarks(&loaded);
    let answered = asked(&probes)?;
    let refused = answered.iter().any(|remark| remark.kind == Kind::Error);
    remarks.extend(answered);
    let print = if args.json { as_json } else { as_text };
    print(&loaded, &remarks, out)?;
    let warned = remarks.iter().any(|remark| remark.kind == Kind::Warning);
    Ok(if refused || args.strict && warned { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Each probe is asked about a key that nobody ever used, as the server does before it believes one.
fn asked(probes: &Probes) -> anyhow::Result<Vec<Remark>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let remark = |(operation, answered): (String, Result<String, String>)| {
        let (kind, text) = match answered {
            Ok(url) => (Kind::Note, format!("its probe {url} answers as it should")),
            Err(why) => (Kind::Error, format!("its probe settles nothing: {why}")),
        };
        Remark { kind, operation: Some(operation), text }
    };
    Ok(runtime.block_on(probes.check()).into_iter().map(remark).collect())
}

fn as_text(loaded: &Loaded, remarks: &[Remark], out: &mut dyn Write) -> anyhow::Result<()> {
    match &loaded.file {
        Some(file) => match loaded.operations.len() {
            1 => writeln!(out, "{}: 1 operation", file.display())?,
            many => writeln!(out, "{}: {many} operations", file.display())?,
        },
        None => writeln!(out, "no samekey.toml: operations are named by method and path")?,
    }
    for operation in &loaded.operations {
        let name = &operation.policy.operation;
        match &operation.at {
            Some((method, path)) => writeln!(out, "\n{name}   {method} {path}")?,
            None => writeln!(out, "\n{name}   by the claim API only")?,
        }
        table(&operation.policy, out)?;
    }
    writeln!(out, "\nall other requests   POST and PATCH, named by method and path")?;
    table(&loaded.others, out)?;
    if !remarks.is_empty() {
        writeln!(out)?;
    }
    for Remark { kind, operation, text } in remarks {
        let kind = kind.as_str();
        let place = operation.as_ref().map_or(String::new(), |name| format!(" {name}:"));
        writeln!(out, "{kind}:{place} {text}")?;
    }
    Ok(())
}

fn table(policy: &Policy, out: &mut dyn Write) -> std::io::Result<()> {
    for (key, value) in contract(policy) {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => continue,
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(", "),
            Value::Null | Value::Bool(false) => continue,
            Value::Bool(true) => "yes".into(),
            other => other.to_string(),
        };
        writeln!(out, "  {key:<14} {text}")?;
    }
    Ok(())
}

fn as_json(loaded: &Loaded, remarks: &[Remark], out: &mut dyn Write) -> anyhow::Result<()> {
    let object = |policy: &Policy| contract(policy).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let operations: Vec<Value> = loaded
        .operations
        .iter()
        .map(|operation| {
            let mut members: serde_json::Map<String, Value> = object(&operation.policy);
            members.insert("name".into(), operation.policy.operation.as_ref().into());
            let (method, path) = operation.at.as_ref().map(|(method, path)| (method.as_str(), path.as_str())).unzip();
            members.insert("method".into(), method.into());
            members.insert("path".into(), path.into());
            Value::Object(members)
        })
        .collect();
    let said = |kind: Kind| -> Vec<Value> {
        let of = remarks.iter().filter(|remark| remark.kind == kind);
        of.map(|remark| json!({ "operation": remark.operation, "message": remark.text })).collect()
    };
    let all = json!({
        "file": loaded.file.as_ref().map(|file| file.display().to_string()),
        "operations": operations,
        "others": Value::Object(object(&loaded.others)),
        "warnings": said(Kind::Warning),
        "notes": said(Kind::Note),
        "errors": said(Kind::Error),
    });
    Ok(writeln!(out, "{all:#}")?)
}

/// Every setting of a contract, by its key in the file.
fn contract(policy: &Policy) -> Vec<(&'static str, Value)> {
    let time = |time: Duration| Value::from(humantime::format_duration(time).to_string());
    let size = |bytes: usize| Value::from(bytesize::ByteSize(bytes as u64).display().iec().to_string());
    let statuses = |class: OutcomeClass| -> Value {
        policy.classify.iter().filter(|(_, of)| *of == class).map(|(status, _)| *status).collect::<Vec<_>>().into()
    };
    let profile = samekey_core::select::Profile::new(None, policy.significant.clone()).ok();
    let significant = profile.map_or_else(String::new, |profile| profile.definition());
    vec![
        ("aliases", policy.aliases.clone().into()),
        (
            "key",
            match policy.key {
                KeyRule::Required => "required",
                KeyRule::Optional => "optional",
                KeyRule::Ignore => "ignore",
            }
            .into(),
        ),
        ("significant", if significant == "{}" { "everything".into() } else { significant.into() }),
        ("anonymous", policy.anonymous.into()),
        ("retry_budget", time(policy.retry_budget)),
        ("retention", time(policy.retention)),
        ("remember", time(policy.remember)),
        ("lease", time(policy.lease)),
        ("timeout", time(policy.timeout)),
        ("probe_after", time(policy.probe_after())),
        ("default_wait", time(policy.default_wait)),
        ("max_wait", time(policy.max_wait)),
        ("hold", time(policy.hold)),
        ("give_up", time(policy.give_up)),
        ("max_body", size(policy.max_body_bytes)),
        ("max_response", size(policy.max_response_bytes)),
        (
            "keep",
            match policy.keep {
                Keep::Full => "full",
                Keep::Status => "status",
            }
            .into(),
        ),
        ("store_headers", policy.store_headers.clone().into()),
        ("result_id", policy.result_id.clone().map_or_else(|| "last segment of Location".into(), Value::from)),
        (
            "recovery",
            match policy.recovery {
                Recovery::Manual => "manual",
                Recovery::Probe => "probe",
                Recovery::Rerun => "rerun",
            }
            .into(),
        ),
        (
            "key_time",
            match policy.key_time {
                KeyTime::Carried => "carried",
                KeyTime::None => "none",
            }
            .into(),
        ),
        (
            "timeless",
            match policy.timeless {
                Timeless::Forget => "forget",
                Timeless::Keep => "keep",
            }
            .into(),
        ),
        ("transactional", policy.transactional.into()),
        ("terminal", statuses(OutcomeClass::Terminal)),
        ("release", statuses(OutcomeClass::Released)),
        ("uncertain", statuses(OutcomeClass::Uncertain)),
        ("quota", policy.quota.into()),
    ]
}
