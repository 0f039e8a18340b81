//! Running other programs so that their output is seen, and their last words are kept.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};

/// The repository's root: every command runs there, wherever the caller stands.
pub fn root() -> PathBuf {
    let xtask =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), Path::to_path_buf)
}

/// The folder cargo builds into. This program was built there itself, which holds under every
/// configuration of `target-dir`.
pub fn target_dir() -> Result<PathBuf> {
    let me = env::current_exe().context("cannot tell where this program lies")?;
    me.ancestors().nth(2).map(Path::to_path_buf).context("this program does not lie in a target folder")
}

/// `cargo` with arguments, in the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Any other program, in the repository's root.
pub fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    command
}

/// Whether a program answers to `--version`.
pub fn is_installed(name: &str) -> bool {
    answers(Command::new(name).arg("--version"))
}

/// Whether a command ends well, its output unseen.
pub fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end; anything but success is an error that names the command.
pub fn must(command: &mut Command) -> Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{}`", spelled(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", spelled(command));
    }
    Ok(())
}

/// Runs to the end like [`must`], passes all output on as it comes, and returns the lines that
/// `keep` picks. Both streams end up on the error stream, as test runners prefer it.
pub fn must_keeping(command: &mut Command, keep: fn(&str) -> bool) -> Result<Vec<String>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", spelled(command)))?;
    let out = child.stdout.take().map(|pipe| thread::spawn(move || pass_on(pipe, keep)));
    let err = child.stderr.take().map(|pipe| thread::spawn(move || pass_on(pipe, keep)));
    let mut kept = Vec::new();
    for reader in [out, err].into_iter().flatten() {
        kept.extend(reader.join().unwrap_or_default());
    }
    let status = child.wait()?;
    if !status.success() {
        let last = kept.last().map(|line| format!(": {line}")).unwrap_or_default();
        bail!("`{}` ended with {status}{last}", spelled(command));
    }
    Ok(kept)
}

fn pass_on(pipe: impl Read, keep: fn(&str) -> bool) -> Vec<String> {
    let mut kept = Vec::new();
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        // A closed terminal must not end the run that it was showing.
        let _ = std::io::stderr().write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if keep(text.trim()) {
            kept.push(text.trim().to_owned());
        }
        line.clear();
    }
    kept
}

/// The command as somebody would type it, for messages.
pub fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
