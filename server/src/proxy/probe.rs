//! Asking the service whether a command took effect: what is asked, and which answers count.
//!
//! A wrong "nothing of it" makes a second effect, so an answer counts only if it says that it is the probe's: by
//! `Samekey-Outcome`, or by a media type that nothing else of the service has. Pages of errors, sign-in pages and a 404
//! of a route that is not there say neither. Before the first question about a record, the probe is asked about a key
//! that nobody ever used, and must find nothing; until it has, none of its answers counts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{StatusCode, Uri};
use samekey_core::answer::said;
use samekey_core::{Key, OutcomeClass};

use super::ask::Asker;
use super::connect::TlsError;
use crate::clock::Clock;
use crate::command::Answer;
use crate::names;
use crate::probe::{About, Probe, Probed};

/// How to ask, as the configuration says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProbeTable {
    /// Sent with every question.
    pub(crate) headers: HeaderMap,
    /// Statuses that say: it happened, this is its answer.
    pub(crate) done: Vec<StatusCode>,
    /// Statuses that say: nothing of it.
    pub(crate) absent: Vec<StatusCode>,
    /// The media type, in lower case, that nothing but the probe answers in.
    pub(crate) media_type: Option<String>,
    /// For one question.
    pub(crate) timeout: Duration,
    /// For how long it is asked.
    pub(crate) max_age: Duration,
}

/// What holds for all probes of a server, and for the operation.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings<'a> {
    /// What an `https` address is checked against.
    pub(crate) ca: Option<&'a Path>,
    /// The header that carries the key.
    pub(crate) key_header: HeaderName,
    /// An actor is an id that the service knows, not the hash of a credential.
    pub(crate) names_actor: bool,
    /// The largest answer.
    pub(crate) max_response_bytes: usize,
}

/// A probe by HTTP.
#[derive(Debug)]
pub(crate) struct HttpProbe {
    url: Uri,
    asker: Asker,
    table: ProbeTable,
    key_header: HeaderName,
    names_actor: bool,
    max_response_bytes: usize,
    /// It found nothing of a key that nobody ever used.
    proved: AtomicBool,
}

impl HttpProbe {
    /// At an `http://` or `https://` address.
    pub(crate) fn new(url: Uri, table: ProbeTable, around: &Surroundings<'_>) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            asker: Asker::new(url.clone(), around.ca, table.timeout)?,
            url,
            key_header: around.key_header.clone(),
            names_actor: around.names_actor,
            max_response_bytes: around.max_response_bytes,
            proved: AtomicBool::new(false),
            table,
        }))
    }

    pub(crate) fn url(&self) -> &Uri {
        &self.url
    }

    /// As the store asks it.
    pub(crate) fn probe(self: &Arc<Self>) -> Probe {
        let probe = Arc::clone(self);
        Probe::new(move |about| {
            let probe = Arc::clone(&probe);
            async move {
                if !probe.proved.load(Ordering::Acquire) {
                    probe.check().await?;
                }
                probe.question(&about.key, Some(&about)).await
            }
        })
        .timeout(self.table.timeout)
        .max_age(self.table.max_age)
    }

    /// Asks about a key that nobody ever used. What it finds of that, it does not know.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut entropy = [0; 10];
        crate::random(&mut entropy);
        let key = Key::mint(Clock::system().now(), entropy);
        let asked = tokio::time::timeout(self.table.timeout, self.question(&key, None)).await;
        let wrong = match asked {
            Ok(Ok(Probed::Absent)) => {
                self.proved.store(true, Ordering::Release);
                return Ok(());
            }
            Ok(Ok(Probed::Done(answer))) => format!(
                "it answered {}, as if the command had happened: it does not look at {}",
                answer.status.as_u16(),
                self.key_header
            ),
            Ok(Ok(Probed::Unclear(why)) | Err(why)) => why,
            Err(_) => format!("no answer within {:?}", self.table.timeout),
        };
        Err(format!("{} was asked about a key that nobody ever used, and did not say so: {wrong}", self.url))
    }

    /// `about`: none with a key that nobody ever used.
    async fn question(&self, key: &Key, about: Option<&About>) -> Result<Probed, String> {
        let (parts, body) = self.asker.get(self.headers(key, about), self.max_response_bytes).await?;
        Ok(self.meaning(parts, body))
    }

    fn headers(&self, key: &Key, about: Option<&About>) -> HeaderMap {
        let mut headers = self.table.headers.clone();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        // What a cache remembers of the time before tells nothing.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
        headers.insert(self.key_header.clone(), names::value(&key.expose()));
        let attempt = about.map_or(1, |about| about.attempt);
        headers.insert(names::ATTEMPT, HeaderValue::from(attempt));
        let provider_key = about.map_or_else(nobodys, |about| about.provider_key.clone());
        headers.insert(names::PROVIDER_KEY, names::value(&provider_key));
        if self.names_actor {
            let id = about.map_or_else(nobodys, |about| about.actor.as_str().to_owned());
            if let Some(id) =
                Some(id).filter(|id| !id.is_empty()).and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok())
            {
                headers.insert(names::ACTOR, id);
            }
        }
        headers
    }

    fn meaning(&self, parts: Parts, body: Bytes) -> Probed {
        let status = parts.status;
        let unclear =
            |why: &str| Probed::Unclear(format!("it answered {}, which does not count: {why}", status.as_u16()));
        if parts.headers.get(AGE).is_some_and(|age| age.as_bytes() != b"0") {
            return unclear("a cache answered, which does not know how things stand now");
        }
        let mut lines = parts.headers.get_all(names::OUTCOME).iter();
        match (lines.next(), lines.next()) {
            (Some(_), Some(_)) => return unclear("Samekey-Outcome stands there twice"),
            (Some(line), None) => match said(line.as_bytes()) {
                Some(OutcomeClass::Terminal) if status.as_u16() < 500 || self.table.done.contains(&status) => {}
                Some(OutcomeClass::Released) if self.table.absent.contains(&status) => return Probed::Absent,
                Some(OutcomeClass::Uncertain) => return unclear("it says itself that it does not know"),
                Some(_) => return unclear("status and Samekey-Outcome contradict each other"),
                None => return unclear("its Samekey-Outcome is none of terminal, released, uncertain"),
            },
            (None, _) if !self.is_of_its_type(&parts.headers) => {
                return unclear(match self.table.media_type {
                    Some(_) => "it says neither by Samekey-Outcome nor by its media type that it is the probe's",
                    None => "it does not say by Samekey-Outcome that it is the probe's",
                });
            }
            (None, _) if self.table.absent.contains(&status) => return Probed::Absent,
            (None, _) if self.table.done.contains(&status) => {}
            (None, _) => return unclear("the status stands in neither of done and absent"),
        }
        Probed::Done(Answer::from(http::Response::from_parts(parts, body)))
    }

    fn is_of_its_type(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(CONTENT_TYPE).iter();
        let (Some(line), None, Some(wanted)) = (lines.next(), lines.next(), &self.table.media_type) else {
            return false;
        };
        let essence = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes())
    }
}

