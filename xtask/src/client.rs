//! `cargo xtask client`: the npm package, from Rust to `client-wasm/dist`.
//!
//! Engine -> wasm -> glue of wasm-bindgen -> `wasm-opt` -> `client-wasm/build.mjs`, which bundles the shell, writes
//! the declarations, and says what each part weighs. Everything comes from a lock file: the glue's generator from
//! Cargo.lock, in whose version it must agree with the library, the rest from package-lock.json.

use std::fs;

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::run::{cargo, must, program, root, target_dir};
use crate::tools;

/// Build the npm package `samekey` in client-wasm/dist, and print what it weighs.
#[derive(clap::Args)]
pub struct Client {
    /// Also pack it, as client-wasm/samekey-VERSION.tgz.
    #[arg(long)]
    pack: bool,
}

impl Client {
    pub fn run(self) -> Result<()> {
        tools::wasm_target()?;
        tools::npm_packages("client-wasm")?;
        build()?;
        if self.pack {
            must(program("npm", &["pack", "--silent"]).current_dir(root().join("client-wasm")))?;
        }
        Ok(())
    }
}

/// The package, its tools being there.
pub fn build() -> Result<()> {
    let target = "wasm32-unknown-unknown";
    let mut compile = cargo(&["build", "--package", "samekey-client", "--target", target, "--profile", "wasm"]);
    // SHA-256 as a loop; unrolled, it is a tenth of the module, and payloads of a browser are short.
    compile.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", "--cfg sha2_backend=\"soft\" --cfg sha2_backend_soft=\"compact\"");
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
