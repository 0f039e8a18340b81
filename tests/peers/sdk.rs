//! Running an SDK in a process of its own.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use support::patience::within;
use support::relay::Relay;
use tokio::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    Node,
    Python,
}

/// What a call gave its caller.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Made { id: String, amount: u64 },
    Raised { code: Option<String>, status: Option<u64>, message: String },
}

impl Given {
    #[track_caller]
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Made { id, .. } => id,
            Self::Raised { .. } => panic!("a charge, not {self:?}"),
        }
    }

    /// Asserts that the SDK raised, and that its error names this code of the contract.
    #[track_caller]
    pub(crate) fn raised(&self, status: u64, code: &str) {
        let Self::Raised { code: told, status: answered, message } = self else {
            panic!("an error that says {code}, not {self:?}")
        };
        assert_eq!(*answered, Some(status), "{message}");
        assert!(told.as_deref() == Some(code) || message.contains(code), "{code} in {told:?} {message}");
    }
}

/// One client process with its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    sdk: Sdk,
    retries: u32,
    timeout: Duration,
}

/// Those that are installed; in CI all must be.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
pub(crate) fn clients() -> Vec<Client> {
    let mut clients = Vec::new();
    for sdk in [Sdk::Node, Sdk::Python] {
        if sdk.installed() {
            clients.push(Client { sdk, retries: 2, timeout: Duration::from_secs(20) });
        } else {
            assert!(
                std::env::var_os("CI").is_none(),
                "Stripe's SDK for {sdk:?} is not installed: cargo verify does it"
            );
            eprintln!("skipped: Stripe's SDK for {sdk:?} is not installed: cargo verify does it");
        }
    }
    clients
}

impl Client {
    pub(crate) fn retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    pub(crate) fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// One charge, with a key of the SDK's own.
    pub(crate) async fn charge(self, relay: &Relay, amount: u64) -> Given {
        self.calls(relay, &format!(r#"[{{"amount":{amount}}}]"#)).await.remove(0)
    }

    /// The calls described in `peers/*/charge.*`.
    pub(crate) async fn calls(self, relay: &Relay, calls: &str) -> Vec<Given> {
        let mut command = match self.sdk {
            Sdk::Node => Command::new("node"),
            Sdk::Python => Command::new("python3"),
        };
        let script = match self.sdk {
            Sdk::Node => folder().join("node/charge.mjs"),
            Sdk::Python => folder().join("python/charge.py"),
        };
        command.arg(script).arg(relay.addr().port().to_string()).arg(self.retries.to_string());
        command.arg(self.timeout.as_millis().to_string()).arg(calls);
        command.env("PYTHONPATH", python_path()).env("PYTHONDONTWRITEBYTECODE", "1");
        // Other proxies on the machine have no business here.
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let run = command.spawn().expect("start the client").wait_with_output();
        let output = within(Duration::from_secs(120), "the client's end", run).await.expect("its output");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {said}", self.sdk);
        let given: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
        given.iter().map(given_from).collect()
    }
}

fn given_from(value: &Value) -> Given {
    let made = &value["made"];
    if made.is_object() {
        // The Node SDK takes any JSON without a member `error` for the object that was asked for, whatever the status.
        let id = made["id"].as_str().unwrap_or_else(|| panic!("a charge, not a refusal taken for one: {value}"));
        return Given::Made { id: id.into(), amount: made["amount"].as_u64().expect("an amount") };
    }
    let raised = &value["raised"];
    Given::Raised {
        code: raised["code"].as_str().map(str::to_owned),
        status: raised["status"].as_u64(),
        message: raised["message"].as_str().unwrap_or_default().into(),
    }
}

impl Sdk {
    fn installed(self) -> bool {
        match self {
            Self::Node => folder().join("node_modules/stripe").is_dir(),
            Self::Python => {
                let mut python = std::process::Command::new("python3");
                python.args(["-c", "import stripe"]).env("PYTHONPATH", python_path()).stderr(Stdio::null());
                python.status().is_ok_and(|status| status.success())
            }
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Where `cargo verify` puts the pinned packages.
fn python_path() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.ancestors().nth(3).expect("target/PROFILE/deps/TEST").join("tools/peers-python")
}
