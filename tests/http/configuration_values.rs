//! Each key of `samekey.toml` with a value that cannot be used: its line, and what to write.

use support::{Serve, Upstream};

/// A line of the file, and what its error must contain.
const WRONG: &[(&str, &str)] = &[
    ("upstream = \"not a url\"", "write for instance http://127.0.0.1:3000"),
    ("listen = 8787", "write for instance 127.0.0.1:8787"),
    ("admin = \"localhost\"", "write for instance 127.0.0.1:8787"),
    ("store = \"samekey.db\"", "write sqlite:PATH"),
    ("single_host = \"yes\"", "write true or false"),
    ("upstream_idle = 2", "write for instance 2s"),
    ("connect_timeout = \"5\"", "write for instance 5s"),
    ("drain = 75", "in quotes"),
    ("log = \"xml\"", "write one of text, json"),
    ("log_level = \"samekey=loud\"", "log_level: "),
    ("profile = \"strict\"", "write one of default, ietf"),
    ("public_prefix = \"api\"", "for instance /api/samekey"),
    ("cors = [\"app.example\"]", "write for instance https://app.example"),
    ("key_header = \"no header\"", "write for instance Idempotency-Key"),
    ("clock_skew = \"soon\"", "write for instance 30s"),
    ("max_buffered = 256", "write for instance 256B, 256KiB or 256MiB"),
    ("max_waiters = \"many\"", "write for instance 1000"),
    ("waiters_per_key = -1", "write for instance 1000"),
    ("min_free = \"64 elephants\"", "write for instance 8MiB"),
    ("queue = 1.5", "write for instance 1000"),
    ("lanes = 1", "not there yet"),
    ("cors_origins = []", "is no key here"),
    ("lisden = \"127.0.0.1:1\"", "did you mean listen?"),
    ("timeout = \"5s\"", "belongs into [defaults] or [[operation]]"),
    ("config = \"other.toml\"", "is a flag only"),
    ("name = \"a\"", "belongs into [[operation]]"),
    ("[actor]", ""),
    ("from = \"whoever\"", "write credentials, jwt:CLAIM"),
    ("trusted_proxies = [\"everybody\"]", "write for instance 10.0.0.0/8"),
    ("form = \"credentials\"", "did you mean from?"),
    ("[defaults]", ""),
    ("key = \"maybe\"", "write one of optional, required, ignore"),
    ("retry_budget = 5", "write for instance 5s"),
    ("retention = 7", "write for instance 7s"),
    ("remember = 30", "write for instance 30s"),
    ("lease = 30", "write for instance 30s"),
    ("timeout = 60", "write for instance 60s"),
    ("probe_after = \"later\"", "timeout + 30s"),
    ("default_wait = 5", "write for instance 5s"),
    ("max_wait = 25", "write for instance 25s"),
    ("hold = 10", "write for instance 10s"),
    ("give_up = 30", "write for instance 30s"),
    ("max_body = 8", "write for instance 8B, 8KiB or 8MiB"),
    ("max_response = true", "write it in quotes"),
    ("keep = \"encrypted\"", "write one of full, status"),
    ("store_headers = [\"Set-Cookie\"]", "never stored"),
    ("result_id = \"id\"", "starts with a slash, for instance /id"),
    ("recovery = \"ask\"", "write manual, probe or rerun"),
    ("key_time = \"v7\"", "write one of carried, none"),
    ("timeless = true", "write it in quotes"),
    ("transactional = 1", "write true or false"),
    ("terminal = 404", "write it in brackets: [404]"),
    ("release = [40]", "write for instance 404"),
    ("uncertain = [\"x\"]", "write for instance 404"),
    ("quota = [1]", "write one value"),
    ("default-max-wait = \"1s\"", "is no key here"),
    ("max-body-x = \"1s\"", "is no key here"),
    ("listen = \"127.0.0.1:1\"", "belongs to the top of the file"),
    ("[[operation]]", "needs its path; write path = \"/orders\""),
    ("name = \"Orders Create\"", "write 1 to 64 of a-z 0-9"),
    ("method = \"post\"", "in capitals"),
    ("aliases = [\"Old Name\"]", "write one like orders.create"),
    ("anonymous = \"yes\"", "write true or false"),
    ("significant.include = \"/a\"", "write it in brackets"),
    ("colour = \"red\"", "is no key here; known are name, aliases"),
    ("[[operation]]", ""),
    ("name = \"b\"", ""),
    ("method = \"POST\"", ""),
    ("path = \"/b\"", ""),
    ("significant.exclude = [\"ui\"]", "starts with `/`"),
    ("significant.headers = [1]", "write it in quotes"),
    ("significant.querry = [\"x\"]", "did you mean query?"),
    ("timeout = 9", "write for instance 9s"),
    ("probe = \"/by-key\"", "write [operation.probe]"),
    ("[[operation]]", ""),
    ("name = \"c\"", ""),
    ("method = \"POST\"", ""),
    ("path = \"/c\"", ""),
    ("recovery = \"probe\"", ""),
    ("[operation.probe]", ""),
    ("url = \"by-key\"", "write for instance /internal/orders/by-key"),
    ("headers = { authorization = \"env:NO_SUCH_VARIABLE\" }", "no environment variable NO_SUCH_VARIABLE"),
    ("done = 200", "write it in brackets"),
    ("absent = [404, 503]", "503 does not say that nothing happened"),
    ("media_type = \"application/json\"", "Samekey-Outcome"),
    ("timeout = 5", "write for instance 5s"),
    ("max_age = \"0s\"", "greater than zero"),
    ("urll = \"/x\"", "did you mean url?"),
    ("[[operation]]", ""),
    ("name = \"d\"", ""),
    ("method = \"POST\"", ""),
    ("path = \"/d\"", ""),
    ("recovery = \"probe\"", ""),
    ("[operation.probe]", "a probe needs its url"),
    ("headers = { samekey-actor = \"x\" }", "is set by samekey"),
    ("done = [302]", "302 does not say that a command happened"),
    ("absent = [204]", "204 does not say that nothing happened"),
    ("media_type = \"json\"", "application/vnd.shop.probe+json"),
];

