//! The listener describes its calls itself, and does nothing else: schemathesis makes calls of the description and finds
//! no answer that is not in it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use support::patience::within;
use tokio::process::Command;

use crate::shop::{Shop, invoice};

#[tokio::test]
async fn the_description_names_every_route_with_its_answers() {
    let shop = Shop::open().await;
    let answer = shop.get("/openapi.json").await;
    assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut routes: Vec<String> = document["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().expect("methods").keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    routes.sort();
    assert_eq!(
        routes,
        [
            "get /v1/records",
            "get /v1/records/{record_id}",
            "post /v1/claims",
            "post /v1/claims/{claim_id}/complete",
            "post /v1/claims/{claim_id}/effects/{name}",
            "post /v1/claims/{claim_id}/effects/{name}/finish",
            "post /v1/claims/{claim_id}/fail",
            "post /v1/claims/{claim_id}/heartbeat",
            "post /v1/claims/{claim_id}/release",
            "post /v1/claims/{claim_id}/uncertain",
            "post /v1/records/{record_id}/settle",
        ]
    );
    let claim = &document["paths"]["/v1/claims"]["post"];
    assert!(claim["description"].as_str().is_some_and(|text| text.ends_with("Needs a token with the scope `claim`.")));
    let statuses: Vec<&String> = claim["responses"].as_object().expect("answers").keys().collect();
    assert_eq!(statuses, ["200", "201", "400", "401", "403", "408", "409", "410", "413", "422", "429", "503"]);
    let request = &document["components"]["schemas"]["ClaimRequest"];
    assert_eq!(request["additionalProperties"], false);
    assert_eq!(request["required"], json!(["actor", "operation", "key", "holder"]));
    let names = json!(["invoice.send", "invoice.mail", "orders.create"]);
    assert_eq!(request["properties"]["operation"]["enum"], names, "as configured");
}

/// What it needs stands under `target/tools`, put there by `cargo verify`.
fn packages() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.ancestors().nth(3).expect("target/PROFILE/deps/TEST").join("tools/schemathesis-python")
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages()).env("PYTHONDONTWRITEBYTECODE", "1");
    // Other proxies on the machine have no business here.
    python.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").stdin(Stdio::null()).kill_on_drop(true);
    python
}

/// Calls that follow the description and calls that do not, on their own and one after the other.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
async fn no_answer_is_missing_in_the_description_and_nothing_breaks() {
    let there = python().args(["-c", "import schemathesis"]).stderr(Stdio::null()).status().await;
    if !there.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "schemathesis is missing; `cargo verify` installs it");
        eprintln!("skipped: schemathesis is missing; `cargo verify` installs it");
        return;
    }
    let shop = Shop::open().await;
    // Something to find.
    let claim = shop.won(&invoice("m-1", "h")).await;
    claim.says("effects/mail", &json!({})).await;
    claim.says("effects/mail/finish", &json!({ "unknown": true })).await;
    claim.says("uncertain", &json!({})).await;
    let folder = shop.samekey.serve().folder();
    std::fs::write(folder.join("schemathesis.toml"), settings(&claim.id, &claim.json)).expect("its settings");
    let mut run = python();
    run.arg(packages().join("bin/schemathesis"))
        .args(["run", &format!("http://{}/openapi.json", shop.samekey.admin)])
        .args(["--header", &format!("Authorization: Bearer {}", shop.token)])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth"])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--mode", "all"])
        .args(["--max-examples", "40", "--max-failures", "20", "--workers", "1", "--seed", "17", "--no-color"])
        .args(["--generation-database", "none", "--suppress-health-check", "all", "--max-time", "60"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = run.spawn().expect("start schemathesis").wait_with_output();
    let output = within(Duration::from_secs(240), "the end of schemathesis", run).await.expect("its output");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let records = shop.get("/v1/records").await;
    assert_eq!(records.status, 200, "it goes on after all that: {}", records.text());
    let log = shop.samekey.logs.text();
    assert!(!log.contains("panicked"), "{log}");
}

/// Half of the calls are about things that are there.
fn settings(claim: &str, json: &Value) -> String {
    format!(
        "[parameters]\n\"path.claim_id\" = \"{claim}\"\n\"path.record_id\" = \"{}\"\n\"path.name\" = \"mail\"\n",
        json["record"]
    )
}
