//! The page, out of the binary: its files, compressed, and a service worker that knows them all by their content.

use axum::Router;

/// The files of `www/app` and `www/shared`, and the client of `client-wasm/dist`.
#[cfg(feature = "demo")]
pub(super) fn routes() -> Router {
    use tower_http::compression::CompressionLayer;
    Router::new().fallback(files::answer).layer(CompressionLayer::new())
}

#[cfg(not(feature = "demo"))]
pub(super) fn routes() -> Router {
    use crate::problem::plain;
    use http::StatusCode;
    Router::new().fallback(async || {
        plain(StatusCode::NOT_FOUND, "This samekey was built without the page of its demo: `cargo demo` builds it.")
    })
}

#[cfg(feature = "demo")]
mod files {
    use std::borrow::Cow;

    use axum::body::Body;
    use http::header::{HeaderName, IF_NONE_MATCH};
    use http::{HeaderMap, Response, StatusCode, Uri};
    use rust_embed::Embed;
    use sha2::{Digest as _, Sha256};

    use crate::problem::plain;
    use crate::static_file;

    #[derive(Embed)]
    #[folder = "../www/app"]
    struct App;

    #[derive(Embed)]
    #[folder = "../www/shared"]
    struct Shared;

    /// A debug build reads it where it lies, as the other files, so it builds without; one for others must not.
    #[cfg(debug_assertions)]
    fn client() -> Option<Cow<'static, [u8]>> {
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../client-wasm/dist/index.js")).ok().map(Cow::Owned)
    }
    #[cfg(not(debug_assertions))]
    fn client() -> Option<Cow<'static, [u8]>> {
        Some(Cow::Borrowed(include_bytes!("../../../client-wasm/dist/index.js")))
    }

    /// Where the page finds the client.
    const CLIENT: &str = "samekey.js";
    /// Told what there is: another version of any file is another service worker.
    const WORKER: &str = "worker.js";

    /// No script, style, picture or connection from elsewhere; pictures of the page's own making are `data:`.
    const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data: blob:; \
                          object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

    fn file(name: &str) -> Option<Cow<'static, [u8]>> {
        if name == CLIENT {
            return client();
        }
        App::get(name).or_else(|| Shared::get(name)).map(|file| file.data)
    }

    pub(super) async fn answer(uri: Uri, headers: HeaderMap) -> Response<Body> {
        let name = match uri.path() {
            "/" => "index.html",
            path => path.trim_start_matches('/'),
        };
        if name == "index.html" && file(CLIENT).is_none() {
            return plain(StatusCode::NOT_FOUND, "The page's client is not built yet: run `cargo xtask client`.");
        }
        let content = match name {
            WORKER => worker(),
            _ => file(name),
        };
        let Some(content) = content else { return plain(StatusCode::NOT_FOUND, "There is no such page.") };
        let mut response = static_file::answer(name, content, headers.get(IF_NONE_MATCH));
        static_file::guard(&mut response, POLICY);
        if name == WORKER {
            let allowed = HeaderName::from_static("service-worker-allowed");
            response.headers_mut().insert(allowed, http::HeaderValue::from_static("/"));
        }
        response
    }

    /// The worker behind a line that lists every file, and a hash of them all.
    fn worker() -> Option<Cow<'static, [u8]>> {
        let mut names: Vec<String> =
            App::iter().chain(Shared::iter()).map(Cow::into_owned).filter(|name| name != WORKER).collect();
        names.push(CLIENT.into());
        names.sort();
        let mut hash = Sha256::new();
        for name in &names {
            hash.update(file(name)?);
        }
        hash.update(file(WORKER)?);
        let version = crate::hex(&hash.finalize()[..6]);
        let listed = serde_json::json!({ "version": version, "files": names });
        let mut text = format!("self.RELEASE = {listed};\n").into_bytes();
        text.extend_from_slice(&file(WORKER)?);
        Some(text.into())
    }
}
