//! The direction of dependencies: server -> core, and core on almost nothing.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::assert_tidy;
use crate::files::root;

/// Everything core is built from, on all platforms. A new name is code that runs in browsers and
/// in the model checker too, and weighs in the download: say in the commit why it is worth that.
const CORE: &[&str] = &[
    "block-buffer",
    "cfg-if",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "libc",
    "samekey-core",
    "sha2",
    "typenum",
    "uuid",
];

/// Which member may use which in what it ships; tests and builds may use what they like.
const MEMBERS: &[(&str, &[&str])] = &[
    ("samekey-core", &[]),
    ("samekey-client", &["samekey-core"]),
    ("samekey", &["samekey-core"]),
    ("samekey-tests", &["samekey", "samekey-client", "samekey-core"]),
    ("xtask", &[]),
];

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ran = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo starts");
    assert!(ran.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("cargo writes UTF-8")
}

/// The forward tree against a list: an inverse query also passes when a name is misspelt.
#[test]
fn core_stands_on_what_was_decided() {
    let tree =
        cargo(&["tree", "--locked", "-p", "samekey-core", "-e", "normal", "--prefix", "none", "--target", "all"]);
    let found: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let decided: BTreeSet<&str> = CORE.iter().copied().collect();
    let new = found.difference(&decided).map(|name| {
        format!(
            "{name}: core depends on it now; do without, or add it to CORE in tests/tidy/dependencies.rs and say why"
        )
    });
    let gone = decided
        .difference(&found)
        .map(|name| format!("{name}: core no longer needs it; take it off CORE in tests/tidy/dependencies.rs"));
    assert_tidy(&new.chain(gone).collect::<Vec<_>>());
}

#[test]
fn members_depend_downwards_only() {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]))
        .expect("metadata is JSON");
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = MEMBERS.iter().find(|(member, _)| *member == name) else {
            complaints.push(format!("{name}: say in MEMBERS in tests/tidy/dependencies.rs which members it may use"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_string() && dependency["kind"].is_null() && !allowed.contains(&on) {
                complaints.push(format!("{name}: must not depend on {on}; see ARCHITECTURE.md for the direction"));
            }
        }
    }
    assert_tidy(&complaints);
}

#[test]
fn no_dependency_is_listed_for_nobody() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let listed = workspace
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .expect("[workspace.dependencies]");
    let members: Vec<String> = MEMBERS
        .iter()
        .map(|(name, _)| name.trim_start_matches("samekey-"))
        .map(|folder| if folder == "samekey" { "server" } else { folder })
        .map(|folder| if folder == "client" { "client-wasm" } else { folder })
        .filter_map(|folder| fs::read_to_string(root().join(folder).join("Cargo.toml")).ok())
        .collect();
    let used = |name: &str| {
        members.iter().flat_map(|manifest| manifest.lines()).any(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" =") || rest.starts_with(".workspace"))
        })
    };
    let complaints: Vec<String> = listed
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(name, _)| !name.starts_with('#') && !used(name))
        .map(|(name, _)| format!("{name}: no member uses it; take it out of [workspace.dependencies] in Cargo.toml"))
        .collect();
    assert_tidy(&complaints);
}
