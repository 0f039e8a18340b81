//! A value of the file, read by the parser of its flag.

use std::error::Error as _;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use toml::de::DeValue;

/// The texts that the flag would be given, or what to write instead.
pub(super) fn texts(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        let value = value.as_bool().ok_or_else(|| format!("{} is no yes or no; write true or false", shown(value)))?;
        return Ok(vec![value.to_string()]);
    }
    let is_list = arg.get_value_delimiter().is_some();
    let texts = match value {
        DeValue::Array(items) if is_list => {
            items.iter().map(|item| one(item.get_ref())).collect::<Result<Vec<_>, _>>()?
        }
        DeValue::Array(_) => return Err("a list is too much; write one value".into()),
        _ if is_list => {
            return Err(format!("{} is no list; write it in brackets: [{}]", shown(value), shown(value)));
        }
        value => vec![one(value)?],
    };
    for text in &texts {
        check(arg, text, value.is_integer() || value.is_float())?;
    }
    Ok(texts)
}

fn one(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        other => Err(format!("{} is no text; write it in quotes", shown(other))),
    }
}

/// As it stands in the file, or what it is.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}

/// What the flag's parser says.
fn check(arg: &Arg, text: &str, is_number: bool) -> Result<(), String> {
    let Some(long) = arg.get_long() else { return Ok(()) };
    let command = Command::new("value").no_binary_name(true).arg(arg.clone().env(Resettable::Reset));
    let Err(error) = command.try_get_matches_from([format!("--{long}={text}")]) else { return Ok(()) };
    // What is no number must be quoted, so the advice is given with quotes.
    let quoted = if is_number { ", in quotes" } else { "" };
    if let Some(source) = error.source() {
        return Err(format!("{source}{quoted}"));
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
            Err(format!("{text:?} is not known here; write one of {}", valid.join(", ")))
        }
        _ => Err(format!("{text:?} cannot be used; leave the key out for its default")),
    }
}

/// A list of texts.
pub(super) fn list(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let items =
        value.as_array().ok_or_else(|| format!("{} is no list; write it in brackets: [\"…\"]", shown(value)))?;
    items.iter().map(|item| text(item.get_ref())).collect()
}

/// A text.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        other => Err(format!("{} is no text; write it in quotes", shown(other))),
    }
}

/// Yes or no.
pub(super) fn yes(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("{} is no yes or no; write true or false", shown(value)))
}
