//! What flags, environment, file and defaults come to together.
//!
//! The flags of `serve` are the one table of settings: their ids are the keys of the file, their parsers read its
//! values, and what the file says takes the place of their defaults. So a flag wins over the environment, the
//! environment over the file, and the file over the built-in default, for each key by itself.

mod errors;
mod file;
mod keys;
mod operation;
mod probe;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgMatches, Args as _, CommandFactory as _, FromArgMatches as _};
use samekey_core::{Policy, Recovery};

use self::errors::Errors;
use self::file::File;
use super::serve::ServeArgs;
use super::settings::ServerWide;
use crate::layer::{Operation, OperationError, Operations};

pub(crate) use self::errors::ConfigErrors;
pub(crate) use self::probe::ProbeSettings;

/// The file that is read if no other is named and it is there.
const DEFAULT_FILE: &str = "samekey.toml";

/// Where settings come from, to be read again at any time.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    words: Vec<OsString>,
}

impl Source {
    /// This process's command line.
    pub(crate) fn of_process() -> Self {
        Self { words: std::env::args_os().collect() }
    }

    /// This command line instead of the process's own.
    pub(crate) fn of_words(words: Vec<OsString>) -> Self {
        Self { words }
    }
}

/// All settings, checked.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) args: ServeArgs,
    pub(crate) operations: Vec<Operation>,
    /// Whom to ask about uncertain outcomes, by the operation's name.
    pub(crate) probes: BTreeMap<String, ProbeSettings>,
    /// The contract of requests that belong to no operation.
    pub(crate) others: Policy,
    pub(crate) table: Operations,
    pub(crate) file: Option<PathBuf>,
    /// What a reload cannot change, by key.
    pub(crate) fixed: BTreeMap<String, Vec<OsString>>,
}

/// Reads everything. A reload keeps what holds for the whole server.
pub(crate) fn load(source: &Source, keep: Option<&ServerWide>) -> anyhow::Result<Loaded> {
    let first = matches(source, super::Cli::command())?;
    let named = first.1.get_one::<PathBuf>("config").cloned();
    let path = match named {
        Some(path) => Some(path),
        None => Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.is_file()),
    };
    let Some(path) = path else { return finish(&first.1, None, keep) };
    let text = std::fs::read_to_string(&path).with_context(|| format!("--config {} cannot be read", path.display()))?;
    let file = file::read(&path, &text)?;
    let values = file.values.clone();
    let command = super::Cli::command().mut_subcommand(first.0, |command| {
        values.into_iter().fold(command, |command, (id, texts)| command.mut_arg(id, |arg| arg.default_values(texts)))
    });
    finish(&matches(source, command)?.1, Some(file), keep)
}

fn matches(source: &Source, command: clap::Command) -> anyhow::Result<(String, ArgMatches)> {
    let mut matches = command.try_get_matches_from(&source.words)?;
    matches.remove_subcommand().context("a command is needed")
}

fn finish(matches: &ArgMatches, file: Option<File>, keep: Option<&ServerWide>) -> anyhow::Result<Loaded> {
    let args = ServeArgs::from_arg_matches(matches)?;
    let server = keep.unwrap_or(&args.server);
    let path = file.as_ref().map(|file| file.path.clone());
    let mut errors = Errors::new(path.as_deref());
    let others = args.defaults.policy("automatic", server);
    let defaults_line = file.as_ref().and_then(|file| file.defaults_line);
    let raw = file.map(|file| file.operations).unwrap_or_default();
    let mut operations = Vec::new();
    for operation in &raw {
        match operation.build(matches, server) {
            Ok(built) => operations.push(built),
            Err(error) => errors.add(Some(operation.line), error),
        }
    }
    let others = match others {
        Ok(others) => others,
        Err(error) => {
            errors.add(defaults_line, error);
            return Err(errors.into_error());
        }
    };
    if others.recovery == Recovery::Probe {
        errors.add(
            defaults_line,
            "recovery = \"probe\" holds for one operation; write it into [[operation]], with its [operation.probe]",
        );
    }
    errors.done()?;
    let probes = raw.iter().filter_map(|raw| Some((raw.name.clone(), raw.probe.clone()?))).collect();
    let table = Operations::new(operations.clone(), others.clone()).map_err(|found| {
        let of_defaults = found.iter().find(|(number, _)| *number == usize::MAX).map(|(_, error)| error.clone());
        for (number, error) in &found {
            match raw.get(*number) {
                // What the defaults are wrong in is not said again for each operation.
                Some(_) if Some(error) == of_defaults.as_ref() => {}
                Some(operation) => {
                    let line = operation.line_of(match error {
                        OperationError::Method => "method",
                        OperationError::Path { .. } | OperationError::SameRequests { .. } => "path",
                        OperationError::Alias { .. } => "aliases",
                        OperationError::SameName { name, .. } if *name != operation.name => "aliases",
                        OperationError::SameName { .. } => "name",
                        _ => "",
                    });
                    errors.add(Some(line), format!("{}: {error}", operation.name));
                }
                None => errors.add(defaults_line, format!("the settings do not fit together: {error}")),
            }
        }
        errors.into_error()
    })?;
    let reloaded = defaults_ids();
    let fixed = matches
        .ids()
        .map(|id| id.as_str().to_owned())
        .filter(|id| !reloaded.contains(id) && !keys::FLAGS_ONLY.contains(&id.as_str()))
        .filter_map(|id| {
            let values = matches.get_raw(&id)?.map(ToOwned::to_owned).collect();
            Some((id, values))
        })
        .collect();
    Ok(Loaded { args, operations, probes, others, table, file: path, fixed })
}

/// The keys of `[defaults]`.
fn defaults_ids() -> Vec<String> {
    ids(&super::settings::Defaults::augment_args(clap::Command::new("defaults")))
}

/// All settings of `serve`.
fn serve_command() -> clap::Command {
    ServeArgs::augment_args(clap::Command::new("serve"))
}

fn ids(command: &clap::Command) -> Vec<String> {
    command.get_arguments().map(|arg| arg.get_id().as_str().to_owned()).collect()
}

/// How people call a file: as they named it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
