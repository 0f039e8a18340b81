//! Builds the binary once for all tests of a run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the binary: `SAMEKEY_BIN`, or built beside the running test with its profile.
pub fn samekey() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("SAMEKEY_BIN").map_or_else(built, PathBuf::from))
}

fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    // nextest gives every test a process of its own: the first of a run builds, the others believe it.
    match std::env::var("NEXTEST_RUN_ID") {
        Ok(run) => once(&profile.join(".samekey-built-by-run"), &run, || build(profile)),
        Err(_) => build(profile),
    }
    profile.join("samekey")
}

fn once(stamp: &Path, run: &str, build: impl FnOnce()) {
    let mut options = OpenOptions::new();
    let mut file: File = options.read(true).write(true).create(true).truncate(false).open(stamp).expect("a stamp");
    file.lock().expect("lock the stamp");
    let mut last = String::new();
    file.read_to_string(&mut last).expect("read the stamp");
    if last != run {
        build();
        file.set_len(0).and_then(|()| file.rewind()).expect("empty the stamp");
        file.write_all(run.as_bytes()).expect("write the stamp");
    }
}

fn build(profile: &Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The selection that `cargo verify` uses: another one would compile the dependencies once more.
    cargo.args(["build", "--quiet", "--workspace", "--features", "samekey/cli", "--bin", "samekey"]);
    cargo.arg("--target-dir").arg(profile.parent().expect("target")).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo").success(), "the binary builds");
}
