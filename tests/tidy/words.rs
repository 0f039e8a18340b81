//! Words and paths that must not be committed.

use crate::assert_tidy;
use crate::files::texts;

/// Pieces of a pattern, and what to do where it stands.
const BANNED: &[(&[&str], &str)] = &[
    (&["/wo", "rk/"], "a path of one machine: write it relative to the repository"),
    (&["/ro", "ot/"], "a path of one machine: write it relative to the repository or to the home folder"),
    (
        &["registry.np", "mjs.org"],
        "a registry's host: make lock files with `npm install --omit-lockfile-registry-resolved`",
    ),
    (
        &["\"resol", "ved\": \"http"],
        "a registry's host: make lock files with `npm install --omit-lockfile-registry-resolved`",
    ),
    (&["py", "pi.org"], "a registry's host: name the package and its version, not where it comes from"),
    (&["files.python", "hosted.org"], "a registry's host: name the package and its version, not where it comes from"),
    (&["index.cra", "tes.io"], "a registry's host: Cargo.toml needs a name and a version only"),
    (&["static.cra", "tes.io"], "a registry's host: Cargo.toml needs a name and a version only"),
    (&["<<<<", "<<< "], "a merge conflict: settle it"),
    (&[">>>>", ">>> "], "a merge conflict: settle it"),
];

#[test]
fn no_banned_words() {
    let texts = texts();
    let mut complaints = Vec::new();
    for (pieces, advice) in BANNED {
        let pattern = pieces.concat();
        for (path, text) in &texts {
            for (number, line) in text.lines().enumerate() {
                if line.contains(&pattern) {
                    complaints.push(format!("{path}:{}: \"{pattern}\" is {advice}", number + 1));
                }
            }
        }
    }
    assert_tidy(&complaints);
}

/// Nobody can promise it across a network, so nobody may claim it here.
#[test]
fn no_promise_that_cannot_be_kept() {
    let complaints: Vec<String> = texts()
        .iter()
        .flat_map(|(path, text)| claims(text).into_iter().map(move |line| format!("{path}:{line}")))
        .map(|place| {
            format!("{place}: say \"at most one effect per key while the claim is remembered\"; in a test, say how many runs there were")
        })
        .collect();
    assert_tidy(&complaints);
}

/// Lines that claim it. A paragraph that denies it, or explains why not, may name it.
fn claims(text: &str) -> Vec<usize> {
    let phrase = ["exactly", "once"];
    let mut found = Vec::new();
    let mut line = 1;
    for paragraph in text.split("\n\n") {
        let lower = paragraph.to_lowercase();
        let denied =
            ["not ", "never", "no ", "avoid", "cannot", "n't", "instead of"].iter().any(|word| lower.contains(word));
        for (offset, text) in lower.lines().enumerate() {
            if !denied && (text.contains(&phrase.join(" ")) || text.contains(&phrase.join("-"))) {
                found.push(line + offset);
            }
        }
        line += paragraph.matches('\n').count() + 2;
    }
    found
}

#[test]
fn a_claim_is_found_and_a_denial_is_let_be() {
    let claim = ["It runs exactly", " once."].concat();
    assert_eq!(claims(&format!("# Title\n\nOne.\n\nTwo\n{claim}\n")), [6]);
    assert!(claims(&format!("This is not magic.\n{claim}\n")).is_empty());
}
