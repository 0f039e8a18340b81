//! What an answer proves about an intent.
//!
//! A client settles an intent if and only if the server's record can never run again. `code` decides before
//! `Samekey-State`, that before the status. The table below is the rule itself: the first row that matches holds, and
//! there is one for everything. *On*: a **d**elivery, a question to the **s**tatus route, **c**losing the key.
//!
//! A code counts only where the problem is ours: `application/problem+json` whose `type` ends with
//! `/problems/<code>`, and no receipt that says otherwise. The service behind may have problems with the same codes, a
//! second samekey among them, and its answer means what the receipt says.
//!
//! | on | code | `Samekey-State` | status | proves |
//! |---|---|---|---|---|
//! | d s c | `response_not_stored` | | | it ended, as the receipt or `status_code` says |
//! | d s c | `key_closed` | | | it did not and will not happen |
//! | d s c | `key_payload_mismatch` | | | the key belongs to another payload |
//! | d | `idempotency_key_required`, `_invalid`, `payload_too_large` | | | this delivery was refused |
//! | d s c | `key_expired` | | | the server has forgotten keys of that time |
//! | d s c | `actor_required` | | | somebody has to sign in |
//! | d s c | `actor_changed` | | | somebody else is signed in |
//! | d s c | `outcome_uncertain`, `upstream_timeout` | | | nobody knows |
//! | c | `operation_released` | | | nobody knows: it has effects of its own, and cannot be closed |
//! | d s c | every other | | | nothing yet: again |
//! | d c | | `completed`, `failed` | | it ended with this answer |
//! | s | | `completed`, `failed` | | it ended, the answer is to be fetched or gone |
//! | d | | `released` | 401 403 407 | somebody has to sign in |
//! | d | | `released` | | nothing happened: again |
//! | s | | `released` | | nothing stands in the way of a delivery |
//! | c | | `released` | | nothing yet: again |
//! | d s c | | `in_progress` | | nothing yet: again |
//! | d s c | | `uncertain` | | nobody knows |
//! | s c | | `refused` | 2xx | closed: it did not and will not happen |
//! | d | | `refused` | 409 422 | the key belongs to another payload |
//! | d | | `refused` | 413 | this delivery was refused |
//! | d s c | | `expired` | | the server has forgotten keys of that time |
//! | d | | `not_covered` | | settled by status: nobody will repeat it |
//! | s c | | `not_covered` | | this server does not remember it |
//! | d s c | | `none` | 401 407 | somebody has to sign in |
//! | s | | `none` | 404 | nothing stands in the way of a delivery |
//! | d s c | | `unknown` | | nothing yet: again |
//! | d | | any other | | nothing: ask the status route |
//! | s c | | any other | | nothing yet: again |
//! | d, trusts the status | | – | 401 407 | somebody has to sign in |
//! | d, trusts the status | | – | 408 409 425 429 5xx, below 200 but 0, ≥ 600 | nothing yet: again |
//! | d, trusts the status | | – | | settled by status |
//! | d s c | | – | 401 407 | somebody has to sign in |
//! | d, no receipt yet | | – | 2xx, no HTML | settled by status |
//! | d, no receipt yet | | – | 403 | somebody has to sign in |
//! | d, no receipt yet | | – | 4xx but 408 409 423 425 429 499 | settled by status |
//! | d | | – | | nothing: ask the status route |
//! | c | | – | a redirect that the browser hides | nothing: ask the status route |
//! | s c | | – | 2xx, no HTML; 501; 4xx but 403 408 421 425 429 499 | this server does not remember it |
//! | s c | | – | | nothing yet: again |

use alloc::string::String;
use core::ops::RangeInclusive;

use super::event::Answer;
use super::record::Millis;
use crate::json::{Document, Value};
use crate::problem::Code;
use crate::receipt::Word;

/// What was asked when the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The request itself was sent.
    Delivery,
    /// How does the key stand?
    Status,
    /// The key was to be closed.
    Close,
}

/// What is known of who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Its receipts are due: one was seen, or the application says so.
    Samekey,
    /// Nothing yet.
    New,
    /// It takes keys and knows no receipts, the application says.
    Status,
}

