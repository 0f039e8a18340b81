//! `samekey records …` as a person runs it.

use std::process::Stdio;

use serde_json::Value;
use support::build::samekey;
use support::patience::patiently;

use crate::shop::Shop;

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert!(self.ok, "{self:?}");
        self.out
    }

    /// It failed, and said so in words that have this in them.
    #[track_caller]
    pub(crate) fn refused(self, hint: &str) -> String {
        assert!(!self.ok && self.err.contains(hint), "{hint:?} in {self:?}");
        self.err
    }

    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.well()).expect("JSON")
    }
}

/// `samekey records` with these words, in the folder of the server.
pub(crate) async fn records(shop: &Shop, words: &[&str]) -> Said {
    let mut command = tokio::process::Command::new(samekey());
    command.arg("records").args(words).current_dir(shop.samekey.serve().folder()).env("USER", "ann");
    command.stdin(Stdio::null());
    let output = patiently("samekey records", command.output()).await.expect("samekey records");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

/// The same, against the running server.
pub(crate) async fn asking(shop: &Shop, words: &[&str]) -> Said {
    let admin = shop.samekey.admin.to_string();
    let mut all = words.to_vec();
    all.extend(["--admin", &admin]);
    records(shop, &all).await
}
