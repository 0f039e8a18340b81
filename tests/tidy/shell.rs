//! The client's shell in TypeScript performs; the engine in Rust decides.

use crate::assert_tidy;
use crate::files::texts;

/// Of the shell that a page loads. Beyond it, ask what of it is a decision and belongs into the engine.
const MAX_LINES: usize = 900;

/// Not loaded by a page: declarations, the bench for tests (which plays a server), the store for Node.
const BESIDE: &[&str] = &["types.ts", "wasm.d.ts", "testing.ts", "node.ts"];

fn shell() -> Vec<(String, String)> {
    let beside = |path: &str| BESIDE.iter().any(|name| path == format!("client-wasm/js/{name}"));
    let files: Vec<(String, String)> =
        texts().into_iter().filter(|(path, _)| path.starts_with("client-wasm/js/") && !beside(path)).collect();
    assert!(files.len() > 5, "the shell was not found: {files:?}");
    files
}

#[test]
fn the_shell_is_thin() {
    let lines: usize = shell().iter().map(|(_, text)| text.lines().count()).sum();
    let complaint = format!("client-wasm/js has {lines} lines of {MAX_LINES}; move what decides into core/src/intent");
    assert_tidy(&if lines > MAX_LINES { vec![complaint] } else { Vec::new() });
}

/// What a status, a code or a header means is the engine's matter alone.
#[test]
fn the_shell_knows_no_protocol() {
    let names = ["idempotency-key", "samekey-state", "retry-after", "operation_in_progress", "outcome_uncertain"];
    let mut complaints = Vec::new();
    for (path, text) in shell().iter().filter(|(path, _)| path.ends_with(".ts")) {
        let code = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim_start();
            !line.starts_with("//") && !line.starts_with('*') && !line.starts_with("/*")
        });
        for (number, line) in code {
            if let Some(status) = numbers(line).find(|number| (100..600).contains(number)) {
                complaints
                    .push(format!("{path}:{}: {status} looks like a status; the engine judges answers", number + 1));
            }
            let lower = line.to_lowercase();
            for name in names.iter().filter(|name| lower.contains(*name)) {
                complaints.push(format!("{path}:{}: \"{name}\" is for the engine to read", number + 1));
            }
        }
    }
    assert_tidy(&complaints);
}

/// Whole decimal numbers that stand alone.
fn numbers(line: &str) -> impl Iterator<Item = u32> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').filter_map(|word| word.parse().ok())
}

#[test]
fn a_status_is_found_and_a_pause_is_let_be() {
    assert_eq!(numbers("if (status === 409) wait(30_000, x128, 5.300)").collect::<Vec<_>>(), [409]);
}