/// What an answer proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It ended with this answer; `done` or `failed` by the receipt.
    Ended,
    /// It ended; the answer is not here.
    EndedBefore,
    /// It did not and will not happen.
    Closed,
    /// The key belongs to another payload.
    Conflict,
    /// This delivery was refused and did nothing; another one may have.
    Refused,
    /// The key is older than the server's memory.
    KeyExpired,
    /// Somebody has to sign in.
    SignIn,
    /// Somebody else is signed in.
    OtherActor,
    /// Nothing yet: the same exchange again, later.
    Again,
    /// Nothing: ask the status route before anything else.
    Ask,
    /// Nothing stands in the way of another delivery of the same key.
    Free,
    /// It may or may not have happened.
    Uncertain,
    /// The status is the outcome; the server declared that it does not cover the route.
    Uncovered,
    /// The status is the outcome.
    ByStatus,
    /// Whoever answers does not remember keys.
    NoMemory,
}

/// A condition on the receipt.
#[derive(Clone, Copy, Debug)]
enum Says {
    Anything,
    Word(Word),
    /// A receipt with any word.
    Something,
}

/// One row.
struct Row {
    on: &'static [On],
    /// Any of these; none: whatever the code is.
    codes: &'static [Code],
    says: Says,
    /// In any of these; none: whatever the status is.
    statuses: &'static [RangeInclusive<u16>],
    /// Only of this server.
    server: Option<Server>,
    /// Not a web page.
    no_html: bool,
    proves: Proof,
}

const ANY: &[On] = &[On::Delivery, On::Status, On::Close];
const DELIVERY: &[On] = &[On::Delivery];
const STATUS: &[On] = &[On::Status];
const CLOSE: &[On] = &[On::Close];
const ROUTE: &[On] = &[On::Status, On::Close];

const ALL: &[RangeInclusive<u16>] = &[];
const SIGN_IN: &[RangeInclusive<u16>] = &[401..=401, 407..=407];

const fn code(on: &'static [On], codes: &'static [Code], proves: Proof) -> Row {
    Row { on, codes, says: Says::Anything, statuses: ALL, server: None, no_html: false, proves }
}

const fn word(on: &'static [On], word: Word, statuses: &'static [RangeInclusive<u16>], proves: Proof) -> Row {
    Row { on, codes: &[], says: Says::Word(word), statuses, server: None, no_html: false, proves }
}

const fn other(on: &'static [On], proves: Proof) -> Row {
    Row { on, codes: &[], says: Says::Something, statuses: ALL, server: None, no_html: false, proves }
}

const fn bare(
    on: &'static [On],
    server: Option<Server>,
    statuses: &'static [RangeInclusive<u16>],
    proves: Proof,
) -> Row {
    Row { on, codes: &[], says: Says::Anything, statuses, server, no_html: false, proves }
}

