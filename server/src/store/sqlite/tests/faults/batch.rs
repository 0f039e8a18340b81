//! Faults within a batch: one item of each kind in one transaction.

use samekey_core::claim::effects::{Call, CallEnd};
use samekey_core::claim::{Event, Holder};
use tokio::task::JoinHandle;

use super::*;
use crate::store::{EffectEnd, EffectStart, StoreError};

/// An answer of some pages.
const LARGE: &[u8] = &[b'x'; 40_000];

/// Steps from one fault to the next: fewer than a statement has that reads or writes a row.
const STRIDE: u32 = 13;

/// Whoever asks the store for something, and may ask again.
type Asker = Box<dyn Fn(Store) -> JoinHandle<Result<String, StoreError>> + Send + Sync>;

fn asker<F, T>(ask: impl Fn(Store) -> F + Send + Sync + 'static) -> Asker
where
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
    T: std::fmt::Debug + Send + 'static,
{
    Box::new(move |store| {
        let asked = ask(store);
        tokio::spawn(async move { asked.await.map(|told| format!("{told:?}")) })
    })
}

/// One of each, on records of this number: what all of them come to if nothing goes wrong is the same for each number.
async fn items(store: &Store, number: u32) -> Vec<Asker> {
    let policy = Policy::new("orders.create").quota(u32::MAX);
    let named = |what: &str| ask_under(&format!("{what}-{number}"), policy.clone());
    let start = |id, fence, name: &str, call| EffectStart {
        id,
        fence,
        name: name.into(),
        call: Call([call; 16]),
        input: None,
        provider_key: format!("p-{name}"),
    };
    let (fresh, twice, closed) = (named("fresh"), named("twice"), named("closed"));
    let other = Ask { holder: Holder::from_bytes([2; 16]), ..twice.clone() };
    let asks = ["finishing", "calling", "called", "unsure", "freed"].map(&named);
    let [finishing, calling, called, unsure, freed] = &asks;
    let ((finishing, finisher), (calling, caller), (called, callee), (unsure, doubter), (freed, freer), _) = tokio::join!(
        run(store, finishing),
        run(store, calling),
        run(store, called),
        run(store, unsure),
        run(store, freed),
        run(store, &twice),
    );
    store.start_effect(start(called, callee, "charge", 1), Arc::clone(&fresh.policy)).await.unwrap();
    let policy = Arc::clone(&fresh.policy);
    let said = move |store: Store, id, event: Event, response: Option<StoredResponse>| {
        let policy = Arc::clone(&policy);
        async move {
            let applied = store.apply(id, policy, event, response).await?;
            let record = applied.record.map(|record| (record.state, record.fence, record.status_code));
            Ok((record, applied.refused))
        }
    };
    let (finish, doubt, free) = (said.clone(), said.clone(), said);
    let begun = start(calling, caller, "charge", 1);
    let contract = Arc::clone(&fresh.policy);
    vec![
        asker(move |store| {
            let fresh = fresh.clone();
            async move { Ok(store.deliver(fresh).await?.say) }
        }),
        asker(move |store| {
            let other = other.clone();
            async move { Ok(store.deliver(other).await?.say) }
        }),
        asker(move |store| {
            let closed = closed.clone();
            async move { Ok(store.close_key(closed).await?.say) }
        }),
        asker(move |store| {
            let event = Event::Finish(finisher, Finish::Terminal(terminal(201)));
            finish(store, finishing, event, Some(StoredResponse { body: LARGE.into(), ..answer("") }))
        }),
        asker(move |store| {
            let (begun, contract) = (begun.clone(), Arc::clone(&contract));
            async move { store.start_effect(begun, contract).await }
        }),
        asker(move |store| {
            let result = Bytes::from_static(b"ch_1");
            let end = EffectEnd { id: called, fence: callee, name: "charge".into(), end: CallEnd::Done, result };
            async move { store.end_effect(end).await }
        }),
        asker(move |store| {
            let event = Event::Finish(doubter, Finish::Uncertain(samekey_core::claim::Reason::NoAnswer));
            doubt(store, unsure, event, None)
        }),
        asker(move |store| free(store, freed, Event::Finish(freer, Finish::Released { not_before: None }), None)),
    ]
}

/// All of it in one batch.
async fn at_once(bench: &Bench, items: &[Asker]) -> Vec<Result<String, StoreError>> {
    let paused = bench.pause();
    let mut asked = Vec::new();
    for item in items {
        asked.push(item(bench.store.clone()));
    }
    until(async || bench.store.queue().length == asked.len()).await;
    drop(paused);
    let mut told = Vec::new();
    for item in asked {
        told.push(item.await.unwrap());
    }
    told
}

/// What was told under a fault, and what is told to those who ask again after it, against what is told without one.
async fn holds(bench: &Bench, number: u32, fault: Fault, untouched: &[String]) -> bool {
    let items = items(&bench.store, number).await;
    bench.breaks(fault).await;
    let told = at_once(bench, &items).await;
    let happened = bench.mended().await;
    let lasting = matches!(fault, Fault::StepsFrom(_) | Fault::AcknowledgementsFrom(_) | Fault::Full(_));
    // Struck at its beginning, nothing of the batch was tried; struck later, each item was tried alone.
    let refused = told.iter().filter(|told| told.is_err()).count();
    assert!(lasting || refused == 0 || refused == items.len(), "{fault:?}: {told:?}");
    for (item, (told, untouched)) in items.iter().zip(told.iter().zip(untouched)) {
        if let Ok(told) = told {
            assert_eq!(told, untouched, "under {fault:?}");
        }
        // Asked once more, as whoever heard an error does: it is done now, or was all the time.
        let again = item(bench.store.clone()).await.unwrap().unwrap();
        assert_eq!(&again, untouched, "asked again after {fault:?}");
    }
    happened || told.iter().any(Result::is_err)
}

async fn untouched(bench: &Bench) -> Vec<String> {
    let items = items(&bench.store, 0).await;
    at_once(bench, &items).await.into_iter().map(Result::unwrap).collect()
}

/// For n = 0, 1, … until nothing goes wrong any more; how far that was. Several stores share the work.
async fn until_untouched(fault: fn(u32) -> Fault, stride: u32) -> u32 {
    const SHARES: u32 = 4;
    let shares = (0..SHARES).map(async |share| {
        let bench = Bench::swift().await;
        let well = untouched(&bench).await;
        let mut n = share * stride;
        while holds(&bench, n + 1, fault(n), &well).await {
            n += SHARES * stride;
        }
        n
    });
    futures_util::future::join_all(shares).await.into_iter().min().unwrap()
}

#[tokio::test]
async fn a_step_that_fails_once_is_nobodys_loss() {
    let steps = until_untouched(|n| Fault::Step(n + 1), STRIDE).await;
    assert!(steps > 500, "{steps} steps");
}

#[tokio::test]
async fn steps_that_go_on_failing_leave_nothing_half_done() {
    let steps = until_untouched(|n| Fault::StepsFrom(n + 1), STRIDE).await;
    assert!(steps > 500, "{steps} steps");
}

#[tokio::test]
async fn a_commit_that_is_refused_is_nobodys_loss() {
    assert_eq!(until_untouched(Fault::Commit, 1).await, 1);
}

#[tokio::test]
async fn a_commit_that_is_not_acknowledged_is_read_back() {
    assert_eq!(until_untouched(Fault::Acknowledgement, 1).await, 1);
}

#[tokio::test]
async fn no_commit_is_acknowledged_for_a_while() {
    let bench = Bench::swift().await;
    let well = untouched(&bench).await;
    assert!(holds(&bench, 1, Fault::AcknowledgementsFrom(0), &well).await);
}

#[tokio::test]
async fn a_disk_that_is_full_at_any_page_leaves_nothing_half_done() {
    let pages = until_untouched(Fault::Full, 1).await;
    assert!(pages > 5, "{pages} pages");
}
