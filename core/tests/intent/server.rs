//! A server as naive as can be: one map of keys, no leases, no clock but one. It knows how often each command ran.

use std::collections::BTreeMap;

use samekey_core::Key;
use samekey_core::intent::{Answer, Request};
use samekey_core::problem::Code;

use crate::chance::Chance;

pub(crate) const ORIGIN: &str = "https://shop.example";
pub(crate) const REMEMBER: i64 = 30 * 86_400_000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    Running { until: i64, then: Box<Standing> },
    Ended { status: u16, body: String },
    Released,
    Uncertain { since: i64 },
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) body: Vec<u8>,
    tag: String,
    pub(crate) standing: Standing,
    pub(crate) ended_at: i64,
}

/// What kind of server it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Samekey,
    /// The same behind a proxy that drops our receipts from every answer.
    Stripped,
    /// No samekey: whatever arrives runs.
    Foreign,
}

pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) keys: BTreeMap<String, Entry>,
    /// Runs of each command, told by the tag that its call put into a header.
    pub(crate) runs: BTreeMap<String, u32>,
    pub(crate) mark: i64,
    /// How long an operator takes; none: nobody settles.
    pub(crate) operator: Option<i64>,
    /// Nothing goes wrong any more.
    pub(crate) healed: bool,
    pub(crate) signed_in: bool,
}

impl Server {
    pub(crate) fn new(kind: Kind, now: i64) -> Self {
        Self {
            kind,
            keys: BTreeMap::new(),
            runs: BTreeMap::new(),
            mark: now - REMEMBER,
            operator: Some(60_000),
            healed: false,
            signed_in: true,
        }
    }

    pub(crate) fn ran(&self, tag: &str) -> u32 {
        self.runs.get(tag).copied().unwrap_or(0)
    }

    /// Time passes: runs end, operators settle, the old is forgotten.
    pub(crate) fn pass(&mut self, now: i64, chance: &mut Chance) {
        for entry in self.keys.values_mut() {
            match &entry.standing {
                Standing::Running { until, then } if *until <= now => {
                    entry.standing = (**then).clone();
                    entry.ended_at = now;
                }
                Standing::Uncertain { since } if self.operator.is_some_and(|after| since + after <= now) => {
                    let ran = self.runs.get(&entry.tag).copied().unwrap_or(0) > 0;
                    entry.standing = if ran {
                        Standing::Ended { status: 200, body: "\"settled\"".into() }
                    } else if chance.permille(500) {
                        Standing::Released
                    } else {
                        Standing::Ended { status: 410, body: "\"will not run\"".into() }
                    };
                    entry.ended_at = now;
                }
                _ => {}
            }
        }
        // A row goes only when both its end and its key's time lie so far back, and the mark moves over the key.
        let Self { keys, mark, .. } = self;
        keys.retain(|key, entry| {
            let ended = matches!(entry.standing, Standing::Ended { .. } | Standing::Closed | Standing::Released);
            let old = |at: i64| at + REMEMBER <= now;
            let Some(at) = time(key).filter(|at| ended && old(entry.ended_at) && old(*at)) else { return true };
            *mark = (*mark).max(at);
            false
        });
    }

    pub(crate) fn answer(&mut self, request: &Request, now: i64, chance: &mut Chance) -> Answer {
        self.pass(now, chance);
        let mut answer = if self.kind == Kind::Foreign {
            self.foreign(request, chance)
        } else if request.url.ends_with("/contract") {
            contract()
        } else {
            self.known(request, now, chance)
        };
        answer.headers.push(("date".into(), httpdate(now)));
        if self.kind == Kind::Stripped {
            answer.headers.retain(|(name, _)| name != "samekey-state");
        }
        answer
    }

    fn foreign(&mut self, request: &Request, chance: &mut Chance) -> Answer {
        if request.method != "POST" {
            return plain(404, "text/html", "<h1>Not found</h1>");
        }
        let status = if self.healed { 201 } else { *chance.pick(&[201, 201, 422, 500, 503]) };
        if status == 201 || status == 500 && chance.permille(500) {
            *self.runs.entry(tag(request)).or_default() += 1;
        }
        plain(status, "application/json", "{}")
    }