/// An id that nobody has.
fn nobodys() -> String {
    let mut bytes = [0; 16];
    crate::random(&mut bytes);
    crate::hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use samekey_core::Actor;

    fn probe(media_type: Option<&str>) -> Arc<HttpProbe> {
        let table = ProbeTable {
            headers: HeaderMap::new(),
            done: vec![StatusCode::OK],
            absent: vec![StatusCode::NOT_FOUND],
            media_type: media_type.map(str::to_owned),
            timeout: Probe::TIMEOUT,
            max_age: Probe::MAX_AGE,
        };
        let (key_header, max_response_bytes) = (names::KEY, 1 << 20);
        let url = Uri::from_static("http://127.0.0.1:1/by-key");
        HttpProbe::new(url, table, &Surroundings { ca: None, key_header, names_actor: true, max_response_bytes })
            .unwrap()
    }

    fn means(probe: &HttpProbe, status: u16, headers: &[(&str, &str)]) -> &'static str {
        let builder = http::Response::builder().status(status);
        let answer =
            headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value)).body(()).unwrap();
        match probe.meaning(answer.into_parts().0, Bytes::from_static(b"{}")) {
            Probed::Done(_) => "done",
            Probed::Absent => "absent",
            Probed::Unclear(_) => "unclear",
        }
    }

    #[test]
    fn only_what_says_that_it_is_the_probes_counts() {
        const OWN: &str = "application/vnd.shop.probe+json";
        const SAYS: &str = "samekey-outcome";
        let by_header = probe(None);
        for (status, headers, meaning) in [
            (200, &[(SAYS, "terminal")][..], "done"),
            (201, &[(SAYS, "terminal")], "done"),
            (303, &[(SAYS, "terminal")], "done"),
            (422, &[(SAYS, "terminal")], "done"),
            (500, &[(SAYS, "terminal")], "unclear"),
            (404, &[(SAYS, "released")], "absent"),
            (200, &[(SAYS, "released")], "unclear"),
            (500, &[(SAYS, "released")], "unclear"),
            (200, &[(SAYS, "uncertain")], "unclear"),
            (200, &[(SAYS, "yes")], "unclear"),
            (404, &[(SAYS, "released"), (SAYS, "terminal")], "unclear"),
            (404, &[(SAYS, "released"), ("age", "1")], "unclear"),
            (404, &[(SAYS, "released"), ("age", "0")], "absent"),
            (404, &[], "unclear"),
            (404, &[("content-type", "application/json")], "unclear"),
            (200, &[("content-type", OWN)], "unclear"),
            (302, &[("location", "/sign-in")], "unclear"),
        ] {
            assert_eq!(means(&by_header, status, headers), meaning, "{status} {headers:?}");
        }
        let by_type = probe(Some(OWN));
        for (status, headers, meaning) in [
            (200, &[("content-type", OWN)][..], "done"),
            (404, &[("content-type", "Application/VND.shop.probe+json; charset=utf-8")], "absent"),
            (201, &[("content-type", OWN)], "unclear"),
            (500, &[("content-type", OWN)], "unclear"),
            (404, &[("content-type", "application/json")], "unclear"),
            (404, &[("content-type", OWN), ("content-type", "text/html")], "unclear"),
            (404, &[], "unclear"),
            (404, &[("content-type", OWN), (SAYS, "uncertain")], "unclear"),
            (201, &[("content-type", "text/plain"), (SAYS, "terminal")], "done"),
        ] {
            assert_eq!(means(&by_type, status, headers), meaning, "{status} {headers:?}");
        }
    }

    #[test]
    fn a_question_names_the_command_and_nothing_else() {
        let about = About {
            actor: Actor::new("zoë"),
            operation: "orders.create".into(),
            key: "k,1".parse().unwrap(),
            attempt: 2,
            provider_key: "p1".into(),
            effects: Vec::new(),
            reason: None,
        };
        let headers = probe(None).headers(&about.key, Some(&about));
        let value = |name: HeaderName| headers[name].as_bytes().to_vec();
        assert_eq!(value(names::KEY), b"k,1");
        assert_eq!((value(names::ATTEMPT), value(names::PROVIDER_KEY)), (b"2".to_vec(), b"p1".to_vec()));
        assert_eq!(value(names::ACTOR), "zoë".as_bytes());
        assert_eq!(headers.len(), 6, "{headers:?}");
    }
}
