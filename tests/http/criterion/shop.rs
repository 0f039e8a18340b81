//! The service behind samekey: it keeps books of what it really did, and can be asked about them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::upstream::Received;
use support::{Gate, Reply, Serve, Upstream};

/// What becomes of a command.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// It is carried out, and the answer arrives.
    Answered,
    /// The same, a moment later.
    Slow(Duration),
    /// The same, once the gate is open.
    Held(Gate),
    /// It is carried out, and the connection breaks before the answer.
    Lost,
    /// It is carried out, and no answer ever comes.
    Silent,
    /// It is turned down for good: nothing happens, and that is the answer.
    TurnedDown,
    /// The service is too busy: nothing happens.
    Busy,
    /// The connection breaks before anything happens.
    Dead,
}

/// What stands in the books under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    /// The ids of what was made. More than one is what must never be.
    Made(Vec<String>),
    /// Turned down for good.
    TurnedDown,
}

struct Books {
    entries: BTreeMap<String, Entry>,
    /// How often the command of a key arrived.
    commands: BTreeMap<String, usize>,
    fate: Box<dyn FnMut() -> Fate + Send>,
}

pub(super) struct Shop {
    pub(super) upstream: Upstream,
    books: Arc<Mutex<Books>>,
}

impl Shop {
    pub(super) async fn open() -> Self {
        let upstream = Upstream::start().await;
        let fate = Box::new(|| Fate::Answered);
        let books = Arc::new(Mutex::new(Books { entries: BTreeMap::new(), commands: BTreeMap::new(), fate }));
        let kept = Arc::clone(&books);
        upstream.script(move |received| kept.lock().expect("the books").reply(received));
        Self { upstream, books }
    }

    /// What becomes of each command from now on.
    pub(super) fn fate(&self, fate: Fate) {
        self.fates(move || fate.clone());
    }

    /// The same, drawn anew for each.
    pub(super) fn fates(&self, fate: impl FnMut() -> Fate + Send + 'static) {
        self.books.lock().expect("the books").fate = Box::new(fate);
    }

    /// What was made under this key: by the ledger of the service itself, not by what anybody was told.
    pub(super) fn made(&self, key: &str) -> Vec<String> {
        match self.books.lock().expect("the books").entries.get(key) {
            Some(Entry::Made(ids)) => ids.clone(),
            _ => Vec::new(),
        }
    }

    /// How often the service was asked to do it.
    pub(super) fn commands(&self, key: &str) -> usize {
        self.books.lock().expect("the books").commands.get(key).copied().unwrap_or_default()
    }

    /// Waits until something was made under this key.
    pub(super) async fn until_made(&self, key: &str) {
        support::patience::patiently("something made", async {
            while self.made(key).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    /// samekey in front of it, with two operations: orders are asked about when nobody knows how they ended, and
    /// parcels wait for a person.
    pub(super) fn serve(&self) -> Serve {
        Serve::before(&self.upstream)
            .config(OPERATIONS)
            .set("--actor", "header:X-User")
            .set("--lease", "2s")
            .set("--timeout", "4s")
            .set("--probe-after", "2s")
            .waits("100ms", "10s")
    }
}

const OPERATIONS: &str = r#"
[[operation]]
name = "orders.create"
method = "POST"
path = "/orders"
recovery = "probe"
[operation.probe]
url = "/by-key"

[[operation]]
name = "parcels.send"
method = "POST"
path = "/parcels"
"#;

impl Books {
    fn reply(&mut self, received: &Received) -> Reply {
        let key = received.key().unwrap_or_default();
        match (received.method.as_str(), received.target.as_str()) {
            ("GET", "/by-key") => self.told_of(&key),
            ("POST", path) => self.carry_out(path, key, received.number),
            _ => Reply::json(404, "{}"),
        }
    }

    /// As it would have answered then. The header proves that this is the probe's answer.
    fn told_of(&self, key: &str) -> Reply {
        match self.entries.get(key) {
            Some(Entry::Made(ids)) => answer(&ids[0]).header("Samekey-Outcome", "terminal"),
            Some(Entry::TurnedDown) => turned_down().header("Samekey-Outcome", "terminal"),
            None => Reply::json(404, "{}").header("Samekey-Outcome", "released"),
        }
    }

    fn carry_out(&mut self, path: &str, key: String, number: usize) -> Reply {
        *self.commands.entry(key.clone()).or_default() += 1;
        let fate = (self.fate)();
        match fate {
            Fate::Dead => return Reply::reset(),
            Fate::Busy => return Reply::json(503, r#"{"error":"busy"}"#).header("Retry-After", "1"),
            Fate::TurnedDown => {
                self.entries.insert(key, Entry::TurnedDown);
                return turned_down();
            }
            _ => {}
        }
        let id = format!("{}-{number}", &path[1..2]);
        match self.entries.entry(key).or_insert(Entry::Made(Vec::new())) {
            Entry::Made(ids) => ids.push(id.clone()),
            other => *other = Entry::Made(vec![id.clone()]),
        }
        match fate {
            Fate::Lost => Reply::reset(),
            Fate::Silent => Reply::silence(),
            Fate::Slow(pause) => answer(&id).after(pause),
            Fate::Held(gate) => answer(&id).gated(&gate),
            _ => answer(&id),
        }
    }
}

fn answer(id: &str) -> Reply {
    Reply::json(201, &format!(r#"{{"id":"{id}"}}"#)).header("Location", format!("/{id}")).header("ETag", "\"1\"")
}

fn turned_down() -> Reply {
    Reply::json(422, r#"{"error":"sold out"}"#)
}