    fn known(&mut self, request: &Request, now: i64, chance: &mut Chance) -> Answer {
        if !self.signed_in {
            return problem(Code::ActorRequired, None, "");
        }
        let Some(key) = key(request) else { return problem(Code::KeyRequired, None, "") };
        if !self.healed && chance.permille(60) {
            return problem(*chance.pick(&[Code::Overloaded, Code::StoreUnavailable]), None, "");
        }
        match request.method.as_str() {
            "POST" => self.deliver(request, &key, now, chance),
            "GET" => self.status(&key),
            _ => self.close(&key, now),
        }
    }

    fn expired(&self, key: &str, now: i64) -> Option<Answer> {
        time(key).is_some_and(|at| at <= self.mark).then(|| {
            problem(Code::KeyExpired, None, &format!(",\"server_time\":{now},\"key_time\":{}", time(key).unwrap_or(0)))
        })
    }

    fn deliver(&mut self, request: &Request, key: &str, now: i64, chance: &mut Chance) -> Answer {
        let body = request.body.clone().unwrap_or_default();
        match self.keys.get(key) {
            Some(entry) => {
                if entry.standing == Standing::Closed {
                    return problem(Code::KeyClosed, None, "");
                }
                if entry.body != body {
                    return problem(Code::KeyPayloadMismatch, None, "");
                }
                if entry.standing != Standing::Released {
                    return heard(&entry.standing);
                }
            }
            None => {
                if let Some(answer) = self.expired(key, now) {
                    return answer;
                }
            }
        }
        // It runs.
        let fate = if self.healed { 0 } else { chance.below(14) };
        let mut ran = |really: bool| {
            if really {
                *self.runs.entry(tag(request)).or_default() += 1;
            }
        };
        let ended = |status: u16| Standing::Ended { status, body: format!("{{\"status\":{status}}}") };
        let (standing, mut answer) = match fate {
            0..=4 => {
                ran(true);
                (ended(201), None)
            }
            5 => (ended(422), None),
            6 => {
                ran(chance.permille(500));
                (ended(500), None)
            }
            7 => (Standing::Released, Some(stated(429, "released"))),
            8 => (Standing::Released, Some(stated(401, "released"))),
            9 => {
                ran(chance.permille(500));
                (Standing::Uncertain { since: now }, Some(stated(502, "uncertain")))
            }
            10 => {
                ran(chance.permille(500));
                (Standing::Uncertain { since: now }, Some(problem(Code::UpstreamTimeout, None, "")))
            }
            11 => (Standing::Released, Some(problem(Code::UpstreamUnreachable, None, ""))),
            12 => {
                ran(true);
                let until = now + chance.range(1_000, 90_000);
                (
                    Standing::Running { until, then: Box::new(ended(201)) },
                    Some(problem(Code::OperationInProgress, None, "")),
                )
            }
            _ => {
                // A redirect that the browser hides.
                ran(true);
                (ended(303), None)
            }
        };
        if let (7, Some(answer)) = (fate, &mut answer) {
            let after = chance.pick(&["2", "30", "999999999999", "Tue, 01 Dec 2099 00:00:00 GMT"]).to_string();
            answer.headers.push(("retry-after".into(), after));
        }
        let answer = answer.unwrap_or_else(|| ended_answer(&standing, false));
        self.keys.insert(key.into(), Entry { body, tag: tag(request), standing, ended_at: now });
        answer
    }

    fn status(&self, key: &str) -> Answer {
        let Some(entry) = self.keys.get(key) else {
            return with(plain(404, "application/json", "{\"state\":\"none\"}"), "samekey-state", "none");
        };
        let (word, members) = match &entry.standing {
            Standing::Running { .. } => ("in_progress", String::new()),
            Standing::Released => ("released", String::new()),
            Standing::Uncertain { .. } => ("uncertain", String::new()),
            Standing::Closed => ("refused", String::new()),
            Standing::Ended { status, .. } => {
                (word(*status), format!(",\"status_code\":{status},\"response_stored\":true"))
            }
        };
        let body = format!("{{\"state\":\"x\"{members}}}");
        let effect = if matches!(entry.standing, Standing::Ended { status: 500, .. }) { ";effect=unknown" } else { "" };
        with(plain(200, "application/json", &body), "samekey-state", &format!("{word}{effect};attempt=1"))
    }