#[tokio::test]
async fn every_wrong_value_is_told_with_its_line_and_what_to_write() {
    let upstream = Upstream::start().await;
    let text: String = WRONG.iter().map(|(line, _)| format!("{line}\n")).collect();
    let serve = Serve::before(&upstream).config(&text);
    let (status, said) = serve.refused().await;
    assert_eq!(status.code(), Some(1));
    let checked = serve.check(&[]);
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&checked.stderr), said, "check says the same");
    let mut missing = Vec::new();
    for (number, (line, advice)) in WRONG.iter().enumerate().filter(|(_, (_, advice))| !advice.is_empty()) {
        let place = format!("samekey.toml:{}: ", number + 1);
        let told = said.lines().filter(|told| told.contains(&place)).any(|told| told.contains(advice));
        if !told {
            missing.push(format!("{place}{line} -> {advice}"));
        }
    }
    assert!(missing.is_empty(), "not told: {missing:#?}\nsaid:\n{said}");
    let right = WRONG.iter().filter(|(_, advice)| advice.is_empty()).count();
    assert_eq!(said.lines().filter(|line| line.contains("samekey.toml:")).count(), WRONG.len() - right, "{said}");
}

#[tokio::test]
async fn what_does_not_fit_together_names_the_line_of_the_operation() {
    let upstream = Upstream::start().await;
    let first = "[[operation]]\nname = \"a\"\nmethod = \"POST\"\npath = \"/a/{id}\"\n";
    for (second, line, advice) in [
        ("name = \"b\"\nmethod = \"POST\"\npath = \"/a/{no}\"", 8, "a takes the same requests"),
        ("name = \"a\"\nmethod = \"POST\"\npath = \"/b\"", 6, "also names a"),
        ("name = \"b\"\naliases = [\"a\"]\nmethod = \"POST\"\npath = \"/b\"", 7, "also names a"),
        ("name = \"b\"\nmethod = \"POST\"\npath = \"/b\"\naliases = [\"POST /a/7\"]", 9, "also names a"),
        ("name = \"b\"\nmethod = \"GET\"\npath = \"/b\"", 7, "write POST, PATCH, PUT or DELETE"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"b\"", 8, "must start with a slash"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b/:id\"", 8, "{id}"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/{*all}/b\"", 8, "at the end"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nretention = \"5d\"", 5, "raise retention"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nremember = \"6d\"", 5, "raise remember"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nlease = \"0s\"", 5, "greater than zero"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nterminal = [404]\nrelease = [404]", 5, "leave it in one"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nrelease = [200]", 5, "cannot be released"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nrecovery = \"probe\"", 5, "add [operation.probe]"),
        ("name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nprobe.url = \"/p\"", 5, "never asked"),
        (
            "name = \"b\"\nmethod = \"PUT\"\npath = \"/b\"\nrecovery = \"probe\"\nprobe = { url = \"/p\", done = [404] }",
            10,
            "leave it in one",
        ),
    ] {
        let text = format!("{first}[[operation]]\n{second}\n");
        let (_, said) = Serve::before(&upstream).config(&text).refused().await;
        let place = format!("samekey.toml:{line}: ");
        assert!(said.contains(&place) && said.contains(advice), "{second}\nexpected {place}…{advice}, said:\n{said}");
    }
    let (_, said) = Serve::before(&upstream).config("[defaults]\nrecovery = \"probe\"\n").refused().await;
    assert!(said.contains("samekey.toml:1: ") && said.contains("write it into [[operation]]"), "{said}");
    let (_, said) = Serve::before(&upstream).set("--recovery", "probe").refused().await;
    assert!(said.contains("write it into [[operation]]"), "{said}");
    let whole = "[defaults]\nretention = \"5d\"\n[[operation]]\nname = \"a\"\nmethod = \"PUT\"\npath = \"/a\"\n";
    let (_, said) = Serve::before(&upstream).config(whole).refused().await;
    assert!(said.contains("samekey.toml:1: the settings do not fit together"), "{said}");
    assert!(!said.contains("samekey.toml:3"), "said once: {said}");
}

#[tokio::test]
async fn a_file_that_is_none_is_named() {
    let upstream = Upstream::start().await;
    let (_, said) = Serve::before(&upstream).config("key = = 1\n[defaults\n").refused().await;
    assert!(said.contains("samekey.toml:1: ") && said.contains("samekey.toml:2: "), "both lines: {said}");
    let (_, said) = Serve::before(&upstream).set("--config", "nowhere.toml").refused().await;
    assert!(said.contains("--config nowhere.toml"), "{said}");
    let (_, said) = Serve::before(&upstream).bare().refused().await;
    assert!(said.contains("--upstream") && said.contains("samekey.toml"), "{said}");
}
