//! What a process holds, as the kernel sees it.

use std::fmt;
use std::path::Path;

use support::Server;

const MIB: f64 = 1024.0 * 1024.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
    pub(crate) threads: u64,
    pub(crate) file: u64,
    pub(crate) wal: u64,
}

impl Resources {
    pub(crate) fn of(samekey: &Server) -> Self {
        let place = format!("/proc/{}", samekey.pid());
        let status = std::fs::read_to_string(format!("{place}/status")).expect("its status");
        let figure = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
            line.split_whitespace().nth(1).and_then(|figure| figure.parse().ok()).expect("a figure")
        };
        let store = samekey.serve().store();
        Self {
            memory: figure("VmRSS:") * 1024,
            descriptors: std::fs::read_dir(format!("{place}/fd")).expect("its open files").count(),
            threads: figure("Threads:"),
            file: length(&store),
            wal: length(&store.with_extension("db-wal")),
        }
    }
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |seen| seen.len())
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / MIB;
        let Self { memory, descriptors, threads, file, wal } = *self;
        write!(f, "{:.1} MiB memory, {descriptors} descriptors, {threads} threads, ", mib(memory))?;
        write!(f, "file {:.1} MiB, WAL {:.1} MiB", mib(file), mib(wal))
    }
}
