//! curl, as a client that nobody here wrote; skipped aloud where it is missing or speaks no HTTP/2.

use std::process::Stdio;
use tokio::process::Command;

/// Whether curl is there and speaks HTTP/2.
#[expect(clippy::print_stderr, reason = "a test that was skipped must say so")]
pub async fn speaks_h2() -> bool {
    let version = Command::new("curl").arg("--version").output().await;
    let speaks = version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("HTTP2"));
    if !speaks {
        eprintln!("skipped: there is no curl with HTTP/2 here");
    }
    speaks
}

/// Its output with these arguments.
pub async fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).stdin(Stdio::null()).output();
    let output = output.await.expect("curl runs");
    assert!(output.status.success(), "curl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
