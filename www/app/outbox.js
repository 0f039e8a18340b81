// The list of what was wanted: each intent with its state, its key, its deliveries, and what the server said.
import * as deliveries from "./deliveries.js";
import { $, el, fill } from "./parts.js";
import { drop } from "./naive.js";
import { said, tell, time } from "./words.js";
import { skew } from "./world.js";

const SETTLED = ["done", "failed", "conflict", "cancelled"];
export const settled = ({ state }) => SETTLED.includes(state);
const NAMES = { ann: "Ann", ben: "Ben" };

/** What the service answered, in one line. */
function answer(intent) {
  const { response } = intent;
  if (!response) return undefined;
  let body = {};
  try {
    body = JSON.parse(new TextDecoder().decode(response.body));
  } catch {
    // Not kept, or no JSON.
  }
  const what = body.id !== undefined ? `ticket ${body.id}` : (body.detail ?? "");
  return `${response.status}${what ? `, ${what}` : ""}`;
}

function row(client, intent) {
  const { word, tone, text } = tell(intent, skew());
  const sent = deliveries.of(intent.id);
  const button = (act, label, run) => el("button", { class: "quiet", type: "button", "data-act": act, "aria-label": `${label}: ${intent.label}`, onclick: run }, label);
  const moving = ["queued", "sending", "waiting", "stalled", "unknown"].includes(intent.state);
  return el("li", { "data-state": intent.state, "data-intent": intent.id },
    el("div", { class: "line" },
      el("span", { class: "name" }, intent.label),
      el("span", { class: "pill", "data-tone": tone }, word)),
    el("p", { class: "words" }, text),
    answer(intent) && el("p", { class: "meta" }, `The server said: ${answer(intent)}`),
    el("div", { class: "foot" },
    el("details", {},
      el("summary", {}, `${sent.length || intent.deliveries || "no"} ${(sent.length || intent.deliveries) === 1 ? "delivery" : "deliveries"}`),
      el("dl", {},
        el("dt", {}, "Key"), el("dd", {}, intent.key ? el("code", {}, intent.key) : "made with the first delivery"),
        el("dt", {}, "For"), el("dd", {}, NAMES[intent.account] ?? intent.account),
        intent.lastError && el("dt", {}, "Last trouble"), intent.lastError && el("dd", {}, `${said(intent.lastError.code)}${intent.lastError.status ? `, ${intent.lastError.status}` : ""}`)),
      sent.length > 0 && el("ol", { "aria-label": "Deliveries" }, ...sent.map(({ request, at, heard }) => el("li", {}, `${time(at)} `, el("code", {}, request), ` ${heard}`)))),
    el("div", { class: "actions" },
      intent.state === "needs_auth" && button("sign-in", "Sign in", () => dispatchEvent(new Event("sign-in"))),
      ["waiting", "unknown", "stalled"].includes(intent.state) && button("retry", "Retry now", () => client.resume(intent.id)),
      (moving || intent.state === "needs_auth") && intent.state !== "unknown" && button("cancel", "Cancel", (event) => {
        event.target.disabled = true;
        client.cancel(intent.id);
      }),
      intent.state === "expired" && button("anyway", "Send anyway", () => confirm("The server may have forgotten it, so this may make two. Send it?") && client.resume(intent.id, { acceptRisk: "may_double" })),
      (settled(intent) || intent.state === "expired") && button("dismiss", "Dismiss", () => client.dismiss(intent.id, intent.state === "expired" ? { acceptRisk: "may_double" } : undefined)))),
  );
}

const NAIVE = {
  sending: ["sending", "wait", (row) => (row.tries > 1 ? `Sent again, try ${row.tries}.` : "Sent.")],
  retrying: ["retrying", "wait", (row) => `${row.said[0].toUpperCase()}${row.said.slice(1)}. It tries again in a second, as a new request.`],
  done: ["done", "ok", (row) => (row.tries > 1 ? `Answered at try ${row.tries}. Nobody knows what became of the others.` : "Answered.")],
  failed: ["failed", "bad", () => "Refused."],
  "gave up": ["gave up", "bad", (row) => `${row.tries} tries, no answer. It may have happened, perhaps several times.`],
};

function plainRow(one) {
  const [word, tone, text] = NAIVE[one.state];
  return el("li", { "data-state": one.state, "data-intent": one.id },
    el("div", { class: "line" }, el("span", { class: "name" }, one.label), el("span", { class: "pill", "data-tone": tone }, word)),
    el("p", { class: "words" }, text(one)),
    el("div", { class: "foot" },
      el("p", { class: "meta" }, `without samekey${one.said ? ` · the server said: ${one.said}` : ""}`),
      !["sending", "retrying"].includes(one.state) && el("div", { class: "actions" }, el("button", { class: "quiet", type: "button", "data-act": "dismiss", "aria-label": `Dismiss: ${one.label}`, onclick: () => drop(one.id) }, "Dismiss"))));
}

export function showOutbox(client, plain) {
  const intents = client.outbox.getSnapshot();
  const rows = [
    ...plain.map((one) => ({ at: one.at, id: one.id, stamp: JSON.stringify(one), make: () => plainRow(one) })),
    ...intents.map((intent) => ({
      at: intent.createdAt,
      id: intent.id,
      stamp: JSON.stringify([skew(), intent.state, intent.updatedAt, intent.nextAttemptAt, intent.waitingFor, intent.lastError, intent.key, deliveries.of(intent.id)]),
      make: () => row(client, intent),
    })),
  ].sort((a, b) => b.at - a.at);
  fill($("outbox"), rows);
  $("outbox-empty").hidden = rows.length > 0;
  $("clear").hidden = !intents.some(settled);
}
