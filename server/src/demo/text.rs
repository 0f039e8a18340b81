//! What the demo prints: where to look, and samekey in under a minute as lines to paste.

use std::net::SocketAddr;

/// Where the demo's parts listen.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// The page and the service.
    pub(crate) samekey: SocketAddr,
    /// The operator's page.
    pub(crate) admin: SocketAddr,
    /// The external system.
    pub(crate) provider: SocketAddr,
    /// What opens the operator's page.
    pub(crate) token: String,
}

/// The demo's text for these addresses: every indented line can be pasted into a shell.
#[must_use]
pub(crate) fn walkthrough(addresses: &Addresses) -> String {
    let Addresses { samekey, admin, provider, token } = addresses;
    format!(
        r#"
samekey demo: field-service tickets, and a network that you may break.

  the app        http://{samekey}/
  the operator   http://{admin}/ops/#{token}
  the provider   http://{provider}/notifications

Or in a second terminal, first this:

    ticket() {{ curl -si http://{samekey}/api/tickets -H 'Authorization: Bearer ann' -H 'Content-Type: application/json' "$@"; echo; }}
    chaos() {{ curl -s http://{samekey}/demo/switches -d "$1"; echo; }}

1. A ticket. The key names your intent; samekey keeps the answer.

    ticket -H 'Idempotency-Key: k1' -d '{{"title":"No light","place":"Hall 3"}}'

2. The same again, as a client does that never saw the answer: the very same ticket,
   marked "idempotent-replayed: true". Another payload under the key is refused.

    ticket -H 'Idempotency-Key: k1' -d '{{"title":"No light","place":"Hall 3"}}'
    ticket -H 'Idempotency-Key: k1' -d '{{"title":"No heat","place":"Hall 3"}}'

3. Lose an answer: curl hears nothing. The retry gets the answer; there is one ticket.

    chaos '{{"lose_answer":true}}'
    ticket -H 'Idempotency-Key: k2' -d '{{"title":"Lift stuck","place":"Tower"}}'
    ticket -H 'Idempotency-Key: k2' -d '{{"title":"Lift stuck","place":"Tower"}}'

4. What samekey cannot know, it does not guess. The provider notifies somebody and dies before it
   answers: outcome_uncertain, and nothing runs again. Ten seconds later samekey has asked the
   provider, and the same line gets its ticket.

    chaos '{{"provider_crash":true}}'
    ticket -H 'Idempotency-Key: k3' -d '{{"title":"Water in the cellar","place":"Depot"}}'

5. The ledger: three tickets, three notifications, no duplicates. Without the key, each line
   of before is one more.

    curl -s http://{samekey}/demo/ledger

Ctrl-C ends the demo and removes what it stored.
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_a_line_to_paste_and_says_where() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text =
            walkthrough(&Addresses { samekey: at(1), admin: at(2), provider: at(3), token: "samekey_00".into() });
        for address in ["http://127.0.0.1:1/", "http://127.0.0.1:2/ops/#samekey_00", "http://127.0.0.1:3/"] {
            assert!(text.contains(address), "{address} in {text}");
        }
        let pasted = text.lines().filter(|line| line.starts_with("    ")).count();
        assert!(pasted >= 9, "{text}");
        for line in text.lines().filter(|line| !line.starts_with("    ")) {
            assert!(line.chars().count() <= 110, "{line}");
        }
    }
}
