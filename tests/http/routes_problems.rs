//! The pages that `type` leads to.

use samekey_core::problem::Code;
use support::{Request, Serve, Upstream};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn every_code_is_explained_to_people_and_to_programs() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).start().await;
    let mut client = samekey.connect().await;
    for code in Code::ALL {
        let name = code.as_str();
        let page = Request::new("GET", &format!("/.well-known/samekey/problems/{name}")).anonymous();
        let html = client.exchange(&page.clone().header("Accept", BROWSER)).await;
        assert_eq!((html.status, html.header("content-type").as_deref()), (200, Some("text/html; charset=utf-8")));
        let text = html.text();
        assert!(text.contains(&format!("<h1>{name}</h1>")) && text.contains(code.row().title), "{text}");
        assert!(text.contains("What the operator does") && text.contains("color-scheme: light dark"));
        assert!(text.len() < 3000, "{} bytes", text.len());
        for outside in ["http://", "https://", "<script", "<link", "<img", "@import", "url("] {
            assert!(!text.contains(outside), "{name} loads nothing: {outside}");
        }
        assert!(html.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'")));
        let json = client.exchange(&page.clone().header("Accept", "application/problem+json")).await;
        assert_eq!(json.header("content-type").as_deref(), Some("application/json"));
        let json = json.json();
        assert_eq!((&json["code"], &json["status"]), (&name.into(), &code.row().status.into()));
        assert_eq!(json["next"], code.next().as_str());
        for member in ["happened", "client", "operator", "title"] {
            assert!(json[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {name}");
        }
        let plain = client.exchange(&page.header("Accept", "*/*")).await;
        assert_eq!(plain.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
        assert!(plain.text().starts_with(name), "{}", plain.text());
        assert_eq!(plain.header("vary").as_deref(), Some("Accept"));
    }
    assert_eq!(upstream.ledger().count(), 0);
}

#[tokio::test]
async fn the_index_leads_to_every_page() {
    let upstream = Upstream::start().await;
    let samekey = Serve::before(&upstream).set("--public-prefix", "/api/samekey").start().await;
    for index in ["/api/samekey/problems", "/api/samekey/problems/"] {
        let html = samekey.send(&Request::new("GET", index).anonymous().header("Accept", BROWSER)).await;
        for code in Code::ALL {
            let link = format!("href=\"/api/samekey/problems/{}\"", code.as_str());
            assert!(html.text().contains(&link), "{link}");
        }
    }
    let json = samekey.send(&Request::new("GET", "/api/samekey/problems/").header("Accept", "application/json")).await;
    assert_eq!(json.json().as_array().map(Vec::len), Some(Code::ALL.len()));
}