static TABLE: &[Row] = &[
    code(ANY, &[Code::ResponseNotStored], Proof::EndedBefore),
    code(ANY, &[Code::KeyClosed], Proof::Closed),
    code(ANY, &[Code::KeyPayloadMismatch], Proof::Conflict),
    code(DELIVERY, &[Code::KeyRequired, Code::KeyInvalid, Code::PayloadTooLarge], Proof::Refused),
    code(ANY, &[Code::KeyExpired], Proof::KeyExpired),
    code(ANY, &[Code::ActorRequired], Proof::SignIn),
    code(ANY, &[Code::ActorChanged], Proof::OtherActor),
    code(ANY, &[Code::OutcomeUncertain, Code::UpstreamTimeout], Proof::Uncertain),
    code(CLOSE, &[Code::OperationReleased], Proof::Uncertain),
    code(ANY, Code::ALL, Proof::Again),
    word(&[On::Delivery, On::Close], Word::Completed, ALL, Proof::Ended),
    word(&[On::Delivery, On::Close], Word::Failed, ALL, Proof::Ended),
    word(STATUS, Word::Completed, ALL, Proof::EndedBefore),
    word(STATUS, Word::Failed, ALL, Proof::EndedBefore),
    word(DELIVERY, Word::Released, &[401..=401, 403..=403, 407..=407], Proof::SignIn),
    word(DELIVERY, Word::Released, ALL, Proof::Again),
    word(STATUS, Word::Released, ALL, Proof::Free),
    word(CLOSE, Word::Released, ALL, Proof::Again),
    word(ANY, Word::InProgress, ALL, Proof::Again),
    word(ANY, Word::Uncertain, ALL, Proof::Uncertain),
    word(ROUTE, Word::Refused, &[200..=299], Proof::Closed),
    word(DELIVERY, Word::Refused, &[409..=409, 422..=422], Proof::Conflict),
    word(DELIVERY, Word::Refused, &[413..=413], Proof::Refused),
    word(ANY, Word::Expired, ALL, Proof::KeyExpired),
    word(DELIVERY, Word::NotCovered, ALL, Proof::Uncovered),
    word(ROUTE, Word::NotCovered, ALL, Proof::NoMemory),
    word(ANY, Word::None, SIGN_IN, Proof::SignIn),
    word(STATUS, Word::None, &[404..=404], Proof::Free),
    word(ANY, Word::Unknown, ALL, Proof::Again),
    other(DELIVERY, Proof::Ask),
    other(ROUTE, Proof::Again),
    bare(DELIVERY, Some(Server::Status), SIGN_IN, Proof::SignIn),
    bare(DELIVERY, Some(Server::Status), &[1..=199, 408..=409, 425..=425, 429..=429, 500..=u16::MAX], Proof::Again),
    bare(DELIVERY, Some(Server::Status), ALL, Proof::ByStatus),
    bare(ANY, None, SIGN_IN, Proof::SignIn),
    Row { no_html: true, ..bare(DELIVERY, Some(Server::New), &[200..=299], Proof::ByStatus) },
    bare(DELIVERY, Some(Server::New), &[403..=403], Proof::SignIn),
    bare(DELIVERY, Some(Server::New), &[400..=407, 410..=422, 424..=424, 426..=428, 430..=498], Proof::ByStatus),
    bare(DELIVERY, None, ALL, Proof::Ask),
    bare(CLOSE, None, &[0..=0], Proof::Ask),
    Row { no_html: true, ..bare(ROUTE, None, &[200..=299], Proof::NoMemory) },
    bare(ROUTE, None, &[400..=402, 404..=407, 409..=420, 422..=424, 426..=428, 430..=498, 501..=501], Proof::NoMemory),
    bare(ROUTE, None, ALL, Proof::Again),
];

/// What went wrong last, as `Intent.lastError` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A problem of ours.
    Code(Code),
    /// No whole answer.
    Network,
    /// No whole answer in time.
    Timeout,
    /// An answer without a receipt where one was due.
    NoReceipt,
    /// The route is not covered: a configuration error.
    NotCovered,
    /// `headers()` or `account()` threw.
    Headers,
    /// The store refused or broke.
    Storage,
    /// Only a status.
    Status,
}

/// An answer as far as the rule looks at it, and what it says beside.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What it proves.
    pub proof: Proof,
    /// The code, if the problem is ours.
    pub code: Option<Code>,
    /// The receipt's word; an unknown one is [`Word::Unknown`].
    pub word: Option<Word>,
    /// `effect=unknown`, or nobody says how it ended.
    pub effect_unknown: bool,
    /// How it ended, where the answer tells of another one.
    pub status_code: Option<u16>,
    /// The answer is kept on the server.
    pub response_stored: bool,
    /// The server's clock.
    pub server_time: Option<Millis>,
}

/// Reads an answer.
pub fn find(on: On, answer: &Answer, server: Server) -> Finding {
    let receipt = answer.header("samekey-state");
    let word = receipt.map(|text| word_of(text.split(';').next().unwrap_or_default().trim()));
    let document = Document::read(&answer.body).ok().filter(|_| is_json(answer));
    let body = document.as_ref().map(Document::root);
    let code = body.and_then(|body| code_of(answer, body)).filter(|code| fits(*code, word));
    let number = |name: &[u8]| body.and_then(|body| body.member(name)).and_then(number);
    let status_code = number(b"status_code").and_then(|status| u16::try_from(status).ok());
    let effect_unknown = receipt.is_some_and(|text| text.split(';').any(|part| part.trim() == "effect=unknown"));
    Finding {
        // There is a row for everything.
        proof: row(on, code, word, answer, server).map_or(Proof::Ask, |row| row.proves),
        code,
        word,
        effect_unknown,
        status_code,
        response_stored: body
            .and_then(|body| body.member(b"response_stored"))
            .is_some_and(|it| it.literal() == Some(b"true")),
        server_time: number(b"server_time").or_else(|| answer.header("date").and_then(super::date::parse)),
    }
}

