//! `samekey check`: the contract as it comes out, and what it warns of.

use support::{Serve, Upstream};

fn operation(keys: &str) -> String {
    format!(
        "upstream = \"http://127.0.0.1:1\"\n[[operation]]\nname = \"a\"\nmethod = \"POST\"\npath = \"/a\"\nkey = \"required\"\n{keys}\n"
    )
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_prints_each_operation_with_all_that_holds_for_it() {
    let serve = Serve::to("http://127.0.0.1:1").config(&operation(
        "aliases = [\"old\"]\nsignificant.exclude = [\"/ui\"]\nretry_budget = \"1d\"\nretention = \"2d\"\nremember = \"3d\"\ngive_up = \"4d\"\n\
         timeless = \"keep\"\nmax_body = \"1KiB\"\nprobe_after = \"timeout + 1m\"\nresult_id = \"/id\"\nanonymous = true",
    ));
    let output = serve.check(&[]);
    assert!(output.status.success());
    let said = text(&output);
    for line in
        ["a   POST /a", "old", "/ui", "1day", "2days", "3days", "4days", "keep", "1.0 KiB", "2m", "/id", "required"]
    {
        assert!(said.contains(line), "{line} in {said}");
    }
    assert!(said.contains("all other requests"), "{said}");
    let said: serde_json::Value = serde_json::from_slice(&serve.check(&["--json"]).stdout).expect("JSON");
    assert_eq!(said["operations"][0]["name"], "a");
    assert_eq!(said["operations"][0]["retention"], "2days");
    assert_eq!(said["others"]["retention"], "7days");
    assert_eq!(said["errors"], serde_json::json!([]));
}

#[test]
fn without_a_file_it_shows_the_defaults() {
    let output = Serve::to("http://127.0.0.1:1").check(&["--upstream", "http://127.0.0.1:1"]);
    assert!(output.status.success() && text(&output).contains("no samekey.toml"), "{output:?}");
}

#[test]
fn each_warning_is_told_and_strict_fails_on_it() {
    let clean = Serve::to("").config(&operation("")).check(&["--strict"]);
    assert!(clean.status.success(), "no warning: {}", text(&clean));
    assert!(text(&clean).contains("Set-Cookie is never stored"), "a note");
    for (keys, warning) in [
        ("[[operation]]\nname = \"b\"\nmethod = \"PUT\"\npath = \"/b\"", "b: the key is optional"),
        ("[[operation]]\nname = \"b\"\nmethod = \"POST\"\npath = \"/api/login\"\nkey = \"required\"", "Set-Cookie"),
        ("significant.headers = [\"X-Request-Id\"]", "x-request-id, which changes between deliveries"),
        ("significant.headers = [\"traceparent\", \"Date\"]", "date, which changes"),
        ("key_time = \"none\"", "key is new again"),
        ("recovery = \"rerun\"", "twice"),
        ("probe_after = \"5s\"", "shorter than timeout"),
        ("max_wait = \"50s\"", "ingresses"),
        ("timeout = \"80s\"", "drain"),
        ("max_body = \"1GiB\"", "max_buffered"),
    ] {
        let serve = Serve::to("").config(&operation(keys));
        let output = serve.check(&[]);
        let line = text(&output)
            .lines()
            .find(|line| line.starts_with("warning:") && line.contains(warning))
            .map(str::to_owned);
        assert!(output.status.success() && line.is_some(), "{keys}: {}", text(&output));
        assert_eq!(serve.check(&["--strict"]).status.code(), Some(1), "{keys}");
    }
    let idle = Serve::to("").config(&operation("")).check(&["--upstream-idle", "6s"]);
    assert!(text(&idle).contains("warning: upstream_idle"), "{}", text(&idle));
    let nowhere = Serve::to("").config(&operation("").replace("upstream", "# upstream")).check(&["--strict"]);
    assert!(!nowhere.status.success() && text(&nowhere).contains("serve needs upstream"), "{}", text(&nowhere));
    let close = Serve::to("").config(&operation("retention = \"122h\"")).check(&[]);
    assert!(text(&close).contains("barely longer"), "{}", text(&close));
}

#[test]
fn errors_as_json_have_file_and_line() {
    let output = Serve::to("").config("[defaults]\nlease = 3\n").check(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let error = &said["errors"][0];
    assert_eq!((error["file"].as_str(), error["line"].as_u64()), (Some("samekey.toml"), Some(2)));
}

/// The page and the program: what stands there as an example must be one.
#[tokio::test]
async fn the_example_of_the_reference_page_is_read_and_served() {
    let page = include_str!("../../server/README.md");
    let chapter = page.split("## Configuration").nth(1).expect("a chapter on configuration");
    let example = chapter.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let checked = Serve::to("").config(example).check(&[]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let upstream = Upstream::start().await;
    Serve::before(&upstream).config(example).start().await.stop().await;
    // What has no default stands there as a sample.
    let samples = ["result_id", "upstream_ca", "jwt_", "jwks_", "accept_shared"];
    let is_sample = |line: &str| samples.iter().any(|sample| line.starts_with(sample));
    let uncommented = |line: &str| line.strip_prefix("# ").filter(|line| !is_sample(line)).map(str::to_owned);
    let defaults: Vec<String> =
        example.lines().map(|line| uncommented(line).unwrap_or_else(|| line.to_owned())).collect();
    let said: serde_json::Value =
        serde_json::from_slice(&Serve::to("").config(&defaults.join("\n")).check(&["--json"]).stdout).expect("JSON");
    let plain: serde_json::Value = serde_json::from_slice(&Serve::to("").check(&["--json"]).stdout).expect("JSON");
    assert_eq!(said["others"], plain["others"], "the defaults are what it says in comments");
    let help = std::process::Command::new(support::build::samekey()).args(["serve", "--help"]).output().expect("help");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let flags = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .map(|flag| flag.split([' ', '<']).next().unwrap_or_default());
    for key in flags
        .map(|flag| flag.replace('-', "_"))
        .filter(|key| !["config", "accept_unnamed_records", "accept_actor_change"].contains(&key.as_str()))
    {
        let stands = |word: &str| example.lines().any(|line| line.trim_start_matches("# ").starts_with(word));
        let key = match key.as_str() {
            "actor" => "from",
            "cors_origins" => "cors",
            key => key,
        };
        assert!(stands(&format!("{key} = ")), "{key} in the example");
    }
}
