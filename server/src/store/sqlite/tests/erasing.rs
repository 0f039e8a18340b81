//! What is left of an actor who was erased.

use super::*;
use samekey_core::claim::State;
use samekey_core::problem::Code;

/// Everything that lies in the store's folder.
fn bytes_of(bench: &Bench) -> Vec<u8> {
    let files = std::fs::read_dir(bench.directory.path()).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

fn holds(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

const ANN: &str = "ann-marker-5f1d";
const SECRETS: [&str; 4] = [ANN, "answer-marker-77", "result-marker-a3", "request-marker-0c"];

fn of_ann(key: &str) -> Ask {
    Ask { actor: Actor::new(ANN), request_id: Some("request-marker-0c".into()), ..ask(key) }
}

async fn done(store: &Store, ask: &Ask) -> RecordId {
    let (id, fence) = run(store, ask).await;
    let end = Terminal { result_id: Some("result-marker-a3".into()), ..terminal(201) };
    let event = Event::Finish(fence, Finish::Terminal(end));
    let response = StoredResponse { body: Bytes::from("answer-marker-77".repeat(2000)), ..answer("") };
    store.apply(id, Arc::clone(&ask.policy), event, Some(response)).await.unwrap();
    id
}

#[tokio::test]
async fn nothing_of_an_erased_actor_is_in_the_files_and_their_keys_run_no_second_time() {
    let bench = Bench::new().await;
    let (finished, plain) = (of_ann(&minted(START)), of_ann("order-17"));
    done(&bench.store, &finished).await;
    done(&bench.store, &plain).await;
    done(&bench.store, &ask("another")).await;
    assert!(SECRETS.iter().all(|secret| holds(&bytes_of(&bench), secret)), "the search finds what is there");

    let erased = bench.store.erase(&Actor::new(ANN)).await.unwrap();
    assert_eq!((erased.records, erased.running, erased.scrubbed), (2, 0, true));
    let left = bytes_of(&bench);
    assert!(!holds(&left, ANN), "the store is still open");
    assert!(!holds(&left, "request-marker-0c"));
    assert!(holds(&left, "answer-marker-77"), "of somebody else");
    for ask in [&finished, &plain] {
        let told = bench.store.deliver(ask.clone()).await.unwrap();
        assert_eq!(told.say, Say::Refuse(Code::ResponseNotStored));
        let record = told.found.unwrap().record;
        assert_eq!((record.state, record.status_code, record.result_id), (State::Expired, Some(201), None));
        assert_eq!(bench.store.find(ask).await.unwrap().unwrap().record.state, State::Expired);
        let other = Ask { fingerprint: fingerprint(&ask.profile, 2), ..ask.clone() };
        assert_eq!(bench.store.deliver(other).await.unwrap().say, Say::Refuse(Code::KeyPayloadMismatch));
    }
    assert_eq!(bench.store.deliver(ask("another")).await.unwrap().say, Say::Replay);
    assert!(matches!(bench.store.deliver(ask("order-17")).await.unwrap().say, Say::Run(_)), "somebody else's key");
    assert_eq!(bench.store.erase(&Actor::new(ANN)).await.unwrap().records, 0);
}

#[tokio::test]
async fn a_running_command_is_left_alone_until_it_ended() {
    let bench = Bench::new().await;
    let running = of_ann("k");
    let (id, fence) = run(&bench.store, &running).await;
    let erased = bench.store.erase(&Actor::new(ANN)).await.unwrap();
    assert_eq!((erased.records, erased.running), (0, 1));
    finish(&bench.store, &running, id, fence).await;
    assert_eq!(bench.store.deliver(running.clone()).await.unwrap().say, Say::Replay);
    assert_eq!(bench.store.erase(&Actor::new(ANN)).await.unwrap().records, 1);
    assert_eq!(bench.store.deliver(running).await.unwrap().say, Say::Refuse(Code::ResponseNotStored));
}

#[tokio::test]
async fn an_erased_caller_goes_on_with_a_key_that_may_run() {
    let bench = Bench::new().await;
    let asked = of_ann("k");
    let (id, fence) = run(&bench.store, &asked).await;
    let event = Event::Finish(fence, Finish::Released { not_before: None });
    bench.store.apply(id, Arc::clone(&asked.policy), event, None).await.unwrap();
    assert_eq!(bench.store.erase(&Actor::new(ANN)).await.unwrap().records, 1);
    let told = bench.store.deliver(asked.clone()).await.unwrap();
    let Say::Run(fence) = told.say else { panic!("{told:?}") };
    assert_eq!(fence.attempt, 2, "the attempts go on");
    finish(&bench.store, &asked, id, fence).await;
    assert_eq!(bench.store.deliver(asked).await.unwrap().say, Say::Replay);
    assert_eq!(count(&bench.path(), "idempotency_keys"), 1);
}

#[tokio::test]
async fn another_process_learns_at_once_that_somebody_was_erased() {
    let bench = Bench::new().await;
    let other = bench.second().await;
    let asked = of_ann("k");
    done(&bench.store, &asked).await;
    assert_eq!(other.deliver(asked.clone()).await.unwrap().say, Say::Replay);
    crate::store::erase(&bench.path(), &Actor::new(ANN)).unwrap();
    for store in [&other, &bench.store] {
        assert_eq!(store.deliver(asked.clone()).await.unwrap().say, Say::Refuse(Code::ResponseNotStored));
    }
    assert!(!holds(&bytes_of(&bench), ANN));
}

#[tokio::test]
async fn what_was_swept_before_leaves_no_trace_either() {
    let bench = Bench::new().await;
    for number in 0..20 {
        done(&bench.store, &of_ann(&format!("k{number}"))).await;
    }
    bench.hands.advance(Policy::new("x").retention);
    while bench.store.sweep().await.unwrap().more {}
    assert!(holds(&bytes_of(&bench), "answer-marker-77"), "free pages and the WAL keep what was there");
    let erased = bench.store.erase(&Actor::new(ANN)).await.unwrap();
    assert_eq!((erased.records, erased.scrubbed), (20, true));
    let left = bytes_of(&bench);
    for secret in SECRETS {
        assert!(!holds(&left, secret), "{secret}");
    }
}
