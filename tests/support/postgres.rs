//! A real PostgreSQL in a temporary folder, run by an unprivileged user, stopped when it is dropped.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// Names a server that runs already, for a whole suite: its URL without a database's name.
const GIVEN: &str = "SAMEKEY_TEST_POSTGRES";

/// A server, or one that somebody else runs.
#[derive(Debug)]
pub struct Postgres {
    url: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    folder: TempDir,
    binaries: PathBuf,
    port: u16,
    settings: String,
}

impl Postgres {
    /// The server of this process, started if nobody uses it yet. `None` where PostgreSQL is not installed, which is
    /// said aloud; in CI that is a failure.
    pub fn of_this_process() -> Option<Arc<Self>> {
        static SERVER: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = server.upgrade() {
            return Some(server);
        }
        let started = match std::env::var(GIVEN) {
            Ok(url) => Arc::new(Self { url, own: None }),
            Err(_) => Arc::new(Self::start(&[])?),
        };
        *server = Arc::downgrade(&started);
        Some(started)
    }

    /// A server of its own, with these settings.
    pub fn start(settings: &[&str]) -> Option<Self> {
        let Some(binaries) = binaries() else {
            let why = "PostgreSQL is not installed: apt-get install --no-install-recommends postgresql-15";
            assert!(std::env::var_os("CI").is_none(), "{why}");
            said_aloud(why);
            return None;
        };
        let folder = tempfile::Builder::new().prefix("samekey-postgres-").tempdir().expect("a temporary folder");
        if let Some((user, group)) = unprivileged() {
            chown(folder.path(), Some(user), Some(group)).expect("the folder is given to the user postgres");
        }
        let port = free_port();
        let settings: String = settings.iter().map(|setting| format!(" -c {setting}")).collect();
        let own = Own { folder, binaries, port, settings };
        own.must("initdb", &["-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", "data"]);
        own.start();
        Some(Self { url: format!("postgres://postgres@127.0.0.1:{port}"), own: Some(own) })
    }

    /// Where a database of this server is.
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.own.as_ref().expect("a server of its own").port
    }

    /// Where its data are.
    pub fn data(&self) -> PathBuf {
        self.own.as_ref().expect("a server of its own").folder.path().join("data")
    }

    /// Kills it as a crash would, and starts it again.
    pub fn crash(&self) {
        self.stop("immediate");
        self.start_again();
    }

    /// Stops it: `fast` or `immediate`.
    pub fn stop(&self, mode: &str) {
        self.own.as_ref().expect("a server of its own").must("pg_ctl", &["-D", "data", "-w", "-m", mode, "stop"]);
    }

    /// Starts it after a stop.
    pub fn start_again(&self) {
        self.own.as_ref().expect("a server of its own").start();
    }

    /// Runs one of PostgreSQL's programs in the server's folder, as its user.
    pub fn program(&self, name: &str) -> Command {
        self.own.as_ref().expect("a server of its own").program(name)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        // Stopped already: there is nothing to stop.
        let _ = stop.args(["-D", "data", "-w", "-m", "immediate", "stop"]).stderr(Stdio::null()).output();
    }
}

impl Own {
    fn program(&self, name: &str) -> Command {
        let binary = self.binaries.join(name);
        let mut command = match unprivileged() {
            None => Command::new(binary),
            Some(_) => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(binary);
                command
            }
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn must(&self, name: &str, arguments: &[&str]) {
        // Files, not pipes: the server that pg_ctl starts keeps what it inherits.
        let log = std::fs::File::create(self.folder.path().join("said")).expect("a file in the folder");
        let mut command = self.program(name);
        command.args(arguments).stdout(log.try_clone().expect("one file twice")).stderr(log);
        let ended = command.status().expect("PostgreSQL's programs start");
        let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        assert!(ended.success(), "{name} {arguments:?}: {said}{log}");
    }

    fn start(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=200{}",
            self.port,
            self.folder.path().display(),
            self.settings
        );
        self.must("pg_ctl", &["-D", "data", "-w", "-t", "60", "-o", &options, "-l", "log", "start"]);
    }
}

#[allow(clippy::print_stderr, reason = "a test that did not run must not look like one that passed")]
fn said_aloud(why: &str) {
    eprintln!("skipped: {why}");
}

/// PostgreSQL refuses to run as root; Debian's package brings a user for it.
fn unprivileged() -> Option<(u32, u32)> {
    let id = |flag: &str, user: &[&str]| -> Option<u32> {
        let said = Command::new("id").arg(flag).args(user).output().ok()?;
        String::from_utf8(said.stdout).ok()?.trim().parse().ok()
    };
    if id("-u", &[])? != 0 {
        return None;
    }
    Some((id("-u", &["postgres"])?, id("-g", &["postgres"])?))
}

/// The newest version that is installed.
fn binaries() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|path: &PathBuf| Path::new(path).join("postgres").exists())
        .collect();
    versions.sort();
    versions.pop()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").port()
}
