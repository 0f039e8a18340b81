//! The reference page against the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use support::build;

use crate::assert_tidy;
use crate::files::root;

/// Flags of `samekey serve` as `--help` prints them, with their defaults.
fn flags() -> BTreeMap<String, Option<String>> {
    let help = Command::new(build::samekey()).args(["serve", "--help"]).env("COLUMNS", "1000").output().expect("help");
    let help = String::from_utf8(help.stdout).expect("help is UTF-8");
    let mut flags = BTreeMap::new();
    let mut last = None;
    for line in help.lines().map(str::trim_start) {
        if let Some((_, flag)) =
            line.split_once("--").filter(|(before, _)| before.is_empty() || before.starts_with('-'))
        {
            let name = flag.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
            flags.insert(name.clone(), None);
            last = Some(name);
        }
        if let Some((_, default)) = line.split_once("[default: ") {
            let default = default.split(']').next().unwrap_or_default().to_owned();
            if let Some(slot) = last.as_ref().and_then(|name| flags.get_mut(name)) {
                *slot = Some(default);
            }
        }
    }
    flags.remove("help");
    flags.remove("version");
    flags
}

/// The same as the page has them: `| `--flag X` | default | … |`.
fn documented() -> BTreeMap<String, String> {
    let page = fs::read_to_string(root().join("server/README.md")).expect("server/README.md");
    page.lines()
        .filter_map(|line| line.strip_prefix("| `--"))
        .filter_map(|row| {
            let name = row.split([' ', '`']).next()?.to_owned();
            // Three cells: other tables have other shapes.
            (row.split('|').count() == 4).then_some(())?;
            let default = row.split('|').nth(1)?.trim().trim_matches('`').to_owned();
            Some((name, default))
        })
        .collect()
}

#[test]
fn the_reference_page_names_each_flag_with_its_default() {
    let (flags, documented) = (flags(), documented());
    assert!(flags.len() > 20, "the help was not understood: {flags:?}");
    let names: BTreeSet<&String> = flags.keys().chain(documented.keys()).collect();
    let complaints: Vec<String> = names
        .into_iter()
        .filter_map(|name| match (flags.get(name), documented.get(name)) {
            (Some(_), None) => Some(format!("--{name}: add a row to the table in server/README.md")),
            (None, _) => Some(format!("--{name}: there is no such flag; take it out of server/README.md")),
            // A default in words (`timeout + 30s`, `loopback`, `required`) is not in brackets of the help's own.
            (Some(Some(default)), Some(row)) if default != row && !default.contains(' ') && default != "loopback" => {
                Some(format!("--{name}: its default is {default}, server/README.md says {row}"))
            }
            _ => None,
        })
        .collect();
    assert_tidy(&complaints);
}
