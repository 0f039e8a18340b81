//! A service that makes orders, may lose its answers, and can be asked which orders it made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use support::upstream::Received;
use support::{Reply, Serve, Upstream};

/// Where it can be asked.
pub(crate) const BY_KEY: &str = "/internal/orders/by-key";

/// What becomes of a request for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is made, and the answer arrives.
    Answered,
    /// It is made, and the connection breaks before the answer.
    Lost,
    /// The connection breaks before anything happens.
    Refused,
    /// It is made, and no answer ever comes.
    Silent,
}

type Script = Box<dyn Fn(&Received, Option<&str>) -> Reply + Send + Sync>;

struct Books {
    fate: Fate,
    /// By provider key, which is the same for the command and for the question about it: its key and its order.
    orders: BTreeMap<String, (String, String)>,
    probe: Script,
}

/// The service, with its own books.
pub(crate) struct Shop {
    pub(crate) upstream: Upstream,
    books: Arc<Mutex<Books>>,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let upstream = Upstream::start().await;
        let books = Arc::new(Mutex::new(Books {
            fate: Fate::Answered,
            orders: BTreeMap::new(),
            probe: Box::new(|_, order| honest(order)),
        }));
        let kept = Arc::clone(&books);
        upstream.script(move |received| kept.lock().expect("books").reply(received));
        Self { upstream, books }
    }

    /// What becomes of orders from now on.
    pub(crate) fn fate(&self, fate: Fate) -> &Self {
        self.books.lock().expect("books").fate = fate;
        self
    }

    /// How questions are answered from now on, with the order that was made, if one was.
    pub(crate) fn answers(&self, probe: impl Fn(&Received, Option<&str>) -> Reply + Send + Sync + 'static) -> &Self {
        self.books.lock().expect("books").probe = Box::new(probe);
        self
    }

    /// How many orders were made under this key.
    pub(crate) fn orders(&self, key: &str) -> usize {
        self.books.lock().expect("books").orders.values().filter(|(of, _)| of == key).count()
    }

    /// How often an order was asked for under this key.
    pub(crate) fn commands(&self, key: &str) -> usize {
        self.with_key(key).iter().filter(|received| received.method == "POST").count()
    }

    /// The questions about this key.
    pub(crate) fn questions(&self, key: &str) -> Vec<Received> {
        self.with_key(key).into_iter().filter(|received| received.method == "GET").collect()
    }

    fn with_key(&self, key: &str) -> Vec<Received> {
        self.upstream.ledger().all().into_iter().filter(|received| received.key().as_deref() == Some(key)).collect()
    }

    /// samekey in front of it, with short times: lease and timeout 1 s, settled from outside 1.5 s later.
    pub(crate) fn serve(&self, recovery: &str) -> Serve {
        self.behind(Serve::before(&self.upstream), recovery)
    }

    /// The same, for a server that reaches it otherwise.
    pub(crate) fn behind(&self, serve: Serve, recovery: &str) -> Serve {
        serve
            .config(&operation(recovery))
            .set("--lease", "1s")
            .set("--timeout", "1s")
            .set("--probe-after", "1500ms")
            .waits("100ms", "1s")
    }
}

/// `orders.create`, and how it recovers.
pub(crate) fn operation(recovery: &str) -> String {
    format!("[[operation]]\nname = \"orders.create\"\nmethod = \"POST\"\npath = \"/orders\"\n{recovery}\n")
}

/// How it recovers by asking the shop.
pub(crate) const PROBED: &str =
    "recovery = \"probe\"\n[operation.probe]\nurl = \"/internal/orders/by-key\"\ntimeout = \"1s\"";

/// As a service should answer: it says that it is the probe, and answers as it would have then.
pub(crate) fn honest(order: Option<&str>) -> Reply {
    match order {
        Some(order) => Reply::json(201, &format!(r#"{{"id":"{order}"}}"#))
            .header("Location", format!("/orders/{order}"))
            .header("Samekey-Outcome", "terminal"),
        None => Reply::json(404, "{}").header("Samekey-Outcome", "released"),
    }
}

impl Books {
    fn reply(&mut self, received: &Received) -> Reply {
        let provider_key = received.headers.one("samekey-provider-key").unwrap_or_default();
        if received.target.starts_with(BY_KEY) {
            let order = self.orders.get(&provider_key).map(|(_, order)| order.clone());
            return (self.probe)(received, order.as_deref());
        }
        if received.method != "POST" {
            return Reply::json(404, r#"{"error":"no such route"}"#);
        }
        if self.fate == Fate::Refused {
            return Reply::reset();
        }
        let order = format!("o-{}", received.number);
        // A second effect under one key must be seen, not forgotten.
        let entry =
            if self.orders.contains_key(&provider_key) { format!("{provider_key} {order}") } else { provider_key };
        self.orders.insert(entry, (received.key().unwrap_or_default(), order.clone()));
        match self.fate {
            Fate::Lost => Reply::reset(),
            Fate::Silent => Reply::silence(),
            _ => Reply::json(201, &format!(r#"{{"id":"{order}"}}"#)).header("Location", format!("/orders/{order}")),
        }
    }
}
