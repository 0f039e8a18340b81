//! What each code means, for people: the pages that `type` leads to.

use super::Code;

/// The three things that somebody who met a code wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// What happened.
    pub happened: &'static str,
    /// What the client does next.
    pub client: &'static str,
    /// What the operator does.
    pub operator: &'static str,
}

impl Code {
    /// The page that explains the code.
    pub const fn page(self) -> Page {
        let (happened, client, operator) = match self {
            Self::OperationInProgress => (
                "An earlier delivery of the same key is running, and did not end while this one waited for it.",
                "Send the same request with the same key again after Retry-After, or follow the status link. The answer of the first delivery is replayed.",
                "Nothing. If this lasts for longer than the operation's timeout, look whether a server was killed: its claims count as running until their lease has passed.",
            ),
            Self::OutcomeUncertain => (
                "An earlier delivery ended without an answer that tells whether the command took effect: the connection broke, the service answered with a gateway's error, or a server was killed. The command will not run again by itself.",
                "Follow the status link and tell the person that the outcome is not known yet. Do not send the command with another key.",
                "Find out whether the command took effect, by the key or the provider key that the service received, and settle the record.",
            ),
            Self::KeyPayloadMismatch => (
                "The key was used before, with another payload. Nothing was run, and the earlier command is as it was.",
                "Send the payload that the key was first used with, or a new key for a new command. A key belongs to one intent: mint it when the person decides, not per form or per session.",
                "If the payloads differ only in what does not matter, such as a time stamp or the state of a form, leave that out of the operation's significant fields.",
            ),
            Self::KeyExpired => (
                "The key carries its time, and the server has forgotten keys of that time. Whether the command ever ran is not known here any more.",
                "Ask the person to look whether the command took effect before it is sent with a new key.",
                "If clients retry for so long on purpose, raise the time for which commands are remembered.",
            ),
            Self::ResponseNotStored => (
                "The command is done. Its response is not at hand: it was too large to keep, it is older than the retention, or the operation keeps the status only.",
                "Do not send the command again. Samekey-State and status_code say how it ended; look the result up by result_id or Location.",
                "Raise the largest answer that is kept, or the retention, if clients need the answer itself.",
            ),
            Self::KeyRequired => (
                "This operation takes no request without the header Idempotency-Key.",
                "Mint one key for one intent, for instance a UUIDv7, keep it until the outcome is known, and send it with every delivery.",
                "Nothing, or make the key optional for this operation while clients learn to send it.",
            ),
            Self::KeyInvalid => (
                "The header Idempotency-Key does not hold one key: 1 to 255 visible ASCII characters, bare or as a quoted string, in one header line. Where no actor is known, the key must contain a UUID.",
                "Mend the request; the detail names the defect. Nothing was run.",
                "Nothing.",
            ),
            Self::BodyInvalid => (
                "The request's body ended early or broke its framing. Nothing was run.",
                "Send the whole request again with the same key.",
                "If this is frequent, look at what stands between clients and this server.",
            ),
            Self::BodyTimeout => (
                "The request's body stood still, or came more slowly than a body may that holds the server's memory. Nothing was run.",
                "Send the whole request again with the same key, over a better connection or with a smaller body.",
                "If this is frequent, look at what stands between clients and this server.",
            ),
            Self::OperationReleased => (
                "An earlier delivery did nothing, and the service asked for a pause that is not over yet.",
                "Send the same request with the same key again after Retry-After.",
                "Nothing; the service asked for the pause.",
            ),
            Self::KeyClosed => (
                "The client closed the key before the command ran. It did not and will not happen under this key.",
                "Send the command with a new key if it is wanted after all.",
                "Nothing.",
            ),
            Self::ActorRequired => (
                "A key is kept for somebody, and nobody is signed in. The key was not used up.",
                "Sign in, then send the same request with the same key.",
                "If callers are signed in and hear this, the way in which the actor is found does not fit: see the first such refusal in the log.",
            ),
            Self::ActorChanged => (
                "The key is known under other credentials, or the request was made for another actor than the one who is signed in. Nothing was run.",
                "If it is still the same person, look whether the command took effect before it is sent with a new key. Otherwise drop it.",
                "If tokens are renewed often, let the actor be found by something that stays, such as the subject of a token.",
            ),
            Self::PayloadTooLarge => (
                "The request's body is larger than a request with a key may be. Nothing was run.",
                "Send less, or send large content apart from the command.",
                "Raise the largest body of this operation if it must be larger.",
            ),
            Self::QuotaExceeded => (
                "Too many commands of this actor are in progress. Nothing was run.",
                "Wait for some of them to end, then send the same request with the same key.",
                "Look whether the service is slow, or raise the quota.",
            ),
            Self::Overloaded => (
                "A limit of the server is reached: memory for bodies, its queue, the disk's free space, or somebody else's write lock. This request ran nothing.",
                "Send the same request with the same key again after Retry-After.",
                "Look at the log for which limit it is, and at the disk first.",
            ),
            Self::StoreUnavailable => (
                "The store of keys cannot answer. This request ran nothing: without the store nobody knows whether it ran before.",
                "Send the same request with the same key again after Retry-After.",
                "The log names the file and what is wrong with it.",
            ),
            Self::UpstreamUnreachable => (
                "The service could not be reached. Nothing was sent to it.",
                "Send the same request with the same key again; it will run.",
                "Look whether the service runs, and whether its address is right.",
            ),
            Self::UpstreamTimeout => (
                "The service was asked and gave no whole answer in time. The command may have taken effect. A late answer will still be kept.",
                "Follow the status link, or send the same request with the same key to get a late answer. Do not send the command with another key.",
                "Look at why the service is slow; if it may be, raise the timeout. If no late answer comes, settle the record.",
            ),
            Self::RequestInvalid => (
                "A call of the claim API or of the records is not as its description says: a member is missing, is not known, or has another form. Nothing was done.",
                "Mend the call; the detail names the member. The listener describes its calls itself, under openapi.json.",
                "Nothing.",
            ),
            Self::RecordChanged => (
                "Something happened to the record since it was looked at, or its outcome is not unknown any more. Nothing was written.",
                "Look at the record again.",
                "Look at the record again, and settle it on what you find then.",
            ),
            Self::ClaimStale => (
                "The claim is not held any more: it ended, lapsed, or was settled by somebody else.",
                "Stop working on it. Its record says how it stands.",
                "If holders lose claims often, give the claims longer leases or timeouts.",
            ),
            Self::EffectUnfinished => (
                "An effect of this claim was started, and nobody said how it ended.",
                "Say how the effect ended before the claim ends.",
                "Nothing.",
            ),
            Self::ClaimNotFound => {
                ("There is no such claim or record, or it is forgotten.", "Stop working on it.", "Nothing.")
            }
            Self::Forbidden => (
                "The token does not allow this.",
                "Use a token with the scope that the call needs.",
                "Make a token with that scope, if the program is to have it.",
            ),
        };
        Page { happened, client, operator }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_says_something_else() {
        for (at, code) in Code::ALL.iter().enumerate() {
            let page = code.page();
            for text in [page.happened, page.client, page.operator] {
                assert!(text.ends_with('.') && !text.contains(['<', '>', '&']), "{}: {text}", code.as_str());
            }
            let others = &Code::ALL[at + 1..];
            assert!(others.iter().all(|other| other.page().happened != page.happened), "{}", code.as_str());
        }
    }
}
