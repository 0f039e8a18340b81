use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn json(status: u16, body: &str) -> Answered {
    Answered { status: StatusCode::from_u16(status).unwrap(), body: Bytes::copy_from_slice(body.as_bytes()) }
}

fn name(actor: Option<Actor>) -> Option<String> {
    actor.map(|actor| actor.as_str().to_owned())
}

/// Counts the questions; each takes long enough for others to come meanwhile.
fn counting(answer: Result<Answered, String>) -> (Arc<AtomicUsize>, Whoami) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let ask = move |_| -> BoxFuture<'static, Result<Answered, String>> {
        count.fetch_add(1, Ordering::SeqCst);
        let answer = answer.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer
        })
    };
    (asked, Whoami::new("/id", Arc::new(ask)))
}

#[test]
fn what_an_answer_means() {
    for (answered, expected) in [
        (Ok(json(200, r#"{"id":"ann"}"#)), Ok(Some("ann"))),
        (Ok(json(200, r#"{"id":17}"#)), Ok(Some("17"))),
        (Ok(json(200, r#"{"id":null}"#)), Ok(None)),
        (Ok(json(200, r#"{"id":""}"#)), Ok(None)),
        (Ok(json(200, r#"{"id":"a\nb"}"#)), Ok(None)),
        (Ok(json(200, r#"{"id":1.5}"#)), Ok(None)),
        (Ok(json(200, r#"{"id":{"id":"ann"}}"#)), Ok(None)),
        (Ok(json(200, r#"{}"#)), Ok(None)),
        (Ok(json(200, "null")), Ok(None)),
        (Ok(json(401, r#"{"id":"ann"}"#)), Ok(None)),
        (Ok(json(403, "")), Ok(None)),
        (Ok(json(404, "")), Ok(None)),
        (Ok(json(200, "<html>")), Err(())),
        (Ok(json(201, r#"{"id":"ann"}"#)), Err(())),
        (Ok(json(204, "")), Err(())),
        (Ok(json(302, r#"{"id":"ann"}"#)), Err(())),
        (Ok(json(429, "")), Err(())),
        (Ok(json(500, r#"{"id":"ann"}"#)), Err(())),
        (Err("silence".into()), Err(())),
    ] {
        let shown = format!("{answered:?}");
        assert_eq!(meaning(answered, "/id").map(name), expected.map(|id| id.map(str::to_owned)), "{shown}");
    }
}

#[tokio::test]
async fn a_hundred_at_once_ask_once() {
    let (asked, whoami) = counting(Ok(json(200, r#"{"id":"ann"}"#)));
    let all = (0..100).map(|_| whoami.who([1; 32], HeaderMap::new()));
    for said in futures_util::future::join_all(all).await {
        assert_eq!(name(said.unwrap()).as_deref(), Some("ann"));
    }
    whoami.who([1; 32], HeaderMap::new()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    whoami.who([2; 32], HeaderMap::new()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "other credentials are another question");
}

#[tokio::test]
async fn whoever_asked_first_may_hang_up() {
    let (asked, whoami) = counting(Ok(json(200, r#"{"id":"ann"}"#)));
    let first = tokio::time::timeout(Duration::from_millis(5), whoami.who([1; 32], HeaderMap::new()));
    assert!(first.await.is_err());
    assert_eq!(name(whoami.who([1; 32], HeaderMap::new()).await.unwrap()).as_deref(), Some("ann"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failure_is_told_to_all_who_wait_and_not_remembered() {
    let (asked, whoami) = counting(Ok(json(500, r#"{"id":"ann"}"#)));
    for round in 1..=2 {
        let both = futures_util::future::join_all((0..2).map(|_| whoami.who([1; 32], HeaderMap::new()))).await;
        for said in both {
            let problem = said.unwrap_err();
            assert_eq!(problem.code, Code::StoreUnavailable);
            assert!(problem.retry_after.is_some());
        }
        assert_eq!(asked.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn a_question_that_panics_is_no_trap_for_the_next() {
    let ask = |_| -> BoxFuture<'static, Result<Answered, String>> { Box::pin(async { panic!("a bug") }) };
    let whoami = Whoami::new("/id", Arc::new(ask));
    for _ in 0..2 {
        assert!(whoami.who([1; 32], HeaderMap::new()).await.is_err());
    }
    let cache = lock(&whoami.cache);
    assert_eq!((cache.asking, cache.slots.len()), (0, 0));
}

fn cache(now: Instant) -> Cache {
    Cache { slots: HashMap::new(), asking: 0, swept: now }
}

fn is_asked(cache: &mut Cache, hash: [u8; 32], now: Instant) -> bool {
    matches!(cache.look(hash, now).unwrap(), Look::Ask(_))
}

#[test]
fn somebody_is_believed_for_ten_seconds_and_nobody_for_one() {
    let asked = Instant::now();
    for (said, believed) in [
        (Ok(Some(Actor::new("ann"))), Duration::from_secs(10)),
        (Ok(None), Duration::from_secs(1)),
        (Err(()), Duration::ZERO),
    ] {
        let mut cache = cache(asked);
        assert!(is_asked(&mut cache, [1; 32], asked));
        cache.keep([1; 32], &said, asked, asked);
        if believed > Duration::ZERO {
            let before = asked + believed - Duration::from_millis(1);
            assert!(!is_asked(&mut cache, [1; 32], before), "{said:?}");
        }
        assert!(is_asked(&mut cache, [1; 32], asked + believed), "{said:?}: from the moment it was asked");
    }
}

fn hash(number: usize) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    hash
}

#[test]
fn made_up_credentials_do_not_crowd_out_those_who_are_signed_in() {
    let now = Instant::now();
    let mut cache = cache(now);
    for number in 0..MAX_REMEMBERED {
        assert!(is_asked(&mut cache, hash(number), now));
        cache.keep(hash(number), &Ok(None), now, now);
    }
    assert_eq!(cache.slots.len(), MAX_REMEMBERED / 2);
    let ann = hash(usize::MAX);
    assert!(is_asked(&mut cache, ann, now));
    cache.keep(ann, &Ok(Some(Actor::new("ann"))), now, now);
    assert!(!is_asked(&mut cache, ann, now), "there is room for somebody");
    let later = now + Duration::from_secs(2);
    assert!(is_asked(&mut cache, hash(1), later));
    cache.keep(hash(1), &Ok(None), later, later);
    assert!(cache.slots.len() <= 2, "what is no longer believed is cleared away: {}", cache.slots.len());
}

#[test]
fn questions_at_once_are_bounded() {
    let now = Instant::now();
    let mut cache = cache(now);
    for number in 0..MAX_ASKING {
        assert!(is_asked(&mut cache, hash(number), now));
    }
    let problem = cache.look(hash(MAX_ASKING), now).err().expect("a refusal");
    assert_eq!(problem.code, Code::Overloaded);
    assert!(matches!(cache.look(hash(0), now), Ok(Look::Join(_))), "those who may join do");
    cache.keep(hash(0), &Err(()), now, now);
    assert!(is_asked(&mut cache, hash(MAX_ASKING), now));
}

#[test]
fn only_what_signs_somebody_in_is_passed_on() {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-user", HeaderValue::from_static("root"));
    headers.insert("host", HeaderValue::from_static("shop.example"));
    assert!(credentials(&headers).unwrap().is_empty());
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer t"));
    headers.append(COOKIE, HeaderValue::from_static("sid=1"));
    headers.append(COOKIE, HeaderValue::from_static("theme=dark"));
    let passed = credentials(&headers).unwrap();
    assert_eq!(passed.len(), 2);
    assert_eq!(passed[COOKIE], "sid=1; theme=dark");
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer u"));
    assert_eq!(credentials(&headers).unwrap_err().code, Code::ActorRequired);
}
