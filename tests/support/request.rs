//! A request as bytes.

/// What a test wants to send; rendered without any normalisation.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    actor: Option<String>,
    body: Option<Vec<u8>>,
    chunked: bool,
}

impl Request {
    /// Any method; with the credentials of one and the same test actor.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            actor: Some("Bearer token-of-ann".into()),
            body: None,
            chunked: false,
        }
    }

    /// The usual one.
    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    /// A tea order under this key.
    pub fn order(key: &str) -> Self {
        Self::post("/orders").key(key).json(r#"{"sku":"tea","qty":1}"#)
    }

    /// One more header line.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// One `Idempotency-Key` line with exactly this value.
    pub fn key(self, value: impl AsRef<[u8]>) -> Self {
        self.header("Idempotency-Key", value)
    }

    /// Other credentials.
    pub fn actor(mut self, authorization: &str) -> Self {
        self.actor = Some(authorization.into());
        self
    }

    /// No credentials.
    pub fn anonymous(mut self) -> Self {
        self.actor = None;
        self
    }

    /// A body of this media type.
    pub fn body(mut self, media_type: &str, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.header("Content-Type", media_type)
    }

    /// A JSON body.
    pub fn json(self, body: &str) -> Self {
        self.body("application/json", body)
    }

    /// The body in chunks, without a length.
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// First line and headers, with the empty line.
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nHost: shop.example\r\n", self.method, self.target).into_bytes();
        if let Some(actor) = &self.actor {
            line(&mut bytes, "Authorization", actor.as_bytes());
        }
        for (name, value) in &self.headers {
            line(&mut bytes, name, value);
        }
        match &self.body {
            Some(_) if self.chunked => line(&mut bytes, "Transfer-Encoding", b"chunked"),
            Some(body) => line(&mut bytes, "Content-Length", body.len().to_string().as_bytes()),
            None if self.method == "POST" => line(&mut bytes, "Content-Length", b"0"),
            None => {}
        }
        bytes.extend(b"\r\n");
        bytes
    }

    /// The body as it goes over the wire.
    pub fn body_bytes(&self) -> Vec<u8> {
        let body = self.body.clone().unwrap_or_default();
        if !self.chunked {
            return body;
        }
        let mut bytes = Vec::new();
        for chunk in body.chunks(16 * 1024) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head_bytes();
        bytes.extend(self.body_bytes());
        bytes
    }
}

fn line(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    bytes.extend(name.bytes());
    bytes.extend(b": ");
    bytes.extend(value);
    bytes.extend(b"\r\n");
}
