//! What a fresh machine lacks: the WASM target, system packages, the peers' packages.
//!
//! Everything is pinned by a file of this repository and installed below `target/`, or in a
//! `node_modules` beside its lock file. What is there already is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{answers, is_installed, must, program, root, target_dir};
use crate::verify::Outcome;

/// A program the steps need, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("cc", "build-essential"), // SQLite is compiled from source
    ("chromium", "chromium"),
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
    if fs::read_dir("/usr/lib/postgresql").map_or(true, |mut versions| versions.next().is_none()) {
        missing.push("postgresql-15");
    }
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

/// Where the Python packages of the real clients go.
pub fn python_packages() -> Result<PathBuf> {
    Ok(target_dir()?.join("tools/peers-python"))
}

/// Installs the Python packages that are pinned here, unless they are there. Says whether it did.
fn install_python(name: &str, pins: &Path, packages: &Path) -> Result<bool> {
    once(name, pins, packages, || {
        if packages.exists() {
            fs::remove_dir_all(packages)?;
        }
        let mut install = program("python3", &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install.args(["--no-input", "--root-user-action", "ignore", "--target"]).arg(packages);
        must(install.arg("--requirement").arg(pins))
    })
}

/// Installs what calls the claim API by its description.
pub fn schemathesis() -> Result<Outcome> {
    let pins = root().join("tests/claims/requirements.txt");
    let made = install_python("schemathesis", &pins, &target_dir()?.join("tools/schemathesis-python"))?;
    Ok(Outcome::note(if made { "Python packages installed" } else { "" }))
}

/// Installs what the real clients under `tests/peers` are pinned to: npm packages beside their
/// lock file, Python packages in [`python_packages`].
pub fn peers() -> Result<Outcome> {
    let find = |names: [&str; 2]| {
        names.map(|name| root().join("tests/peers").join(name)).into_iter().find(|path| path.is_file())
    };
    let lock = find(["package-lock.json", "node/package-lock.json"]);
    let pins = find(["requirements.txt", "python/requirements.txt"]);
    if lock.is_none() && pins.is_none() {
        return Ok(Outcome::skipped("tests/peers pins nothing yet"));
    }
    let mut notes = Vec::new();
    if let Some(lock) = lock {
        let folder = lock.with_file_name("");
        if once("peers-npm", &lock, &folder.join("node_modules"), || {
            must(program("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder))
        })? {
            notes.push("npm packages installed");
        }
    }
    if let Some(pins) = pins {
        let packages = python_packages()?;
        if install_python("peers-python", &pins, &packages)? {
            notes.push("Python packages installed");
        }
    }
    Ok(Outcome::note(notes.join(", ")))
}

/// Installs the npm packages of a folder beside their lock file. Says whether that was needed.
pub fn npm_packages(folder: &str) -> Result<bool> {
    let path = root().join(folder);
    let lock = path.join("package-lock.json");
    once(&format!("npm-{}", folder.replace('/', "-")), &lock, &path.join("node_modules"), || {
        must(program("npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&path))
    })
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
