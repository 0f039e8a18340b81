//! Files named by one noun and short enough to be read.

use std::fs;

use crate::assert_tidy;
use crate::files::{all, root, texts};

/// Above this, ask which second noun has moved in.
const MAX_LINES: usize = 500;

/// Longer files, each with its reason.
const LONG: &[(&str, &str)] = &[];

/// Names that say "the rest"; a file named so has no noun of its own.
const NO_NOUN: &[&str] = &["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"];

#[test]
fn files_are_short_enough_to_read() {
    let mut complaints = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let lines = text.lines().count();
        if lines > MAX_LINES && !LONG.iter().any(|(long, _)| long == path) {
            complaints.push(format!(
                "{path}: {lines} lines; split it by role, or add it to LONG in tests/tidy/modules.rs with the reason"
            ));
        }
    }
    for (path, _) in LONG {
        if fs::read_to_string(root().join(path)).map_or(0, |text| text.lines().count()) <= MAX_LINES {
            complaints.push(format!("{path}: short by now or gone; take it off LONG in tests/tidy/modules.rs"));
        }
    }
    assert_tidy(&complaints);
}

#[test]
fn modules_are_named_by_a_noun() {
    let complaints: Vec<String> = all()
        .iter()
        .filter(|path| path.ends_with(".rs"))
        .filter(|path| path.trim_end_matches(".rs").split('/').any(|part| NO_NOUN.contains(&part)))
        .map(|path| format!("{path}: name it after what it holds"))
        .collect();
    assert_tidy(&complaints);
}

/// With `autotests = false` a folder that nobody lists is never built, and looks like success.
#[test]
fn every_suite_is_listed() {
    let manifest = fs::read_to_string(root().join("tests/Cargo.toml")).expect("tests/Cargo.toml");
    let files = all();
    let complaints: Vec<String> = files
        .iter()
        .filter_map(|path| path.strip_prefix("tests/")?.strip_suffix("/main.rs"))
        .filter(|suite| !suite.contains('/'))
        .filter(|suite| !manifest.contains(&format!("path = \"{suite}/main.rs\"")))
        .map(|suite| format!("tests/{suite}: add a [[test]] with path = \"{suite}/main.rs\" to tests/Cargo.toml"))
        .collect();
    assert_tidy(&complaints);
}
