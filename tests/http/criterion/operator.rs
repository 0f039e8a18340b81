//! A person who settles by hand what nobody else can: looks at the record, finds out in the service's books how the
//! command ended, and says so against what was looked at.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use support::Server;
use support::build::samekey;
use support::patience::patiently;

/// With a shell in the server's folder.
pub(super) struct Operator {
    folder: PathBuf,
    admin: SocketAddr,
}

/// A record as it was looked at.
pub(super) struct Seen {
    id: String,
    /// What `show` prints for `settle --seen`, while the record is uncertain.
    seen: Option<String>,
}

impl Operator {
    pub(super) fn of(samekey: &Server) -> Self {
        Self { folder: samekey.serve().folder().to_owned(), admin: samekey.admin }
    }

    /// `samekey records` with these words.
    async fn records(&self, words: &[&str]) -> Result<String, String> {
        let mut command = tokio::process::Command::new(samekey());
        command.arg("records").args(words).args(["--admin", &self.admin.to_string()]);
        command.current_dir(&self.folder).env("USER", "ann").stdin(Stdio::null());
        let output = patiently("samekey records", command.output()).await.expect("samekey records");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The record of a key, once nothing can be under way any more.
    pub(super) async fn looks_at(&self, key: &str) -> Seen {
        let list = self.records(&["list", "--key", key, "--json"]).await.expect("a list");
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let id = list["records"][0]["id"].to_string();
        patiently("the moment from which on it may be settled", async {
            loop {
                let shown = self.records(&["show", &id]).await.expect("a record");
                let open = shown.contains("in_progress (") || shown.contains("something may still be under way");
                if !open {
                    let seen = shown.split("--seen ").nth(1).and_then(|rest| rest.split_whitespace().next());
                    return Seen { id: id.clone(), seen: seen.map(str::to_owned) };
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
        .await
    }

    /// By what was found in the service's books: this id, or nothing. An error says why nothing was written.
    pub(super) async fn settles(&self, seen: &Seen, made: Option<&str>) -> Result<(), String> {
        let Seen { id, seen: Some(revision) } = seen else { return Err("somebody was faster".into()) };
        let mut words = vec!["settle", id, "--seen", revision, "--why", "looked into the books"];
        let body = made.map(|id| format!(r#"{{"id":"{id}"}}"#));
        match (made, &body) {
            (Some(made), Some(body)) => {
                words.extend(["--completed", "--status", "201", "--body", body, "--result-id", made]);
            }
            _ => words.push("--released"),
        }
        self.records(&words).await.map(drop)
    }
}
