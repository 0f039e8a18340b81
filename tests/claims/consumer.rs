//! The worked examples: a queue consumer in Python that is killed at any moment, and a cron job in shell.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Router, body::Bytes};
use serde_json::{Value, json};
use support::patience::{patiently, within};
use tokio::process::{Child, Command};

use crate::command::asking;
use crate::shop::Shop;

const OPERATIONS: &str = r#"
[[operation]]
name = "invoice.send"
recovery = "rerun"

[[operation]]
name = "letter.print"

[[operation]]
name = "cron.job"
"#;

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/examples").join(file)
}

/// Random numbers that a failure names.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What happened in the world, by the id of the message.
#[derive(Default)]
struct World {
    mails: BTreeMap<String, u32>,
    letters: BTreeMap<String, u32>,
    /// The mails' provider remembers its keys.
    remembered: BTreeMap<String, Value>,
    calls: u64,
}

type Provider = Arc<Mutex<World>>;

/// Takes its time, and now and then loses its answer after it did what it was asked.
async fn answer(provider: &Provider, made: Value) -> (StatusCode, String) {
    let calls = provider.lock().expect("the world").calls;
    tokio::time::sleep(Duration::from_millis(calls * 37 % 120)).await;
    if calls.is_multiple_of(7) {
        (StatusCode::BAD_GATEWAY, "{}".into())
    } else {
        (StatusCode::CREATED, made.to_string())
    }
}

async fn mails(State(provider): State<Provider>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let key = headers["idempotency-key"].to_str().expect("a key").to_owned();
    let body: Value = serde_json::from_slice(&body).expect("a message");
    let made = {
        let mut world = provider.lock().expect("the world");
        world.calls += 1;
        let made = json!({ "id": format!("mail-{}", world.remembered.len()) });
        match world.remembered.get(&key) {
            Some(made) => made.clone(),
            None => {
                *world.mails.entry(body["id"].to_string()).or_default() += 1;
                world.remembered.insert(key, made.clone());
                made
            }
        }
    };
    answer(&provider, made).await
}

async fn letters(State(provider): State<Provider>, body: Bytes) -> (StatusCode, String) {
    let body: Value = serde_json::from_slice(&body).expect("a message");
    {
        let mut world = provider.lock().expect("the world");
        world.calls += 1;
        *world.letters.entry(body["id"].to_string()).or_default() += 1;
    }
    answer(&provider, json!({ "printed": true })).await
}

