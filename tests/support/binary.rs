//! The real binary as a child process, started on free ports in a folder of its own.

use crate::answer::Answer;
use crate::build::samekey;
use crate::logs::Logs;
use crate::patience::patiently;
use crate::raw::{self, Connection};
use crate::request::Request;
use crate::scrape::Scrape;
use crate::upstream::Upstream;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How to start `samekey serve`.
#[derive(Clone, Debug)]
pub struct Serve {
    upstream: String,
    folder: Arc<TempDir>,
    store: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    bare: bool,
    wrapper: Vec<OsString>,
    user: Option<(u32, PathBuf)>,
}

impl Serve {
    /// In front of this upstream, with a store in a new folder and default settings.
    pub fn before(upstream: &Upstream) -> Self {
        Self::to(&upstream.url())
    }

    /// In front of any address.
    pub fn to(url: &str) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let store = folder.path().join("samekey.db");
        Self {
            upstream: url.into(),
            folder,
            store,
            args: Vec::new(),
            env: Vec::new(),
            bare: false,
            wrapper: Vec::new(),
            user: None,
        }
    }

    /// A flag with its value.
    pub fn set(mut self, flag: &str, value: &str) -> Self {
        self.args.extend([flag.into(), value.into()]);
        self
    }

    /// A `samekey.toml` in the folder, which the server finds by itself.
    pub fn config(self, toml: &str) -> Self {
        std::fs::write(self.folder().join("samekey.toml"), toml).expect("a configuration");
        self
    }

    /// No flags but those that were set: all else comes from the file or the environment.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What `samekey check` says in this folder, with further flags.
    pub fn check(&self, flags: &[&str]) -> std::process::Output {
        let mut command = std::process::Command::new(samekey());
        command.arg("check").args(&self.args).args(flags).current_dir(self.folder());
        command.envs(self.env.iter().cloned()).output().expect("samekey check")
    }

    /// Another command of the binary, in this folder: `["backup", "copy.db"]`.
    pub fn command(&self, words: &[&str]) -> std::process::Output {
        let mut command = std::process::Command::new(samekey());
        command.args(words).current_dir(self.folder());
        command.envs(self.env.iter().cloned()).output().expect("samekey")
    }

    /// Short times, for tests that wait for them: lease 1 s, timeout 1 s, settled from outside 2 s later.
    pub fn quick(self) -> Self {
        self.set("--lease", "1s").set("--timeout", "1s").set("--probe-after", "2s").waits("200ms", "1s")
    }

    /// How long a second delivery waits for the first.
    pub fn waits(self, default: &str, max: &str) -> Self {
        self.set("--default-wait", default).set("--max-wait", max)
    }

    /// Started through another program: `["sh", "-c", "…; exec \"$@\"", "sh"]`.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(OsString::from).collect();
        self
    }

    /// As another user; root only. The binary is copied to where that user can reach it.
    pub fn user(mut self, id: u32) -> Self {
        let copy = self.folder().join("samekey");
        std::fs::copy(samekey(), &copy).expect("a copy of the binary");
        self.user = Some((id, copy));
        self
    }

    /// The folder that holds the store.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }

    /// A store somewhere else.
    pub fn store_at(mut self, file: &Path) -> Self {
        self.store = file.to_owned();
        self
    }

    fn spawn(&self, listen: &str) -> Child {
        let mut words = self.wrapper.clone();
        words.push(self.user.as_ref().map_or_else(|| samekey().into(), |(_, copy)| copy.into()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve");
        if !self.bare {
            command.args(["--upstream", &self.upstream, "--listen", listen]);
            command.args(["--admin", "127.0.0.1:0"]);
            if !self.env.iter().any(|(name, _)| name == "SAMEKEY_STORE") {
                command.arg("--store").arg(format!("sqlite:{}", self.store.display()));
            }
        }
        command
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .current_dir(self.folder())
            .kill_on_drop(true)
            .env_remove("RUST_LOG");
        if let Some((id, _)) = self.user {
            command.uid(id).gid(id);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("start samekey")
    }

    /// Starts and waits until it listens.
    pub async fn start(&self) -> Server {
        self.start_on("127.0.0.1:0").await
    }

    /// Starts on a given address.
    pub async fn start_on(&self, listen: &str) -> Server {
        let mut child = self.spawn(listen);
        let out = Logs::of(child.stdout.take().expect("stdout"));
        let logs = Logs::of(child.stderr.take().expect("stderr"));
        let Some(line) = out.line_with(" listening http://").await else {
            panic!("samekey did not start: {}{}", out.text(), logs.whole().await)
        };
        assert_eq!(Some(line.as_str()), out.text().lines().next(), "the first line says where it listens");
        let address = |after: &str| -> SocketAddr {
            let rest = line.split_once(after).unwrap_or_else(|| panic!("{after} in {line}")).1;
            let text = rest.split([' ', ',', '/']).next().unwrap_or_default();
            text.parse().unwrap_or_else(|_| panic!("an address after {after} in {line}"))
        };
        let (addr, admin) = (address(" listening http://"), address("admin http://"));
        Server { serve: self.clone(), child, addr, admin, out, logs }
    }

    /// Starts what must not start; how it ended and what it said.
    pub async fn refused(&self) -> (ExitStatus, String) {
        self.refused_on("127.0.0.1:0").await
    }

    /// The same on a given address.
    pub async fn refused_on(&self, listen: &str) -> (ExitStatus, String) {
        let child = self.spawn(listen);
        let output = patiently("samekey refusing to start", child.wait_with_output()).await.expect("its output");
        assert!(!output.status.success(), "it must not start: {}", String::from_utf8_lossy(&output.stdout));
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    serve: Serve,
    child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
    /// Where its admin listener is.
    pub admin: SocketAddr,
    /// Its standard output.
    pub out: Logs,
    /// Its standard error.
    pub logs: Logs,
}

impl Server {
    /// Sends one request on a connection of its own.
    pub async fn send(&self, request: &Request) -> Answer {
        raw::send(self.addr, request).await
    }

    /// Sends the request from a task of its own; the answer is what the handle gives.
    pub fn spawn(&self, request: &Request) -> tokio::task::JoinHandle<Answer> {
        let (addr, request) = (self.addr, request.clone());
        tokio::spawn(async move { raw::send(addr, &request).await })
    }

    /// A connection to it.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.addr).await
    }

    /// Sends until the answer is what the caller wants, at a steady pace; for states that only time brings.
    pub async fn until(&self, request: &Request, wanted: impl Fn(&Answer) -> bool) -> Answer {
        patiently("the answer that time brings", async {
            loop {
                let answer = self.send(request).await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&self) {
        patiently("readiness", async {
            while self.admin("/readyz").await.status != 200 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    }

    /// Where its tokens are.
    pub fn token_file(&self) -> PathBuf {
        self.serve.store.with_file_name("samekey.token")
    }

    /// The token that it made for itself.
    pub fn token(&self) -> String {
        let text = std::fs::read_to_string(self.token_file()).expect("a token file");
        text.split_whitespace().find(|word| word.starts_with("samekey_")).expect("a token").to_owned()
    }

    /// Anything on the admin listener, with a token.
    pub async fn admin_as(&self, token: &str, request: &Request) -> Answer {
        raw::send(self.admin, &request.clone().actor(&format!("Bearer {token}"))).await
    }

    /// What Prometheus would read now.
    pub async fn scrape(&self) -> Scrape {
        let answer = self.admin_as(&self.token(), &Request::new("GET", "/metrics")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        Scrape::of(&answer.text())
    }

    /// Scrapes until the sum of these samples is what the caller wants; for gauges that time brings.
    pub async fn until_scraped(&self, name: &str, labels: &[(&str, &str)], wanted: impl Fn(f64) -> bool) -> f64 {
        patiently(&format!("{name} {labels:?}"), async {
            loop {
                let value = self.scrape().await.sum(name, labels);
                if wanted(value) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
    }

    /// GET on the admin listener, without a token.
    pub async fn admin(&self, path: &str) -> Answer {
        raw::send(self.admin, &Request::new("GET", path).anonymous()).await
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        let id = self.child.id().expect("a running process");
        Pid::from_raw(i32::try_from(id).expect("a process id")).expect("not 0")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signal");
    }

    /// Waits for its end.
    pub async fn exited(&mut self) -> ExitStatus {
        patiently("the server's end", self.child.wait()).await.expect("its status")
    }

    /// `kill -9`; gives back how to start it again on the same folder.
    pub async fn kill(mut self) -> Serve {
        self.signal(Signal::KILL);
        self.exited().await;
        self.serve.clone()
    }

    /// SIGTERM, and its end.
    pub async fn stop(mut self) -> Serve {
        self.signal(Signal::TERM);
        let status = self.exited().await;
        assert!(status.success(), "{status} after SIGTERM: {}", self.logs.whole().await);
        self.serve.clone()
    }

    /// How it was started.
    pub fn serve(&self) -> &Serve {
        &self.serve
    }
}
