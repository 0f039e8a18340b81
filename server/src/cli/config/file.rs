//! `samekey.toml`: tables and keys, each with its line.

use std::path::{Path, PathBuf};

use clap::Command;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::errors::Errors;
use super::keys::{self, ACTOR, FLAGS_ONLY, Places};
use super::operation::Raw;
use super::value;

/// What stands in a file, checked value by value.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    /// By the id of the flag.
    pub(super) values: Vec<(String, Vec<String>)>,
    pub(super) operations: Vec<Raw>,
    pub(super) defaults_line: Option<usize>,
}

/// What reads a file: its text for the lines, all settings, and the errors so far.
pub(super) struct Reader<'a> {
    text: &'a str,
    command: Command,
    top: Vec<String>,
    defaults: Vec<String>,
    pub(super) errors: Errors,
}

/// Reads a file, or says all that is wrong with it.
pub(super) fn read(path: &Path, text: &str) -> anyhow::Result<File> {
    let (defaults, command) = (super::defaults_ids(), super::serve_command());
    let is_actor = |id: &str| ACTOR.iter().any(|(_, actor)| *actor == id);
    let top = super::ids(&command)
        .into_iter()
        .filter(|id| !defaults.contains(id) && !FLAGS_ONLY.contains(&id.as_str()) && !is_actor(id))
        .collect();
    let mut reader = Reader { text, command, top, defaults, errors: Errors::new(Some(path)) };
    let (table, syntax) = DeTable::parse_recoverable(text);
    for error in syntax {
        let line = error.span().map(|span| reader.line(span.start));
        reader.errors.add(line, error.message().replace('\n', ", "));
    }
    reader.errors.done()?;
    let file = reader.file(path, table.get_ref());
    reader.errors.done()?;
    Ok(file)
}

impl Reader<'_> {
    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn file(&mut self, path: &Path, table: &DeTable<'_>) -> File {
        let mut file = File { path: path.to_owned(), values: Vec::new(), operations: Vec::new(), defaults_line: None };
        let top = self.top.clone();
        for (key, value) in table {
            let line = self.line(key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("actor", DeValue::Table(actor)) => self.actor(actor, &mut file),
                ("defaults", DeValue::Table(defaults)) => {
                    file.defaults_line = Some(line);
                    let known = self.defaults.clone();
                    for (key, value) in defaults {
                        self.setting(key, value, &known, &mut file.values);
                    }
                }
                ("operation", DeValue::Array(operations)) => {
                    for operation in operations {
                        let line = self.line(operation.span().start);
                        match operation.get_ref() {
                            DeValue::Table(operation) => file.operations.extend(Raw::read(operation, line, self)),
                            _ => self.errors.add(Some(line), "operation is a table; write [[operation]]"),
                        }
                    }
                }
                ("operation", _) => self.errors.add(Some(line), "one of many; write [[operation]] in double brackets"),
                (name @ ("actor" | "defaults"), _) => {
                    self.errors.add(Some(line), format!("{name} is a table; write [{name}]"));
                }
                _ => self.setting(key, value, &top, &mut file.values),
            }
        }
        file
    }

    fn actor(&mut self, table: &DeTable<'_>, file: &mut File) {
        let flags = super::ids(&self.command);
        let kinds: Vec<_> = ACTOR.iter().filter(|(_, id)| flags.iter().any(|flag| flag == id)).collect();
        let known: Vec<String> = kinds.iter().map(|(key, _)| (*key).to_owned()).collect();
        for (key, value) in table {
            match kinds.iter().find(|(name, _)| *name == key.get_ref().as_ref()) {
                Some((_, id)) => self.value(id, key, value, &mut file.values),
                None => self.unknown(key, &known),
            }
        }
    }

    /// A key that stands for the flag of its name.
    pub(super) fn setting(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        known: &[String],
        into: &mut Vec<(String, Vec<String>)>,
    ) {
        let id = key.get_ref().as_ref().to_owned();
        if known.contains(&id) { self.value(&id, key, value, into) } else { self.unknown(key, known) }
    }

    fn value(
        &mut self,
        id: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        into: &mut Vec<(String, Vec<String>)>,
    ) {
        let Some(arg) = self.command.get_arguments().find(|arg| arg.get_id() == id) else { return };
        match value::texts(arg, value.get_ref()) {
            Ok(texts) => into.push((id.to_owned(), texts)),
            Err(error) => {
                let line = self.line(value.span().start);
                self.errors.add(Some(line), format!("{}: {error}", key.get_ref()));
            }
        }
    }

    pub(super) fn unknown(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, here: &[String]) {
        let flags = super::ids(&self.command);
        let places = Places { flags: &flags, top: &self.top, defaults: &self.defaults };
        let (line, error) = (self.line(key.span().start), keys::unknown(key.get_ref(), here, &places));
        self.errors.add(Some(line), error);
    }

    /// The keys of `[defaults]`, which may all stand in an operation.
    pub(super) fn defaults(&self) -> &[String] {
        &self.defaults
    }
}
