//! `[[operation]]`: its own keys over those of `[defaults]`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::{ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use http::Method;
use samekey_core::Recovery;
use samekey_core::select::Significant;
use toml::de::{DeTable, DeValue};

use super::file::Reader;
use super::keys::{OPERATION, SIGNIFICANT};
use super::probe::ProbeSettings;
use super::value;
use crate::cli::settings::{Defaults, ServerWide};
use crate::layer::Operation;

/// An operation as it was written down.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    pub(super) line: usize,
    pub(super) name: String,
    aliases: Vec<String>,
    method: Option<Method>,
    path: Option<String>,
    significant: Significant,
    anonymous: bool,
    /// How to ask whether it took effect.
    pub(super) probe: Option<ProbeSettings>,
    /// Keys of `[defaults]` that it has itself.
    values: Vec<(String, Vec<String>)>,
    lines: BTreeMap<String, usize>,
}

impl Raw {
    /// Reads one; what is wrong is in the reader's errors.
    pub(super) fn read(table: &DeTable<'_>, line: usize, reader: &mut Reader<'_>) -> Option<Self> {
        let mut raw = Self { line, ..Self::default() };
        let known: Vec<String> =
            OPERATION.iter().map(|key| (*key).to_owned()).chain(reader.defaults().iter().cloned()).collect();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            raw.lines.insert(name.to_owned(), reader.line(key.span().start));
            if !OPERATION.contains(&name) {
                reader.setting(key, value, &known, &mut raw.values);
                continue;
            }
            let at = reader.line(value.span().start);
            match (name, value.get_ref()) {
                ("significant", DeValue::Table(table)) => raw.significant(table, at, reader),
                ("probe", DeValue::Table(table)) => raw.probe = ProbeSettings::read(table, at, reader),
                (_, value) => {
                    if let Err(error) = raw.own(name, value) {
                        reader.errors.add(Some(at), format!("{name}: {error}"));
                    }
                }
            }
        }
        let (has_method, has_path) = (raw.lines.contains_key("method"), raw.lines.contains_key("path"));
        for (key, example, needed) in
            [("name", "\"orders.create\"", true), ("method", "\"POST\"", has_path), ("path", "\"/orders\"", has_method)]
        {
            if needed && !raw.lines.contains_key(key) {
                reader.errors.add(Some(line), format!("an operation needs its {key}; write {key} = {example}"));
            }
        }
        Some(raw)
    }

    fn own(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), String> {
        match key {
            "name" => self.name = name(value::text(value)?)?,
            "aliases" => {
                self.aliases = value::list(value)?.into_iter().map(alias).collect::<Result<_, _>>()?;
            }
            "method" => self.method = Some(method(&value::text(value)?)?),
            "path" => self.path = Some(value::text(value)?),
            "anonymous" => self.anonymous = value::yes(value)?,
            "probe" => return Err("a table; write [operation.probe] below the operation's other keys".into()),
            _ => return Err("a table; write for instance significant.exclude = [\"/ui\"]".into()),
        }
        Ok(())
    }

    fn significant(&mut self, table: &DeTable<'_>, at: usize, reader: &mut Reader<'_>) {
        let known: Vec<String> = SIGNIFICANT.iter().map(|key| (*key).to_owned()).collect();
        let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (key, value) in table {
            let Some(name) = SIGNIFICANT.iter().find(|name| **name == key.get_ref().as_ref()) else {
                reader.unknown(key, &known);
                continue;
            };
            match value::list(value.get_ref()) {
                Ok(list) => drop(lists.insert(name, list)),
                Err(error) => {
                    let line = reader.line(value.span().start);
                    reader.errors.add(Some(line), format!("significant.{name}: {error}"));
                }
            }
        }
        let mut significant = match (lists.remove("include"), lists.remove("exclude")) {
            (Some(_), Some(_)) => {
                reader.errors.add(Some(at), "significant: include and exclude exclude each other; write one of them");
                return;
            }
            (Some(include), None) => Significant::include(include),
            (None, Some(exclude)) => Significant::exclude(exclude),
            (None, None) => Significant::everything(),
        };
        if let Some(headers) = lists.remove("headers") {
            significant = significant.headers(headers);
        }
        if let Some(query) = lists.remove("query") {
            significant = significant.query(query);
        }
        if let Err(error) = significant.check() {
            reader.errors.add(Some(at), error.to_string());
        }
        self.significant = significant;
    }

    /// Where a key stands, or the operation begins.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.lines.get(key).copied().unwrap_or(self.line)
    }

    /// The operation, with what flags, environment and `[defaults]` say where it is silent.
    pub(super) fn build(&self, serve: &ArgMatches, server: &ServerWide) -> Result<Operation, String> {
        let command = Defaults::augment_args(Command::new("operation").no_binary_name(true));
        let mut words: Vec<OsString> = Vec::new();
        for arg in command.get_arguments() {
            let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            let own = self.values.iter().find(|(key, _)| key == id);
            let texts: Vec<OsString> = match own {
                Some((_, own)) => own.iter().map(OsString::from).collect(),
                None => serve.get_raw(id).into_iter().flatten().map(ToOwned::to_owned).collect(),
            };
            let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
            for text in texts {
                if !is_switch {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(text);
                    words.push(word);
                } else if text == "true" {
                    words.push(format!("--{long}").into());
                }
            }
        }
        // The environment has had its say in the defaults.
        let matches = command
            .mut_args(|arg| arg.env(Resettable::Reset))
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        let defaults = Defaults::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        let mut policy =
            defaults.policy(self.name.clone(), server).map_err(|error| format!("{}: {error}", self.name))?;
        policy.aliases.clone_from(&self.aliases);
        policy.significant = self.significant.clone();
        policy.anonymous = self.anonymous;
        match (policy.recovery == Recovery::Probe, self.lines.contains_key("probe")) {
            (true, false) => {
                return Err(format!(
                    "{}: recovery = \"probe\" needs somebody to ask; add [operation.probe] with its url, or write manual",
                    self.name
                ));
            }
            (false, true) => {
                return Err(format!("{}: its probe is never asked; write recovery = \"probe\", too", self.name));
            }
            _ => {}
        }
        Ok(Operation { at: self.method.clone().zip(self.path.clone()), policy })
    }
}

/// Configured names have no space, and so never collide with automatic ones.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| plain(byte) || b"._-".contains(&byte))
        && text.bytes().next().is_some_and(plain)
}

fn name(text: String) -> Result<String, String> {
    if is_name(&text) {
        return Ok(text);
    }
    Err(format!("{text:?} is no name; write 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit: orders.create"))
}

fn alias(text: String) -> Result<String, String> {
    let automatic =
        text.split_once(' ').is_some_and(|(method, path)| self::method(method).is_ok() && path.starts_with('/'));
    if automatic || is_name(&text) {
        return Ok(text);
    }
    Err(format!("{text:?} is no former name; write one like orders.create, or an automatic one like POST /orders"))
}

fn method(text: &str) -> Result<Method, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err(format!("{text:?} is no method; write it in capitals: POST, PATCH, PUT, DELETE"));
    }
    Method::from_bytes(text.as_bytes()).map_err(|_| format!("{text:?} is no method; write for instance POST"))
}
