//! Starting, refusing to start, and the admin listener.

use std::process::Command;
use support::{Request, Serve, Upstream, build};

#[tokio::test]
async fn it_says_where_it_listens_and_serves_there() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let line = samekey.out.text().lines().next().expect("a first line").to_owned();
    let expected = format!("listening http://{} -> {}", samekey.addr, upstream.url());
    assert!(line.starts_with("samekey ") && line.contains(&expected), "{line}");
    assert_ne!(samekey.addr, samekey.admin);
}

#[tokio::test]
async fn health_and_readiness_are_open_and_only_on_the_admin_listener() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(samekey.admin(path).await.status, 200, "{path}");
        samekey.send(&Request::new("GET", path)).await;
        assert_eq!(upstream.ledger().last().target, path, "on the public listener it is the application's");
    }
    assert_eq!(samekey.admin("/nothing").await.status, 401, "what is not there needs a token, too");
    assert_eq!(upstream.ledger().count(), 2, "the admin listener forwards nothing");
    let unreachable = Upstream::unreachable();
    let samekey = Serve::before(&unreachable).start().await;
    assert_eq!(samekey.admin("/readyz").await.status, 200, "the application has its own probe");
}

#[tokio::test]
async fn times_that_contradict_each_other_are_refused_with_the_rule() {
    let upstream = Upstream::start().await;
    for (flag, time) in [
        ("--retention", "5d"),
        ("--remember", "6d"),
        ("--retry-budget", "7d"),
        ("--timeout", "3d"),
        ("--probe-after", "3d"),
        ("--max-wait", "3d"),
    ] {
        let (_, said) = Serve::before(&upstream).set(flag, time).refused().await;
        assert!(said.contains("retention") && !said.contains("panicked"), "{flag} {time}: {said}");
    }
}

#[tokio::test]
async fn a_flag_that_makes_no_sense_is_refused_by_name() {
    let upstream = Upstream::start().await;
    for (flag, value) in [
        ("--lease", "soon"),
        ("--lease", "30"),
        ("--max-body", "much"),
        ("--actor", "whoever"),
        ("--actor", "header:"),
        ("--actor", "header:not a name"),
        ("--profile", "strict"),
        ("--key", "maybe"),
        ("--log", "xml"),
        ("--trusted-proxies", "everybody"),
        ("--unheard-of", "1"),
    ] {
        let (_, said) = Serve::before(&upstream).set(flag, value).refused().await;
        assert!(said.contains(flag) && !said.contains("panicked"), "{flag} {value}: {said}");
    }
    for url in ["127.0.0.1:3000", "ftp://127.0.0.1:3000", "http://", "not a url"] {
        let (_, said) = Serve::to(url).refused().await;
        assert!(said.contains("--upstream") && !said.contains("panicked"), "{url}: {said}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let upstream = Upstream::start().await;
    let taken = upstream.addr().to_string();
    let serve = Serve::before(&upstream);
    let (_, said) = serve.refused_on(&taken).await;
    assert!(said.contains(&taken) && !said.contains("panicked"), "{said}");
}

#[test]
fn help_names_every_flag_of_serve() {
    let help = Command::new(build::samekey()).args(["serve", "--help"]).output().expect("help");
    assert!(help.status.success());
    let text = String::from_utf8_lossy(&help.stdout);
    for flag in [
        "upstream",
        "listen",
        "admin",
        "store",
        "actor",
        "trusted-proxies",
        "jwt-key-file",
        "jwks-file",
        "jwt-audience",
        "jwt-issuer",
        "accept-shared-actor",
        "accept-actor-change",
        "key",
        "log",
        "profile",
        "lease",
        "timeout",
        "probe-after",
        "default-wait",
        "max-wait",
        "retry-budget",
        "retention",
        "remember",
        "hold",
        "max-body",
        "max-response",
        "max-buffered",
        "max-waiters",
        "waiters-per-key",
        "quota",
        "clock-skew",
        "min-free",
        "upstream-idle",
        "drain",
    ] {
        assert!(text.contains(&format!("--{flag}")), "--{flag} in the help");
    }
}
