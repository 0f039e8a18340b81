//! What the demo prints: samekey in under a minute, as lines to paste.

use std::net::SocketAddr;

/// Where the demo's parts listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    /// The proxy: what clients call.
    pub(crate) samekey: SocketAddr,
    /// Its health endpoints.
    pub(crate) admin: SocketAddr,
    /// The shop behind it.
    pub(crate) shop: SocketAddr,
}

/// The demo's text for these addresses: every indented line can be pasted into a shell.
#[must_use]
pub(crate) fn walkthrough(addresses: Addresses) -> String {
    let Addresses { samekey, admin, shop } = addresses;
    format!(
        r#"
samekey stands in front of a small shop that knows nothing of idempotency:

    you -> samekey http://{samekey} -> shop http://{shop}

Open a second terminal and paste this first:

    order() {{ curl -si http://{samekey}/orders -H 'Authorization: Bearer demo' -H 'Content-Type: application/json' "$@"; echo; }}

1. Order tea. The key names your intent; samekey keeps the shop's answer.

    order -H 'Idempotency-Key: k1' -d '{{"sku":"tea","quantity":1}}'

2. Paste the same line again, as a client does that never saw the answer. You get the very same order,
   marked "idempotent-replayed: true", and the shop is not asked.

    order -H 'Idempotency-Key: k1' -d '{{"sku":"tea","quantity":1}}'

3. Ask for something else under the same key: 409 key_payload_mismatch, the shop is not asked.

    order -H 'Idempotency-Key: k1' -d '{{"sku":"tea","quantity":100}}'

4. Lose an answer: curl hangs up after a second, the shop needs three. The retry waits for the first
   delivery and gets its answer; coffee is ordered once.

    order -m 1 -H 'Idempotency-Key: k2' -H 'Shop-Delay-Ms: 3000' -d '{{"sku":"coffee","quantity":1}}'
    order -H 'Idempotency-Key: k2' -d '{{"sku":"coffee","quantity":1}}'

5. The ledger: one tea, one coffee.

    curl -s http://{samekey}/orders

6. What samekey cannot know, it does not guess. Here the shop takes the order and drops the connection
   without a word: was it taken? Both lines hear 409 outcome_uncertain, the second does not run, and the
   ledger has one cake.

    order -H 'Idempotency-Key: k3' -H 'Shop-Fault: lost-answer' -d '{{"sku":"cake","quantity":1}}'
    order -H 'Idempotency-Key: k3' -d '{{"sku":"cake","quantity":1}}'
    curl -s http://{samekey}/orders

Without the key, or straight at http://{shop}/orders, each paste is one more order.
Health: http://{admin}/readyz. Ctrl-C ends the demo and removes what it stored.
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_a_line_to_paste_and_fits_a_terminal() {
        let text = walkthrough(Addresses {
            samekey: ([127, 0, 0, 1], 8787).into(),
            admin: ([127, 0, 0, 1], 8788).into(),
            shop: ([127, 0, 0, 1], 8789).into(),
        });
        let pasted: Vec<&str> = text.lines().filter(|line| line.starts_with("    ")).collect();
        assert!(pasted.iter().any(|line| line.contains("order() { curl")));
        assert!(pasted.iter().filter(|line| line.contains("order -H")).count() >= 6);
        assert!(!text.contains("{{") && !text.contains("}}"), "an escape was left over:\n{text}");
        for line in text.lines().filter(|line| !line.starts_with("    ")) {
            assert!(line.len() <= 110, "{line}");
        }
    }
}
