//! `samekey demo`: what it prints is pasted into a shell, and each line does what the text says.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
            .args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--provider", "127.0.0.1:0"])
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

    /// The lines to paste, in order; the first two define words for the others.
    fn lines(&self) -> (String, Vec<String>) {
        let pasted = self.text.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned);
        let (define, pasted): (Vec<_>, Vec<_>) = pasted.partition(|line| line.contains("() {"));
        (define.join("\n"), pasted)
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
    let (define, pasted) = demo.lines();
    let said: Vec<String> = pasted.iter().map(|line| paste(&define, line)).collect();
    let [light, again, other, chaos, lost, retry, crash, unknown, ledger] = said.as_slice() else {
        panic!("{} lines to paste:\n{}", said.len(), demo.text)
    };

    assert!(light.starts_with("HTTP/1.1 201") && !light.contains("idempotent-replayed"), "{light}");
    assert!(again.starts_with("HTTP/1.1 201") && again.contains("idempotent-replayed: true"), "{again}");
    let body = |answer: &str| answer.split("\r\n\r\n").nth(1).map(str::to_owned);
    assert_eq!(body(light), body(again));
    assert!(other.starts_with("HTTP/1.1 409") && other.contains("key_payload_mismatch"), "{other}");
    assert!(chaos.contains("\"lose_answer\":true"), "{chaos}");
    assert!(!lost.contains("HTTP/1.1"), "its answer got lost: {lost}");
    assert!(retry.starts_with("HTTP/1.1 201") && retry.contains("idempotent-replayed: true"), "{retry}");
    assert!(crash.contains("\"provider_crash\":true"), "{crash}");
    assert!(unknown.starts_with("HTTP/1.1 409") && unknown.contains("outcome_uncertain"), "{unknown}");
    let counted = r#""samekey":{"intents":3,"effects":3,"notifications":3,"duplicates":[]}"#;
    assert!(ledger.contains(counted), "{ledger}");

    // The provider is asked once nothing of the call can be under way; until then nothing runs again.
    let patience = Instant::now() + Duration::from_secs(60);
    let settled = loop {
        let answer = paste(&define, &pasted[7]);
        if answer.starts_with("HTTP/1.1 201") {
            break answer;
        }
        assert!(answer.contains("outcome_uncertain") && Instant::now() < patience, "{answer}");
        std::thread::sleep(Duration::from_millis(500));
    };
    assert!(settled.contains("idempotent-replayed: true"), "{settled}");
    assert!(paste(&define, &pasted[8]).contains(counted), "nothing ran again");

    let pid = Pid::from_child(&demo.child);
    kill_process(pid, Signal::INT).expect("Ctrl-C");
    assert!(demo.child.wait().expect("its end").success());
    let left: Vec<_> = fs::read_dir(demo.folder.path()).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "the demo left {left:?}");
}