    fn close(&mut self, key: &str, now: i64) -> Answer {
        let closed = || with(plain(200, "application/json", "{\"state\":\"closed\"}"), "samekey-state", "refused");
        match self.keys.get_mut(key) {
            None => {
                if let Some(answer) = self.expired(key, now) {
                    return answer;
                }
                self.keys.insert(
                    key.into(),
                    Entry { body: Vec::new(), tag: String::new(), standing: Standing::Closed, ended_at: now },
                );
                closed()
            }
            Some(entry) if matches!(entry.standing, Standing::Released | Standing::Closed) => {
                entry.standing = Standing::Closed;
                closed()
            }
            Some(entry) => heard(&entry.standing),
        }
    }

    /// Whether a delivery of this key could ever run again.
    pub(crate) fn may_run(&self, key: &str) -> bool {
        match self.keys.get(key).map(|entry| &entry.standing) {
            Some(Standing::Ended { .. } | Standing::Closed) => false,
            Some(_) => true,
            None => time(key).is_none_or(|at| at > self.mark),
        }
    }
}

/// The time a v7 key carries.
fn time(key: &str) -> Option<i64> {
    let key: Key = key.parse().ok()?;
    key.time(samekey_core::Timestamp::from_millis(i64::MAX / 4), std::time::Duration::ZERO)
        .map(samekey_core::Timestamp::as_millis)
}

pub(crate) fn key(request: &Request) -> Option<String> {
    let line = &request.headers.iter().find(|(name, _)| name == "idempotency-key")?.1;
    Key::parse(line.as_bytes()).ok().map(|key| key.expose().into())
}

/// Which call the command came from.
pub(crate) fn tag(request: &Request) -> String {
    request.headers.iter().find(|(name, _)| name == "x-tag").map(|(_, tag)| tag.clone()).unwrap_or_default()
}

fn word(status: u16) -> &'static str {
    if (200..400).contains(&status) { "completed" } else { "failed" }
}

fn heard(standing: &Standing) -> Answer {
    match standing {
        Standing::Running { .. } => with(problem(Code::OperationInProgress, None, ""), "retry-after", "1"),
        Standing::Uncertain { .. } => with(
            problem(Code::OutcomeUncertain, None, ""),
            "link",
            "</.well-known/samekey/status?operation=POST%20%2Forders>; rel=\"status\"",
        ),
        Standing::Released => problem(Code::OperationReleased, None, ""),
        Standing::Closed => problem(Code::KeyClosed, None, ""),
        Standing::Ended { .. } => ended_answer(standing, true),
    }
}

fn ended_answer(standing: &Standing, replayed: bool) -> Answer {
    let Standing::Ended { status, body } = standing else { unreachable!("only what ended has an answer") };
    if *status == 303 {
        return Answer::default();
    }
    let effect = if *status == 500 { ";effect=unknown" } else { "" };
    let answer = with(plain(*status, "application/json", body), "samekey-state", &format!("{}{effect}", word(*status)));
    if replayed { with(answer, "idempotent-replayed", "true") } else { answer }
}

pub(crate) fn plain(status: u16, content_type: &str, body: &str) -> Answer {
    Answer { status, headers: vec![("content-type".into(), content_type.into())], body: body.into() }
}

pub(crate) fn stated(status: u16, state: &str) -> Answer {
    with(plain(status, "application/json", "{}"), "samekey-state", state)
}

pub(crate) fn with(mut answer: Answer, name: &str, value: &str) -> Answer {
    answer.headers.push((name.into(), value.into()));
    answer
}

/// A problem as the server writes it.
pub(crate) fn problem(code: Code, word: Option<&str>, members: &str) -> Answer {
    let (name, row) = (code.as_str(), code.row());
    let body = format!(
        "{{\"type\":\"/.well-known/samekey/problems/{name}\",\"code\":\"{name}\",\"status\":{}{members}}}",
        row.status
    );
    let answer = plain(row.status, "application/problem+json", &body);
    match word.or(row.word.map(samekey_core::receipt::Word::as_str)) {
        Some(word) => with(answer, "samekey-state", word),
        None => answer,
    }
}

fn contract() -> Answer {
    let body = format!(
        "{{\"version\":1,\"operations\":[],\"default\":{{\"name\":null,\"retry_budget_ms\":432000000,\"remember_ms\":{REMEMBER}}}}}"
    );
    plain(200, "application/json", &body)
}

/// The first form of HTTP's dates.
pub(crate) fn httpdate(now: i64) -> String {
    let seconds = now.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (mut year, mut day) = (1970, days);
    let length = |year: i64| if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 366 } else { 365 };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let months = [31, length(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("Xxx, {:02} {} {year:04} {hours:02}:{minutes:02}:{seconds:02} GMT", day + 1, names[month])
}
