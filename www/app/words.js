// States in plain words.

/** Times as the clock on the wall says them, also while the app's own clock is off. */
export const time = (moment) => new Date(moment).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

const SAID = {
  operation_in_progress: "the first delivery still runs on the server",
  outcome_uncertain: "the server does not know whether it happened",
  operation_released: "the server was not ready; nothing happened yet",
  actor_required: "the server does not know who you are",
  actor_changed: "somebody else is signed in",
  overloaded: "the server is busy",
  store_unavailable: "the server cannot write now",
  network: "no answer came",
  timeout: "no answer came in time",
  no_receipt: "somebody other than the service answered",
};
export const said = (code) => SAID[code] ?? code;

/** `{ word, tone, text }` of an intent. `skew` is what the app's clock is off by. */
export function tell(intent, skew = 0) {
  const until = intent.nextAttemptAt && time(intent.nextAttemptAt - skew);
  const why = intent.lastError ? ` (${said(intent.lastError.code)})` : "";
  switch (intent.state) {
    case "queued": return { word: "queued", tone: "wait", text: "Saved on this device. It goes out next." };
    case "sending": return { word: "sending", tone: "wait", text: intent.deliveries > 1 ? `On its way again, delivery ${intent.deliveries}, with the same key.` : "On its way." };
    case "waiting":
      if (intent.waitingFor === "other_tab") return { word: "waiting", tone: "wait", text: "Another tab is sending it." };
      return { word: "waiting", tone: "wait", text: `Saved${why}. Waiting${until ? ` until ${until}` : ""}, then the same key goes out again.` };
    case "needs_auth": return { word: "needs sign-in", tone: "bad", text: "Saved. Sign in, and it goes out with the same key." };
    case "unknown": return { word: "outcome unknown", tone: "bad", text: `It may have happened${why}. It is being found out; nothing runs twice meanwhile.${until ? ` Next look at ${until}.` : ""}` };
    case "stalled": return { word: "not confirmed", tone: "bad", text: "Not confirmed in the time there was. It is kept; go on whenever you like." };
    case "expired": return { word: "expired", tone: "bad", text: "Too old to repeat safely: the server may have forgotten it. Check before you send it anew." };
    case "conflict": return { word: "conflict", tone: "bad", text: "Its key belongs to another ticket. Nothing was sent twice." };
    case "cancelled": return { word: "cancelled", tone: "none", text: "Cancelled: it did not and will not happen." };
    case "failed": return { word: "failed", tone: "bad", text: intent.effect === "unknown" ? "The server failed half-way. Check before you send it anew." : "The server refused it. Nothing happened." };
    default: return { word: "done", tone: "ok", text: intent.response?.replayed ? "Done once. The answer was lost; the server gave it again." : "Done." };
  }
}

export const HINTS = {
  samekey: "Kept on this device before the first byte goes out, and repeated under one key until the outcome is known.",
  plain: "A plain fetch: after 3 s without an answer it tries again, three times. Nothing is kept.",
};
