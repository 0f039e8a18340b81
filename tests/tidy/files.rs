//! What is in the repository: the files git knows or is about to know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::assert_tidy;

/// Entries at the top. A new one is a decision: name it here in the commit that adds it.
const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "client-wasm",
    "core",
    "deny.toml",
    "docs",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "server",
    "tests",
    "www",
    "xtask",
];

pub(crate) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// Paths relative to the root, tracked or new and not ignored; deleted ones left out.
pub(crate) fn all() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("the tidy rules need git");
    assert!(listed.status.success(), "the tidy rules need a git checkout");
    let listed = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let files: BTreeSet<String> =
        listed.split('\0').filter(|path| root().join(path).is_file()).map(str::to_owned).collect();
    assert!(files.contains("Cargo.toml"), "git listed no files of this repository");
    files.into_iter().collect()
}

/// The same with their text; what is not UTF-8 is no text.
pub(crate) fn texts() -> Vec<(String, String)> {
    all()
        .into_iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(&path)).ok()?;
            Some((path, text))
        })
        .collect()
}

#[test]
fn the_top_level_holds_only_what_was_decided() {
    let top: BTreeSet<String> = all().iter().filter_map(|path| path.split('/').next()).map(str::to_owned).collect();
    let complaints: Vec<String> = top
        .iter()
        .filter(|entry| !TOP.contains(&entry.as_str()))
        .map(|entry| {
            format!(
                "{entry}: move it below a folder, or add it to TOP in tests/tidy/files.rs and say why in the commit"
            )
        })
        .collect();
    assert_tidy(&complaints);
}

#[test]
fn texts_end_with_a_line_and_lines_do_not_end_with_blanks() {
    let mut complaints = Vec::new();
    // Licences are kept as their authors wrote them, corpora as they were published.
    let foreign = |path: &str| path.starts_with("LICENSE") || path.contains("/golden/");
    for (path, text) in texts().iter().filter(|(path, _)| !foreign(path)) {
        if !text.is_empty() && !text.ends_with('\n') {
            complaints.push(format!("{path}: end the last line"));
        }
        for (number, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                complaints.push(format!("{path}:{}: remove the blanks at the end of the line", number + 1));
            }
        }
    }
    assert_tidy(&complaints);
}
