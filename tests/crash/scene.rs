//! The program as a process, its store, its provider, and a person who looks at what is left.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use samekey::store::SqliteOptions;
use samekey::{Actor, Record, Recovery, Settlement, State, Store};
use support::logs::Logs;
use support::patience::patiently;
use support::{Answer, Connection, Request};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::program::{self, PROVIDER, RECOVERY, STORE};
use crate::provider::Provider;

pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) provider: Provider,
    recovery: Recovery,
}

/// One process.
pub(crate) struct Program {
    child: Child,
    addr: SocketAddr,
}

impl Scene {
    pub(crate) async fn set(recovery: Recovery) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, provider: Provider::open().await, recovery }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("samekey.db")
    }

    pub(crate) async fn start(&self) -> Program {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["program::runs", "--exact", "--ignored", "--nocapture"]);
        command.env(STORE, self.store()).env(PROVIDER, self.provider.upstream.addr().to_string());
        command.env(
            RECOVERY,
            match self.recovery {
                Recovery::Manual => "manual",
                Recovery::Probe => "probe",
                Recovery::Rerun => "rerun",
            },
        );
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program");
        let logs = Logs::of(child.stderr.take().expect("its standard error"));
        let Some(line) = logs.line_with("listening ").await else { panic!("it did not start: {}", logs.text()) };
        let addr = line.rsplit(' ').next().and_then(|addr| addr.parse().ok()).expect("its address");
        Program { child, addr }
    }

    /// The person's own look at the program's store.
    pub(crate) async fn person(&self) -> Person<'_> {
        let store = Store::open(SqliteOptions::new(self.store()).unattended()).await.expect("the store");
        store.policies().add(program::policy(self.recovery));
        Person { store, provider: &self.provider }
    }
}

pub(crate) fn order(key: &str) -> Request {
    Request::post("/checkout").key(key).json(r#"{"sku":"tea"}"#)
}

impl Program {
    /// The answer, if one arrives.
    pub(crate) async fn send(&self, request: &Request) -> Option<Answer> {
        let mut connection = Connection::try_open(self.addr).await.ok()?;
        connection.request(request).await;
        connection.try_answer().await.ok()
    }

    pub(crate) fn spawn(&self, request: &Request) -> tokio::task::JoinHandle<Option<Answer>> {
        let (addr, request) = (self.addr, request.clone());
        tokio::spawn(async move {
            let mut connection = Connection::try_open(addr).await.ok()?;
            connection.request(&request).await;
            connection.try_answer().await.ok()
        })
    }

    fn pid(&self) -> Pid {
        let id = self.child.id().expect("a running process");
        Pid::from_raw(i32::try_from(id).expect("a process id")).expect("not 0")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal");
    }

    /// Waits until it has been stopped by a signal.
    pub(crate) async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id().expect("a running process"));
        patiently("a stopped process", async {
            loop {
                let text = std::fs::read_to_string(&stat).expect("how it is");
                if text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// Waits for its end by a signal.
    pub(crate) async fn killed(mut self) {
        let status = patiently("the end of the process", self.child.wait()).await.expect("its status");
        assert!(!status.success(), "it was killed: {status}");
    }

    pub(crate) async fn kill(self) {
        self.signal(Signal::KILL);
        self.killed().await;
    }
}

/// Somebody who looks at a record and at the provider, and settles what nobody else can.
pub(crate) struct Person<'a> {
    store: Store,
    provider: &'a Provider,
}

impl Person<'_> {
    pub(crate) async fn looks(&self, key: &str) -> Option<Record> {
        self.store.look(&Actor::new("ann"), "checkout", &program::key(key)).await.expect("a look")
    }

    /// Waits until the claim of a process that is gone has been judged.
    pub(crate) async fn judged(&self, key: &str) -> Option<Record> {
        patiently("a judgement", async {
            loop {
                match self.looks(key).await {
                    Some(record) if record.state == State::InProgress => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    other => return other,
                }
            }
        })
        .await
    }

    /// Waits until nothing can be under way any more.
    pub(crate) async fn looks_late(&self, key: &str) -> Record {
        patiently("the moment from which on it may be settled", async {
            loop {
                let record = self.judged(key).await.expect("a record");
                let late = record.settle_after.is_none_or(|moment| record.seen.looked_at() >= moment);
                if late {
                    return record;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    }

    /// By what the provider's books say.
    pub(crate) async fn settles(&self, key: &str) {
        let seen = self.looks_late(key).await;
        let made = |kind: &str| self.provider.made(kind, key);
        let settlement = match (made("charge").first(), made("ship").first()) {
            (Some(charge), Some(parcel)) => Settlement::Completed(program::answered(charge, parcel)),
            // What ended stands in the journal, and what is open is called again under the provider's own key.
            _ => Settlement::Released,
        };
        let settled = self.store.settle(seen.id, seen.seen, settlement, "ann", "asked the provider").await;
        settled.unwrap_or_else(|problem| panic!("{key} was not settled: {problem}"));
    }

    pub(crate) async fn leaves(self) {
        self.store.close().await;
    }
}
