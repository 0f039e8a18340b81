//! A server that lives as long as its measurement, and what it used of the processor.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// `USER_HZ`, which Linux fixes at 100 for everything below `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server; killed when dropped.
pub struct Child {
    process: process::Child,
    addr: SocketAddr,
    /// Kept open: a server whose output goes nowhere may end.
    _out: Option<BufReader<ChildStdout>>,
}

impl Child {
    /// One of the programs in `tests/bench`, which print where they listen.
    pub fn helper(program: &Path, words: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words);
        Self::announced(command, |line| line.trim().parse().ok())
    }

    /// `samekey serve`.
    pub fn samekey(command: Command) -> Result<Self> {
        Self::announced(command, |line| line.split_once(" listening http://")?.1.split([' ', ',']).next()?.parse().ok())
    }

    fn announced(mut command: Command, addr: impl Fn(&str) -> Option<SocketAddr>) -> Result<Self> {
        // A log that is written and thrown away costs what a log costs the process.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let name = crate::run::spelled(&command);
        let mut process = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        let mut line = String::new();
        let mut out = process.stdout.take().map(BufReader::new);
        if let Some(out) = &mut out {
            out.read_line(&mut line)?;
        }
        match addr(&line) {
            Some(addr) => Ok(Self { process, addr, _out: out }),
            None => {
                let _ = process.kill();
                anyhow::bail!("`{name}` did not say where it listens, but {line:?}")
            }
        }
    }

    /// A server that says nothing, at a known place.
    pub fn at(process: process::Child, addr: SocketAddr) -> Self {
        Self { process, addr, _out: None }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Of it and its children.
    pub fn processor_seconds(&self) -> Result<f64> {
        let id = self.process.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let mut ticks = 0;
        for id in [id.to_string()].iter().map(String::as_str).chain(children.split_whitespace()) {
            ticks += ticks_of(id).with_context(|| format!("cannot tell what process {id} used"))?;
        }
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }
}

fn ticks_of(id: &str) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().context("no figure")).sum()
}

impl Drop for Child {
    fn drop(&mut self) {
        // nginx passes a polite end on to its workers; the others need not be asked.
        let id = self.process.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        if asked.is_ok_and(|status| status.success()) {
            for _ in 0..50 {
                if matches!(self.process.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
