//! What a fresh machine lacks: the WASM target, system packages, the peers' packages.
//!
//! Everything is pinned by a file of this repository and installed below `target/`, or in a
//! `node_modules` beside its lock file. What is there already is left alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{answers, is_installed, must, program, root, target_dir};
use crate::verify::Outcome;

/// A program the steps need, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("cc", "build-essential"), // SQLite is compiled from source
    ("curl", "curl"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3"),
];

/// Installs the target that core and the browser client are built for.
pub fn wasm_target() -> Result<Outcome> {
    let target = "wasm32-unknown-unknown";
    let sysroot = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(root())
        .output()
        .context("cannot start rustc")?;
    let libraries = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if sysroot.status.success() && Path::new(&libraries).is_dir() {
        return Ok(Outcome::done());
    }
    // Asked for by name: rustup may be set not to fetch what rust-toolchain.toml lists.
    must(&mut program("rustup", &["target", "add", target]))
        .context("the WASM target is missing and rustup could not add it")?;
    Ok(Outcome::note("target added"))
}

/// Installs system packages where that is possible, or says which ones are missing.
pub fn system_packages() -> Result<Outcome> {
    let mut missing: Vec<&str> =
        PROGRAMS.iter().filter(|(name, _)| !is_installed(name)).map(|(_, package)| *package).collect();
    if !answers(Command::new("python3").args(["-m", "pip", "--version"])) {
        missing.push("python3-pip");
    }
    if missing.is_empty() {
        return Ok(Outcome::done());
    }
    let mine = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    if !mine || !is_installed("apt-get") {
        bail!("these programs are missing; install them and come back: apt-get install {}", missing.join(" "));
    }
    let mut install = program("apt-get", &["install", "-y", "--no-install-recommends"]);
    install.args(&missing).env("DEBIAN_FRONTEND", "noninteractive");
    if must(&mut install).is_err() {
        must(&mut program("apt-get", &["update"]))?;
        must(&mut install)?;
    }
    Ok(Outcome::note(format!("installed {}", missing.join(" "))))
}

/// Installs what the real clients under `tests/peers` are pinned to.
pub fn peers() -> Result<Outcome> {
    let peers = root().join("tests/peers");
    let mut notes = Vec::new();

    let lock = peers.join("package-lock.json");
    if !lock.is_file() {
        notes.push("no package-lock.json".to_owned());
    } else if once("peers-npm", &lock, &peers.join("node_modules"), || {
        must(program("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&peers))
    })? {
        notes.push("npm packages installed".to_owned());
    }

    let pins = peers.join("requirements.txt");
    let python = target_dir()?.join("tools/peers-python");
    if !pins.is_file() {
        notes.push("no requirements.txt".to_owned());
    } else if once("peers-python", &pins, &python, || {
        if python.exists() {
            fs::remove_dir_all(&python)?;
        }
        let mut install = program("python3", &["-m", "pip", "install", "--quiet"]);
        install.args(["--disable-pip-version-check", "--no-input", "--root-user-action", "ignore"]);
        must(install.arg("--target").arg(&python).arg("--requirement").arg(&pins))
    })? {
        notes.push("Python packages installed".to_owned());
    }
    if !lock.is_file() && !pins.is_file() {
        return Ok(Outcome::skipped("tests/peers pins nothing yet"));
    }
    Ok(Outcome::note(notes.join(", ")))
}

/// Runs `install` unless `result` exists and was made from these very pins. Says whether it ran.
fn once(name: &str, pins: &Path, result: &Path, install: impl FnOnce() -> Result<()>) -> Result<bool> {
    let wanted = fs::read(pins).with_context(|| format!("cannot read {}", pins.display()))?;
    let stamps = target_dir()?.join("tools");
    let stamp = stamps.join(format!("{name}.pins"));
    if result.is_dir() && fs::read(&stamp).is_ok_and(|made_from| made_from == wanted) {
        return Ok(false);
    }
    install()?;
    fs::create_dir_all(&stamps)?;
    fs::write(&stamp, wanted)?;
    Ok(true)
}
