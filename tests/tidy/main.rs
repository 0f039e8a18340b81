//! Rules about the repository itself, each a program (STYLE: a rule we care about is a program).
//!
//! Every complaint names the file and says what to do. Patterns that must not occur are put
//! together from pieces, so that this folder can keep its own rules.

mod dependencies;
mod files;
mod manual;
mod markdown;
mod modules;
mod shell;
mod words;

/// Fails with all complaints of a rule at once: one run, one list to work through.
#[track_caller]
fn assert_tidy(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n\n{}\n", complaints.join("\n"));
}