async fn provider() -> (Provider, String) {
    let world = Provider::default();
    let routes = Router::new().route("/mails", post(mails)).route("/letters", post(letters)).with_state(world.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (world, url)
}

/// A queue that delivers each message at least once.
struct Queue(PathBuf);

impl Queue {
    fn new(folder: PathBuf) -> Self {
        for name in ["inbox", "taken", "dead"] {
            fs::create_dir_all(folder.join(name)).expect("a queue");
        }
        Self(folder)
    }

    fn send(&self, operation: &str, id: &str) {
        let message = json!({ "tenant": "ann", "operation": operation, "id": id, "body": { "id": id, "to": "ann" } });
        // Whole or not at all.
        let draft = self.0.join(format!("{id}.draft"));
        fs::write(&draft, message.to_string()).expect("a message");
        fs::rename(draft, self.0.join("inbox").join(id)).expect("a message");
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(folder)).expect("a queue");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("a message").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whoever took a message so long ago is not waited for.
    fn deliver_again(&self, after: Duration) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
        for name in self.names("taken") {
            let path = self.0.join("taken").join(&name);
            let Ok(about) = fs::metadata(&path) else { continue };
            let taken = u128::try_from(about.mtime()).unwrap_or(0) * 1000
                + u128::try_from(about.mtime_nsec()).unwrap_or(0) / 1_000_000;
            if now.saturating_sub(taken) > after.as_millis() {
                // Acknowledged in this very moment, perhaps.
                let _ = fs::rename(path, self.0.join("inbox").join(&name));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.names("inbox").is_empty() && self.names("taken").is_empty()
    }
}

fn consumer(shop: &Shop, queue: &Queue, provider: &str) -> Child {
    Command::new("python3")
        .arg(example("queue_consumer/consumer.py"))
        .arg(&queue.0)
        .env("SAMEKEY", format!("http://{}", shop.samekey.admin))
        .env("SAMEKEY_TOKEN", &shop.token)
        .env("PROVIDER", provider)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .expect("python3")
}

const MESSAGES: usize = 12;
const KILLS: usize = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_killed_at_any_moment_handles_each_message_once() {
    let shop = Shop::with(|serve| {
        let short = serve.set("--lease", "1s").set("--timeout", "3s").set("--probe-after", "4s");
        short.config(OPERATIONS)
    })
    .await;
    let (world, url) = provider().await;
    let queue = Queue::new(shop.samekey.serve().folder().join("queue"));
    for number in 0..MESSAGES {
        queue.send("invoice.send", &format!("mail-{number:02}"));
        queue.send("letter.print", &format!("letter-{number:02}"));
    }
    let seed = 0x5eed_0017;
    let mut dice = Dice(seed);
    let mut consumers = [consumer(&shop, &queue, &url), consumer(&shop, &queue, &url)];
    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(80 + dice.roll(400))).await;
        let victim = &mut consumers[kill % 2];
        victim.kill().await.expect("a kill");
        *victim = consumer(&shop, &queue, &url);
        queue.deliver_again(Duration::from_millis(700));
        // Delivered twice for no reason: two consumers may hold it.
        if dice.roll(3) == 0
            && let Some(name) = queue.names("taken").first()
        {
            let _ = fs::rename(queue.0.join("taken").join(name), queue.0.join("inbox").join(name));
        }
    }
    within(Duration::from_secs(90), "the end of the queue", async {
        while !queue.is_empty() {
            queue.deliver_again(Duration::from_millis(700));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let dead = queue.names("dead");
    let uncertain = asking(&shop, &["list", "--state", "uncertain", "--limit", "100", "--json"]).await.json();
    let world = world.lock().expect("the world");
    assert_eq!(world.mails.len(), MESSAGES, "seed {seed:#x}: every mail was sent: {:?}", world.mails);
    assert!(world.mails.values().all(|sent| *sent == 1), "seed {seed:#x}: each of them one time: {:?}", world.mails);
    assert!(world.letters.values().all(|printed| *printed == 1), "seed {seed:#x}: never twice: {:?}", world.letters);
    assert!(dead.iter().all(|name| name.starts_with("letter-")), "seed {seed:#x}: mails are never given up: {dead:?}");
    let printed = world.letters.len();
    assert!(
        printed + dead.len() >= MESSAGES,
        "seed {seed:#x}: printed, or for a person to look at: {printed} {dead:?}"
    );
    let open = uncertain["records"].as_array().map_or(0, Vec::len);
    assert_eq!(open, dead.len(), "seed {seed:#x}: whoever looks after them finds them: {uncertain}");
    assert!(!dead.is_empty() && printed < MESSAGES + dead.len(), "seed {seed:#x}: some answers were lost: {dead:?}");
    let log = shop.samekey.logs.text();
    assert!(!log.contains("panicked"), "{log}");
}

/// `once.sh`, with a key and a command.
async fn once(shop: &Shop, key: &str, command: &str) -> (i32, String) {
    let run = Command::new("sh")
        .arg(example("cron/once.sh"))
        .args([key, "sh", "-c", command])
        .current_dir(shop.samekey.serve().folder())
        .env("SAMEKEY", format!("http://{}", shop.samekey.admin))
        .env("SAMEKEY_TOKEN_FILE", shop.samekey.token_file())
        .stdin(Stdio::null())
        .output();
    let output = patiently("once.sh", run).await.expect("sh");
    (output.status.code().expect("an exit"), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_cron_job_on_two_hosts_runs_on_one_of_them() {
    let shop = Shop::with(|serve| serve.config(OPERATIONS)).await;
    let ran = shop.samekey.serve().folder().join("ran");
    let lines = || fs::read_to_string(&ran).unwrap_or_default().lines().count();
    let job = "echo ran >> ran; sleep 1";
    let (one, other) = tokio::join!(once(&shop, "report-1", job), once(&shop, "report-1", job));
    assert_eq!(lines(), 1, "{one:?} {other:?}");
    let mut ends = [one, other];
    ends.sort();
    assert_eq!(ends[0].0, 0, "{ends:?}");
    assert!(ends[1].0 == 75 && ends[1].1.contains("operation_in_progress"), "{ends:?}");
    let again = once(&shop, "report-1", job).await;
    assert!(again.0 == 0 && again.1.contains("ran before"), "{again:?}");
    let other = once(&shop, "report-1", "echo other >> ran").await;
    assert!(other.0 == 75 && other.1.contains("key_payload_mismatch"), "{other:?}");
    assert_eq!(lines(), 1);
    let nothing = once(&shop, "report-2", "test -f ready || exit 75; echo ran >> ran").await;
    assert_eq!(nothing.0, 75, "{nothing:?}");
    fs::write(shop.samekey.serve().folder().join("ready"), "").expect("a file");
    let ready = once(&shop, "report-2", "test -f ready || exit 75; echo ran >> ran").await;
    assert_eq!((ready.0, lines()), (0, 2), "it had done nothing, so it may run: {ready:?}");
    let broken = once(&shop, "report-3", "echo half >> ran; exit 3").await;
    assert_eq!(broken.0, 3, "{broken:?}");
    let unknown = once(&shop, "report-3", "echo half >> ran; exit 3").await;
    assert!(unknown.0 == 75 && unknown.1.contains("outcome_uncertain"), "{unknown:?}");
    assert_eq!(lines(), 3);
    let found = asking(&shop, &["show", "3"]).await.well();
    assert!(found.contains("why: the command ended with 3"), "{found}");
    let (code, said) = once(&shop, "no/key", "true").await;
    assert!(code == 64 && said.contains("letters"), "{said}");
}
