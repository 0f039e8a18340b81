//! `cargo xtask client`: the npm package, from Rust to `client-wasm/dist`.
//!
//! Engine -> wasm -> glue of wasm-bindgen -> `wasm-opt` -> `client-wasm/build.mjs`, which bundles the shell, writes
//! the declarations, and says what each part weighs. Everything comes from a lock file: the glue's generator from
//! Cargo.lock, in whose version it must agree with the library, the rest from package-lock.json.

use std::fs;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

use crate::run::{cargo, must, must_keeping, program, root, target_dir};
use crate::tools;
use crate::verify::Outcome;

/// Build the npm package `samekey` in client-wasm/dist, and print what it weighs.
#[derive(clap::Args)]
pub struct Client {
    /// Also pack it, as client-wasm/samekey-VERSION.tgz.
    #[arg(long)]
    pack: bool,
}

impl Client {
    pub fn run(self) -> Result<()> {
        make()?;
        if self.pack {
            must(program("npm", &["pack", "--silent"]).current_dir(root().join("client-wasm")))?;
        }
        Ok(())
    }
}

/// The package and what it takes to build it.
pub fn make() -> Result<()> {
    tools::wasm_target()?;
    tools::npm_packages("client-wasm")?;
    build()
}

/// The demo in Chromium: every switch, both pages, what they look like to a screen reader.
pub fn demo() -> Result<Outcome> {
    tools::npm_packages("tests/demo")?;
    node_tests("tests/demo", "*.test.mjs")
}

/// What CI checks of it: the package is built and weighed, and its own tests pass.
pub fn package() -> Result<Outcome> {
    tools::npm_packages("client-wasm")?;
    build()?;
    node_tests("client-wasm", "tests/*.test.mjs")
}

/// The package in Chromium and Node, against the real server.
pub fn against_the_server() -> Result<Outcome> {
    tools::npm_packages("tests/browser")?;
    let types = ["tests/browser/node_modules/typescript/bin/tsc", "-p", "tests/browser/samples"];
    must(&mut program("node", &types))?;
    node_tests("tests/browser", "*.test.mjs")
}

/// The packed package in a tiny project for each place that it is meant for.
pub fn packaging() -> Result<Outcome> {
    tools::npm_packages("client-wasm/packaging")?;
    node_tests("client-wasm/packaging", "*.test.mjs")
}

/// Runs a folder's tests with Node's runner, four files at a time: most of their time is waiting for a browser.
fn node_tests(folder: &str, pattern: &str) -> Result<Outcome> {
    let folder = root().join(folder);
    let mut files = Vec::new();
    let (inside, ending) = pattern.rsplit_once('*').context("a pattern")?;
    for entry in fs::read_dir(folder.join(inside)).with_context(|| format!("cannot read {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            files.push(format!("{inside}{name}"));
        }
    }
    files.sort();
    let mut run = program("node", &["--test", "--test-reporter=spec", "--test-concurrency=4"]);
    run.args(&files).current_dir(&folder).env("SAMEKEY_BIN", target_dir()?.join("debug/samekey"));
    let lines = must_keeping(&mut run, |line| line.starts_with("ℹ pass "))?;
    let passed = lines.last().and_then(|line| line.rsplit(' ').next()).unwrap_or("0").to_owned();
    // A folder without files, or a runner that found none, looks like success.
    if passed == "0" {
        bail!("the test runner ended well but ran no test in {}", folder.display());
    }
    Ok(Outcome::note(format!("{passed} passed")))
}

/// The package, its tools being there.
fn build() -> Result<()> {
    let target = "wasm32-unknown-unknown";
    let mut compile = cargo(&["build", "--package", "samekey-client", "--target", target, "--profile", "wasm"]);
    // SHA-256 as a loop; unrolled, it is a tenth of the module, and payloads of a browser are short.
    compile.env(
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
        "--cfg sha2_backend=\"soft\" --cfg sha2_backend_soft=\"compact\"",
    );
    must(&mut compile)?;
    let built = target_dir()?.join(target).join("wasm/samekey_client.wasm");
    let folder = root().join("client-wasm/wasm");
    Bindgen::new()
        .input_path(&built)
        .out_name("samekey")
        .web(true)?
        .typescript(true)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&folder)
        .with_context(|| format!("cannot make bindings for {}", built.display()))?;
    // Behind the bindings, because those are made of sections that it would drop. It reads from the module which
    // features there are; told to use all, it makes modules that no engine loads.
    let (raw, small) = (folder.join("samekey_bg.wasm"), folder.join("samekey.wasm"));
    let mut shrink = program("node", &["client-wasm/node_modules/binaryen/bin/wasm-opt", "-Oz"]);
    must(shrink.arg("--converge").arg(&raw).arg("-o").arg(&small))?;
    fs::remove_file(raw)?;
    must(&mut program("node", &["client-wasm/build.mjs"]))
}
