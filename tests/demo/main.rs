//! `samekey demo`: what it prints is pasted into a shell, and each line does what the text says.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::build;
use tempfile::TempDir;

/// A running demo, with its temporary files in a folder of the test's own.
struct Demo {
    child: Child,
    folder: TempDir,
    text: String,
}

impl Demo {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(build::samekey())
            .args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--shop", "127.0.0.1:0"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the demo");
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("stdout"));
        while !text.contains("Ctrl-C ends the demo") {
            let read = lines.read_line(&mut text).expect("its text");
            assert!(read > 0, "the demo ended early:\n{text}");
        }
        Self { child, folder, text }
    }

    /// The lines to paste, in order; the first defines `order`.
    fn lines(&self) -> Vec<String> {
        let pasted = self.text.lines().filter_map(|line| line.strip_prefix("    "));
        pasted.filter(|line| line.starts_with("order") || line.starts_with("curl")).map(str::to_owned).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn paste(define: &str, line: &str) -> String {
    let shell = Command::new("bash").args(["-c", &format!("{define}\n{line}")]).output().expect("bash");
    String::from_utf8_lossy(&shell.stdout).into_owned()
}

#[test]
fn every_line_does_what_the_text_says() {
    let mut demo = Demo::start();
    let lines = demo.lines();
    let [define, pasted @ ..] = lines.as_slice() else { panic!("no lines to paste:\n{}", demo.text) };
    let said: Vec<String> = pasted.iter().map(|line| paste(define, line)).collect();
    let [tea, again, other, lost, retry, ledger, cake, uncertain, after] = said.as_slice() else {
        panic!("{} lines to paste:\n{}", said.len(), demo.text)
    };

    assert!(tea.starts_with("HTTP/1.1 201") && !tea.contains("idempotent-replayed"), "{tea}");
    assert!(again.starts_with("HTTP/1.1 201") && again.contains("idempotent-replayed: true"), "{again}");
    let body = |answer: &str| answer.split("\r\n\r\n").nth(1).map(str::to_owned);
    assert_eq!(body(tea), body(again));
    assert!(other.starts_with("HTTP/1.1 409") && other.contains("key_payload_mismatch"), "{other}");
    assert!(!lost.contains("HTTP/1.1"), "curl hung up: {lost}");
    assert!(retry.starts_with("HTTP/1.1 201") && retry.contains("coffee"), "{retry}");
    assert!(ledger.contains("\"count\":2"), "{ledger}");
    assert!(cake.starts_with("HTTP/1.1 409") && cake.contains("outcome_uncertain"), "{cake}");
    assert!(uncertain.starts_with("HTTP/1.1 409") && uncertain.contains("outcome_uncertain"), "{uncertain}");
    assert!(after.contains("\"count\":3"), "{after}");

    let pid = Pid::from_child(&demo.child);
    kill_process(pid, Signal::INT).expect("Ctrl-C");
    assert!(demo.child.wait().expect("its end").success());
    let left: Vec<_> = fs::read_dir(demo.folder.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "the demo left {left:?}");
}
