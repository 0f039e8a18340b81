//! A provider on real sockets: it charges and ships, remembers the keys it was given, and is not always well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use support::upstream::Received;
use support::{Gate, Reply, Upstream};

/// How it behaves when it is called for the first time under a key. A key that it knows gets what was made then.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// It makes it and answers.
    Honest,
    /// It makes it, and answers a moment later.
    Slow,
    /// It charges, and the connection breaks before the answer.
    LosesCharge,
    /// It ships, and the connection breaks before the answer.
    LosesParcel,
    /// It charges, answers not a word, and cannot be reached any more.
    CrashesAfterCharge,
    /// It ships, answers not a word, and cannot be reached any more.
    CrashesAfterParcel,
    /// It does not ship, and says so.
    DeclinesParcel,
    /// It has charged or shipped, and answers once the gate is open.
    Withholds(&'static str, Gate),
}

#[derive(Debug, Default)]
struct Books {
    /// By what was asked for and the key it was asked under.
    made: BTreeMap<(String, String), Made>,
    /// Each call, by what was asked for and for which order.
    calls: Vec<(String, String)>,
}

#[derive(Debug)]
struct Made {
    order: String,
    id: String,
}

pub(crate) struct Provider {
    pub(crate) upstream: Upstream,
    books: Arc<Mutex<Books>>,
    behaviour: Arc<Mutex<Behaviour>>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panicked with it")
}

impl Provider {
    pub(crate) async fn open() -> Self {
        let upstream = Upstream::start().await;
        let (books, behaviour) = (Arc::<Mutex<Books>>::default(), Arc::new(Mutex::new(Behaviour::Honest)));
        let (kept, now) = (Arc::clone(&books), Arc::clone(&behaviour));
        upstream.script(move |received| open(&kept).reply(received, &open(&now)));
        Self { upstream, books, behaviour }
    }

    pub(crate) fn behaves(&self, behaviour: Behaviour) {
        *open(&self.behaviour) = behaviour;
    }

    /// What was really made of this kind for this order.
    pub(crate) fn made(&self, kind: &str, order: &str) -> Vec<String> {
        let books = open(&self.books);
        let of = books.made.iter().filter(|((of, _), made)| of == kind && made.order == order);
        of.map(|(_, made)| made.id.clone()).collect()
    }

    /// How often it was asked for, under whichever key.
    pub(crate) fn calls(&self, kind: &str, order: &str) -> usize {
        open(&self.books).calls.iter().filter(|(of, by)| of == kind && by == order).count()
    }

    /// Waits until it was asked for.
    pub(crate) async fn called(&self, kind: &str, order: &str) {
        support::patience::patiently("a call of the provider", async {
            while self.calls(kind, order) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

impl Books {
    fn reply(&mut self, received: &Received, behaviour: &Behaviour) -> Reply {
        let kind = received.target.trim_start_matches('/').to_owned();
        let under = (kind.clone(), received.key().expect("a key of the provider's own"));
        if received.method == "GET" {
            return match self.made.get(&under) {
                Some(made) => answer(&made.id),
                None => Reply::json(404, "{}"),
            };
        }
        let order = String::from_utf8(received.body.clone()).expect("an order");
        self.calls.push((kind.clone(), order.clone()));
        if let Some(made) = self.made.get(&under) {
            return answer(&made.id);
        }
        if kind == "ship" && matches!(behaviour, Behaviour::DeclinesParcel) {
            return Reply::json(503, "{}");
        }
        let id = format!("{kind}-{}", received.number);
        self.made.insert(under, Made { order, id: id.clone() });
        match (behaviour, kind.as_str()) {
            (Behaviour::LosesCharge | Behaviour::CrashesAfterCharge, "charge") => Reply::reset(),
            (Behaviour::LosesParcel | Behaviour::CrashesAfterParcel, "ship") => Reply::reset(),
            (Behaviour::Slow, _) => answer(&id).after(Duration::from_millis(150)),
            (Behaviour::Withholds(what, gate), kind) if *what == kind => answer(&id).gated(gate),
            _ => answer(&id),
        }
    }
}

fn answer(id: &str) -> Reply {
    Reply::json(200, &format!(r#""{id}""#))
}
