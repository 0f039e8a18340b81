//! A small Stripe-shaped service that knows nothing of idempotency: every request it reads is a charge.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::upstream::Received;
use support::{Reply, Upstream};

/// What it does after it has charged (or, for `Busy`, instead of charging).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mood {
    /// Answers the charge.
    Well,
    /// Charges, then resets the connection.
    Resets,
    /// Charges, then closes the connection within the answer.
    Truncates,
    /// Charges, then answers 500 in Stripe's words.
    Breaks,
    /// Charges, then answers a gateway's 503 in HTML.
    Gateway,
    /// Charges, and answers so much later.
    Slow(Duration),
    /// Does not charge: 503 with `Retry-After: 1`.
    Busy,
    /// Does not charge: 402, the card was declined.
    Declines,
}

/// The service and its ledger.
pub(crate) struct Shop {
    pub(crate) service: Upstream,
    moods: Arc<Mutex<VecDeque<Mood>>>,
    charges: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let shop = Self::closed();
        shop.service.accept();
        shop
    }

    /// Refuses connections until `service.accept()`.
    pub(crate) fn closed() -> Self {
        let service = Upstream::unreachable();
        let (moods, charges) = (Arc::<Mutex<VecDeque<Mood>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        service.script({
            let (moods, charges) = (moods.clone(), charges.clone());
            move |received| {
                let mood = moods.lock().expect("moods").pop_front().unwrap_or(Mood::Well);
                serve(received, mood, &mut charges.lock().expect("charges"))
            }
        });
        Self { service, moods, charges }
    }

    /// How it takes the next requests, one after the other; well after that.
    pub(crate) fn moods(&self, moods: &[Mood]) {
        self.moods.lock().expect("moods").extend(moods);
    }

    /// The charges made, by id.
    pub(crate) fn charges(&self) -> Vec<String> {
        self.charges.lock().expect("charges").clone()
    }
}

fn serve(received: &Received, mood: Mood, charges: &mut Vec<String>) -> Reply {
    let error = |status, kind: &str, message: &str| {
        Reply::json(status, &format!(r#"{{"error":{{"type":"{kind}","message":"{message}"}}}}"#))
    };
    match mood {
        Mood::Busy => return error(503, "api_error", "busy").header("Retry-After", "1"),
        Mood::Declines => return error(402, "card_error", "declined"),
        _ => {}
    }
    let id = format!("ch_{}", charges.len() + 1);
    charges.push(id.clone());
    let amount = amount(&received.body);
    let charged = Reply::json(200, &format!(r#"{{"id":"{id}","object":"charge","amount":{amount}}}"#));
    match mood {
        Mood::Well | Mood::Busy | Mood::Declines => charged,
        Mood::Resets => Reply::reset(),
        Mood::Truncates => charged.truncated(),
        Mood::Breaks => error(500, "api_error", "broken after the charge"),
        Mood::Gateway => Reply::with(503, "text/html", "<h1>Service Unavailable</h1>"),
        Mood::Slow(pause) => charged.after(pause),
    }
}

/// Of a form or a JSON body.
fn amount(body: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(body);
    let after = text.split_once("amount").expect("an amount").1;
    let digits = after.trim_start_matches(['"', ':', '=', ' ']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().expect("a number")
}
