//! A server with an operation that no HTTP service runs, and programs that hold tokens of it.

use serde_json::{Value, json};
use support::{Answer, Request, Serve, Server, Upstream};

/// What the server of most tests is configured as.
pub(crate) const CONFIG: &str = r#"
[[operation]]
name = "invoice.send"
aliases = ["invoice.mail"]

[[operation]]
name = "orders.create"
method = "POST"
path = "/orders"
significant.exclude = ["/ui"]
"#;

/// A server, whatever is behind it, and the token that it made for itself.
pub(crate) struct Shop {
    pub(crate) samekey: Server,
    pub(crate) upstream: Upstream,
    pub(crate) token: String,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::with(|serve| serve).await
    }

    pub(crate) async fn with(change: impl FnOnce(Serve) -> Serve) -> Self {
        let upstream = Upstream::start().await;
        let serve = Serve::before(&upstream).config(CONFIG);
        let samekey = change(serve).start().await;
        let token = samekey.token();
        Self { samekey, upstream, token }
    }

    /// Short times, as [`Serve::quick`] has them, but with longer leases.
    pub(crate) async fn quick() -> Self {
        Self::with(Serve::quick).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.samekey.admin_as(&self.token, &Request::post(path).json(&body.to_string())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.samekey.admin_as(&self.token, &Request::new("GET", path)).await
    }

    pub(crate) async fn claim(&self, body: &Value) -> Answer {
        self.post("/v1/claims", body).await
    }

    /// A claim that must be won.
    pub(crate) async fn won(&self, body: &Value) -> Claim<'_> {
        let answer = self.claim(body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let json = answer.json();
        let id = json["claim_id"].as_str().expect("a claim id").to_owned();
        Claim { shop: self, id, json }
    }
}

/// A claim that was won.
pub(crate) struct Claim<'a> {
    shop: &'a Shop,
    pub(crate) id: String,
    pub(crate) json: Value,
}

impl Claim<'_> {
    pub(crate) async fn post(&self, call: &str, body: &Value) -> Answer {
        self.shop.post(&format!("/v1/claims/{}/{call}", self.id), body).await
    }

    /// A call that must succeed.
    pub(crate) async fn says(&self, call: &str, body: &Value) -> Value {
        let answer = self.post(call, body).await;
        assert_eq!(answer.status, 200, "{call} {body}: {}", answer.text());
        answer.json()
    }
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!((answer.status, answer.problem().code.as_str()), (status, code), "{}", answer.text());
    answer.json()
}

/// The claim of this message by this holder.
pub(crate) fn invoice(key: &str, holder: &str) -> Value {
    json!({ "actor": "ann", "operation": "invoice.send", "key": key, "payload": { "invoice": 17 }, "holder": holder })
}

/// The same with further members.
pub(crate) fn with(mut body: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}
