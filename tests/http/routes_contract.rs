//! What every operation promises, published.

use support::{Request, Serve, Upstream};

fn contract() -> Request {
    Request::new("GET", "/.well-known/samekey/contract").anonymous()
}

#[tokio::test]
async fn the_contract_says_what_the_flags_say() {
    let upstream = Upstream::start().await;
    let serve = Serve::before(&upstream).set("--key", "required").set("--retry-budget", "4d").set("--remember", "40d");
    let samekey = serve.waits("3s", "20s").start().await;
    let answer = samekey.send(&contract()).await;
    assert_eq!((answer.status, answer.header("content-type").as_deref()), (200, Some("application/json")));
    let json = answer.json();
    assert_eq!((&json["version"], &json["prefix"]), (&1.into(), &"/.well-known/samekey".into()));
    assert_eq!(json["headers"]["key"], "idempotency-key");
    assert_eq!(json["headers"]["state"], "samekey-state");
    assert!(json["server_time"].as_i64().is_some_and(|time| time > 1_700_000_000_000));
    assert_eq!(json["operations"].as_array().map(Vec::len), Some(0), "{json}");
    let default = &json["default"];
    let day = 86_400_000_i64;
    for (member, expected) in [
        ("name", serde_json::Value::Null),
        ("key", "required".into()),
        ("anonymous", false.into()),
        ("retry_budget_ms", (4 * day).into()),
        ("retention_ms", (7 * day).into()),
        ("remember_ms", (40 * day).into()),
        ("timeout_ms", 60_000.into()),
        ("default_wait_ms", 3000.into()),
        ("max_wait_ms", 20_000.into()),
        ("max_body_bytes", (8 << 20).into()),
        ("significant", serde_json::json!({})),
    ] {
        assert_eq!(default[member], expected, "{member}");
    }
    let late = &default["late_retry"];
    assert_eq!((&late["timed"], &late["timeless"]), (&"key_expired".into(), &"runs_again".into()));
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn the_contract_is_cached_until_it_changes() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let first = samekey.send(&contract()).await;
    let tag = first.header("etag").expect("an ETag");
    assert!(first.header("cache-control").is_some_and(|cache| cache.contains("max-age")));
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let again = samekey.send(&contract()).await;
    assert_ne!(again.json()["server_time"], first.json()["server_time"]);
    assert_eq!(again.header("etag"), Some(tag.clone()), "the time is no part of what is promised");
    for known in [tag.clone(), format!("\"x\", {tag}"), "*".into()] {
        let answer = samekey.send(&contract().header("If-None-Match", &known)).await;
        assert_eq!((answer.status, answer.body.len()), (304, 0), "{known}");
        assert_eq!(answer.header("etag").as_deref(), Some(tag.as_str()));
    }
    let samekey = samekey.stop().await.set("--retry-budget", "4d").start().await;
    let changed = samekey.send(&contract().header("If-None-Match", &tag)).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag));
}

#[tokio::test]
async fn the_contract_does_not_depend_on_who_asks() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    samekey.send(&Request::order("k")).await.ran(201, "completed", 1);
    let (nobody, ann) =
        (samekey.send(&contract()).await, samekey.send(&Request::new("GET", "/.well-known/samekey/contract")).await);
    assert_eq!(nobody.header("etag"), ann.header("etag"));
    assert!(!nobody.text().contains("samekey.db") && !nobody.text().contains(&upstream.addr().to_string()));
}

#[tokio::test]
async fn configured_operations_are_published_and_read_anew() {
    let upstream = Upstream::start().await;
    let text = "public_prefix = \"/api/samekey\"\nkey_header = \"X-Intent\"\n[defaults]\nretry_budget = \"4d\"\n\
                [[operation]]\nname = \"orders.create\"\naliases = [\"order.new\"]\nmethod = \"POST\"\npath = \"/orders\"\n\
                key = \"required\"\nsignificant.exclude = [\"/ui\"]\n\
                [[operation]]\nname = \"orders.pay\"\nmethod = \"PUT\"\npath = \"/orders/{id}/pay\"\nretry_budget = \"15m\"\n\
                timeless = \"keep\"\n";
    let samekey = Serve::before(&upstream).config(text).start().await;
    let contract = Request::new("GET", "/api/samekey/contract").anonymous();
    let first = samekey.send(&contract).await;
    let json = first.json();
    assert_eq!((&json["prefix"], &json["headers"]["key"]), (&"/api/samekey".into(), &"x-intent".into()));
    let [create, pay] = json["operations"].as_array().expect("operations").as_slice() else { panic!("two: {json}") };
    for (operation, name, method, path, key, budget) in [
        (create, "orders.create", "POST", "/orders", "required", 4 * 86_400_000_i64),
        (pay, "orders.pay", "PUT", "/orders/{id}/pay", "optional", 15 * 60_000),
        (&json["default"], "", "", "", "optional", 4 * 86_400_000),
    ] {
        let text = |member: &str| operation[member].as_str().unwrap_or_default().to_owned();
        assert_eq!([text("name"), text("method"), text("path"), text("key")], [name, method, path, key]);
        assert_eq!(operation["retry_budget_ms"], budget, "{operation}");
    }
    assert_eq!(create["significant"]["exclude"], serde_json::json!(["/ui"]));
    assert_eq!(pay["late_retry"]["timeless"], "response_not_stored");

    // Found under every name, with the key in the header that the configuration names.
    let keyed = |request: Request| request.header("X-Intent", "k");
    samekey.send(&keyed(Request::post("/orders").json("{}"))).await.ran(201, "completed", 1);
    samekey.send(&keyed(Request::new("PUT", "/orders/7/pay").json("{}"))).await.ran(201, "completed", 1);
    for name in ["orders.create", "order.new", "POST%20%2Forders", "orders.pay", "PUT%20%2Forders%2F7%2Fpay"] {
        let target = format!("/api/samekey/status?operation={name}");
        let answer = samekey.send(&keyed(Request::new("GET", &target))).await;
        assert_eq!((answer.status, answer.receipt().state.as_str()), (200, "completed"), "{name}: {}", answer.text());
        assert!(answer.header("vary").is_some_and(|vary| vary.contains("x-intent")));
    }
    let renamed = text.replace("orders.pay", "orders.paid").replace("timeless", "aliases = [\"orders.pay\"]\ntimeless");
    std::fs::write(samekey.serve().folder().join("samekey.toml"), renamed).expect("a new configuration");
    samekey.signal(rustix::process::Signal::HUP);
    let anew = samekey.until(&contract, |answer| answer.json()["operations"][1]["name"] == "orders.paid").await;
    assert_ne!(anew.header("etag"), first.header("etag"));
}