fn row(on: On, code: Option<Code>, word: Option<Word>, answer: &Answer, server: Server) -> Option<&'static Row> {
    TABLE.iter().find(|row| {
        row.on.contains(&on)
            && (row.codes.is_empty() || code.is_some_and(|code| row.codes.contains(&code)))
            && match row.says {
                Says::Anything => !row.codes.is_empty() || word.is_none(),
                Says::Word(said) => word == Some(said),
                Says::Something => word.is_some(),
            }
            && (row.statuses.is_empty() || row.statuses.iter().any(|range| range.contains(&answer.status)))
            && row.server.is_none_or(|only| only == server)
            && !(row.no_html && is_html(answer))
    })
}

fn media_type(answer: &Answer) -> &str {
    answer.header("content-type").and_then(|value| value.split(';').next()).unwrap_or_default().trim()
}

fn is_json(answer: &Answer) -> bool {
    let essence = media_type(answer);
    essence == "application/json" || essence == "application/problem+json"
}

/// A page for people: of a captive portal, a login, an error, or the shell of a single-page application.
fn is_html(answer: &Answer) -> bool {
    matches!(media_type(answer), "text/html" | "application/xhtml+xml")
}

fn word_of(text: &str) -> Word {
    Word::ALL.into_iter().find(|word| word.as_str() == text).unwrap_or(Word::Unknown)
}

/// The code of a problem that is ours.
fn code_of(answer: &Answer, body: Value<'_>) -> Option<Code> {
    if media_type(answer) != "application/problem+json" {
        return None;
    }
    let name = core::str::from_utf8(body.member(b"code")?.string()?).ok()?;
    let page = core::str::from_utf8(body.member(b"type")?.string()?).ok()?;
    page.strip_suffix(name)?.strip_suffix("/problems/")?;
    Code::from_name(name)
}

/// Whether samekey says this code with this receipt on a route for clients.
fn fits(code: Code, word: Option<Word>) -> bool {
    match (code.row().word, word) {
        (Some(own), Some(word)) => own == word,
        (None, Some(word)) => code == Code::ResponseNotStored && matches!(word, Word::Completed | Word::Failed),
        (own, None) => own.is_some() || code == Code::ResponseNotStored,
    }
}

fn number(value: Value<'_>) -> Option<Millis> {
    core::str::from_utf8(value.literal()?).ok()?.parse().ok()
}

/// The status link of an answer: the target of `rel="status"`.
pub(super) fn status_link(answer: &Answer) -> Option<String> {
    answer.header("link")?.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), "rel=\"status\"" | "rel=status"))
            .then(|| target.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Every (what was asked, code, receipt, status, server, page) meets a row, and no row is there for nothing.
    #[test]
    fn there_is_a_row_for_everything_and_something_for_every_row() {
        let mut met = vec![0_u32; TABLE.len()];
        let codes = || Code::ALL.iter().copied().map(Some).chain([None]);
        let words = || Word::ALL.into_iter().map(Some).chain([None]);
        for on in [On::Delivery, On::Status, On::Close] {
            for server in [Server::Samekey, Server::New, Server::Status] {
                for status in [0, 100].into_iter().chain(200..=602).chain([999, u16::MAX]) {
                    for html in [false, true] {
                        let kind = if html { "text/html" } else { "application/json" };
                        let headers = vec![("content-type".into(), kind.into())];
                        let answer = Answer { status, headers, ..Answer::default() };
                        for (code, word) in codes().flat_map(|code| words().map(move |word| (code, word))) {
                            let row = row(on, code, word, &answer, server);
                            let row = row.expect("a row for everything");
                            met[TABLE.iter().position(|other| core::ptr::eq(other, row)).unwrap()] += 1;
                        }
                    }
                }
            }
        }
        for (at, met) in met.iter().enumerate() {
            assert!(*met > 0, "row {at} proves {:?} to nobody", TABLE[at].proves);
        }
    }

    #[test]
    fn a_status_link_is_found_among_others() {
        let link = |value: &str| {
            let headers = vec![("link".into(), value.into())];
            status_link(&Answer { headers, ..Answer::default() })
        };
        assert_eq!(link("</x>; rel=\"status\"").as_deref(), Some("/x"));
        assert_eq!(link("</a>; rel=next, </b?c=d%20e>; title=x; rel=status").as_deref(), Some("/b?c=d%20e"));
        assert_eq!(link("</x>; rel=\"next\""), None);
    }
}
