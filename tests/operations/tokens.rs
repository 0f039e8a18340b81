//! Who may do what on the admin listener.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::patience::patiently;
use support::{Request, Serve, Server, Upstream};

const READS: &str = "00000000000000000000000000000001";
const CLAIMS: &str = "00000000000000000000000000000002";

fn write(file: &Path, text: &str) {
    fs::write(file, text).expect("a token file");
    fs::set_permissions(file, Permissions::from_mode(0o600)).expect("its mode");
}

fn metrics() -> Request {
    Request::new("GET", "/metrics").anonymous()
}

/// With a token for reading and one for claims.
async fn with_two(upstream: &Upstream) -> Server {
    let serve = Serve::before(upstream);
    write(&serve.folder().join("samekey.token"), &format!("read {READS} prometheus\nclaim {CLAIMS}\n"));
    serve.start().await
}

#[tokio::test]
async fn the_first_start_makes_a_token_for_its_owner_and_says_where() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let file = samekey.token_file();
    assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o7777, 0o600);
    let line = samekey.out.text().lines().next().expect("a first line").to_owned();
    assert!(line.ends_with(&format!("(token in {})", file.display())), "{line}");
    let token = samekey.token();
    let answer = samekey.admin_as(&token, &metrics()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(answer.header("cache-control").as_deref(), Some("no-store"));
    let samekey = samekey.stop().await.start().await;
    assert_eq!(samekey.token(), token, "made once");
    assert_eq!(samekey.admin_as(&token, &metrics()).await.status, 200);
    let (said, logged) = (samekey.out.text(), samekey.logs.text());
    assert!(!said.contains(&token) && !logged.contains(&token), "a token is never said: {said}{logged}");
}

#[tokio::test]
async fn without_the_right_token_nothing_is_told() {
    let upstream = Upstream::start().await;
    let samekey = with_two(&upstream).await;
    for path in ["/metrics", "/v1/records", "/", "/nothing"] {
        for method in ["GET", "POST", "DELETE"] {
            let request = Request::new(method, path);
            let bare = samekey.admin_as(READS, &request).await.status;
            let answer = support::raw::send(samekey.admin, &request.clone().anonymous()).await;
            assert_eq!(answer.status, 401, "{method} {path}, with a token {bare}");
            assert_eq!(answer.header("www-authenticate").as_deref(), Some("Bearer realm=\"samekey admin\""));
            let json = answer.json();
            assert_eq!(json["status"], 401, "{json}");
            assert!(json["detail"].as_str().is_some_and(|detail| detail.contains("Bearer")), "{json}");
            let answer = samekey.admin_as(&READS.replace('1', "3"), &request).await;
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.header("www-authenticate").is_some_and(|said| said.contains("invalid_token")));
        }
    }
    for header in [format!("Basic {READS}"), READS.to_owned(), "Bearer".into(), format!("Bearer {READS}x")] {
        let answer = support::raw::send(samekey.admin, &metrics().actor(&header)).await;
        assert_eq!(answer.status, 401, "{header}");
    }
    let twice = metrics().actor(&format!("Bearer {READS}")).header("Authorization", format!("Bearer {READS}"));
    assert_eq!(support::raw::send(samekey.admin, &twice).await.status, 401, "two lines are none");
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say() {
    let upstream = Upstream::start().await;
    let samekey = with_two(&upstream).await;
    assert_eq!(samekey.admin_as(READS, &metrics()).await.status, 200);
    let refused = samekey.admin_as(CLAIMS, &metrics()).await;
    assert_eq!(refused.status, 403);
    let problem = refused.problem();
    assert_eq!((problem.code.as_str(), problem.next.as_str()), ("forbidden", "stop"));
    assert!(problem.detail.contains("read"), "it says what is missing: {}", problem.detail);
    assert_eq!(refused.header("samekey-state"), None, "no key is spoken of");
    let unknown = samekey.admin_as(CLAIMS, &Request::new("GET", "/nothing")).await;
    assert_eq!(unknown.status, 404, "any token learns what is not there");
    assert_eq!(samekey.admin_as(READS, &Request::new("DELETE", "/metrics")).await.status, 405);
}

#[tokio::test]
async fn a_token_that_is_taken_out_opens_nothing_any_more() {
    let upstream = Upstream::start().await;
    let samekey = with_two(&upstream).await;
    write(&samekey.token_file(), &format!("read {CLAIMS}\n"));
    patiently("the new tokens", async {
        while samekey.admin_as(CLAIMS, &metrics()).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(samekey.admin_as(READS, &metrics()).await.status, 401);
    write(&samekey.token_file(), "read secret\n");
    patiently("the complaint", async {
        while !samekey.logs.text().contains("samekey.token:1: a token has 32") {
            assert_eq!(samekey.admin_as(CLAIMS, &metrics()).await.status, 200, "what was read before still counts");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_file_that_cannot_be_trusted_stops_the_start() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream);
    let file = serve.folder().join("samekey.token");
    for (text, mode, hint) in [
        (format!("read {READS}\n"), 0o644, "chmod 600"),
        (format!("read {READS}\n"), 0o620, "chmod 600"),
        (format!("\nread,write {READS}\n"), 0o600, "samekey.token:2: \"write\" is no scope"),
        ("read short\n".into(), 0o600, "samekey.token:1: a token has 32"),
        ("# none\n".into(), 0o600, "holds no token"),
    ] {
        write(&file, &text);
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its mode");
        let (_, said) = serve.refused().await;
        assert!(said.contains(hint) && said.contains("samekey.token"), "{text:?} {mode:o}: {said}");
        assert!(!said.contains(READS), "a token is never said: {said}");
    }
    let (_, said) = Serve::before(&upstream).set("--admin-token-file", "/nowhere/at/all").refused().await;
    assert!(said.contains("--admin-token-file") && said.contains("/nowhere/at/all"), "{said}");
}

#[tokio::test]
async fn the_token_file_may_be_named_in_the_configuration() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).config("admin_token_file = \"ops.token\"\n");
    write(&serve.folder().join("ops.token"), &format!("read {READS}\n"));
    let samekey = serve.start().await;
    assert_eq!(samekey.admin_as(READS, &metrics()).await.status, 200);
    assert!(!samekey.token_file().exists(), "no other one is made");
}
