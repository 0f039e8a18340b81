// The switches, the two tallies, and the ledger: what the demonstrator sees, who stands outside the broken network.
import { $, el, fill } from "./parts.js";
import { time } from "./words.js";
import { change, offline, world } from "./world.js";

const GROUPS = [
  ["The network", [
    ["lose_answer", "Lose the next answer", "It arrives and happens; nobody hears of it."],
    ["lose_request", "Lose the next request", "It never arrives."],
    ["duplicate", "Deliver everything twice", "At the same time."],
  ]],
  ["The server", [["slow", "Slow handler", "Four seconds; the app waits three."]]],
  ["The provider it notifies", [
    ["provider_crash", "Crash after the next effect", "It notifies somebody, and dies."],
    ["provider_lose_answer", "Lose its answers", "It notifies, and the server hears nothing."],
    ["provider_slow", "Slow", "Two and a half seconds."],
    ["provider_mute", "Answer no questions", "Then only an operator can find out."],
  ]],
];
const HERE = [["offline", "Offline", "Nothing leaves the app."], ["clock", "Clock a day ahead", "Of this app."]];

let seen, failed = false;
const listeners = new Set();
export const ledger = () => seen;
export const onLedger = (listener) => listeners.add(listener);

const ask = async (path, body) => {
  const response = await fetch(path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response;
};
const press = (path, body) => ask(path, body).then(look, () => { failed = true; look(); });

/** Looks at the ledger now. */
export async function look() {
  try {
    seen = await (await ask("/demo/ledger")).json();
    failed = false;
  } catch {
    failed = true;
  }
  for (const listener of listeners) listener();
}

export const signIn = (user, signed_in = true) => ask("/demo/session", { user, signed_in });

export function makePanel(user) {
  // On a phone the outbox would be a long way down.
  $("chaos-more").open = matchMedia("(min-width: 900px)").matches;
  const line = (name, label, hint, set) => el("label", { class: "switch" },
    el("input", { type: "checkbox", role: "switch", name, "aria-describedby": `hint-${name}`, onchange: ({ target }) => set(target.checked) }),
    el("span", {}, label, el("br"), el("small", { id: `hint-${name}` }, hint)));
  $("switches").append(
    ...GROUPS.map(([title, lines]) => el("div", { class: "group", role: "group", "aria-label": title }, el("h3", {}, title),
      ...lines.map(([name, label, hint]) => line(name, label, hint, (on) => press("/demo/switches", { [name]: on }))))),
    el("div", { class: "group", role: "group", "aria-label": "This device" }, el("h3", {}, "This device"),
      ...HERE.map(([name, label, hint]) => line(name, label, hint, (on) => change({ [name]: on })))),
    el("div", { class: "actions" },
      el("button", { type: "button", class: "quiet", id: "restart", onclick: () => press("/demo/restart", {}) }, "Restart the server"),
      el("button", { type: "button", class: "quiet", id: "expire", onclick: () => press("/demo/session", { user: user(), signed_in: false }) }, "End my session")));
}

/** Numbers of one way. `open`: what is wanted here and has not arrived yet. */
function tally(title, { intents, effects, notifications, duplicates }, open) {
  const wanted = intents + open.length;
  const doubles = duplicates.reduce((sum, one) => sum + Math.max(one.tickets, one.notifications) - 1, 0);
  const missing = Math.max(0, wanted - effects);
  const tone = doubles ? "bad" : wanted && !missing && effects === notifications ? "ok" : "none";
  const verdict = !wanted ? "Nothing was wanted yet."
    : doubles ? `${doubles} more than anybody wanted:`
    : missing || notifications < effects ? "Not everything has arrived. Nothing happened twice."
    : "Each one happened once.";
  const number = (name, value) => el("div", {}, el("dt", {}, name), el("dd", { "data-count": name }, value));
  return el("div", { class: "tally", "data-tone": tone },
    el("h3", {}, title),
    el("dl", {}, number("intents", wanted), number("tickets", effects), number("notified", notifications)),
    el("p", {}, verdict),
    duplicates.length > 0 && el("ul", { "aria-label": "Duplicates" }, ...duplicates.slice(0, 6).map((one) => el("li", {}, `${one.title}: ${one.tickets} tickets, ${one.notifications} notified`)),
      duplicates.length > 6 && el("li", {}, `and ${duplicates.length - 6} more`)));
}

const EMPTY = { intents: 0, effects: 0, notifications: 0, duplicates: [] };

/** `open`: ids of intents that are not settled, by way. */
export function showPanel(open) {
  const arrived = new Set([...(seen?.tickets ?? []), ...(seen?.notifications ?? [])].map((one) => one.intent));
  const away = (ids) => ids.filter((id) => !arrived.has(id));
  const tallies = [["samekey", "With samekey"], ["plain", "Without"]].map(([way, title]) => tally(title, seen?.[way] ?? EMPTY, away(open[way])));
  // Only when something changed: a screen reader may be in the middle of it.
  if (tallies.map((one) => one.outerHTML).join() !== [...$("tallies").children].map((one) => one.outerHTML).join()) $("tallies").replaceChildren(...tallies);

  for (const input of $("switches").querySelectorAll("input")) {
    const here = input.name in world();
    input.checked = here ? world()[input.name] : (seen?.switches[input.name] ?? false);
    input.disabled = !here && !seen;
  }
  const link = failed ? ["no server", "bad"] : offline() ? ["offline", "wait"] : ["online", "ok"];
  if ($("link").textContent !== link[0]) $("link").textContent = link[0];
  $("link").dataset.tone = link[1];
  $("seen").hidden = !(failed && seen);
  if (failed && seen) $("seen").textContent = `The server is away. This is how it was at ${time(seen.now)}.`;

  const tickets = [...(seen?.tickets ?? [])].reverse().slice(0, 50);
  const doubled = new Set([...(seen?.plain.duplicates ?? []), ...(seen?.samekey.duplicates ?? [])].map(({ intent }) => intent));
  fill($("tickets"), tickets.map((ticket) => ({ id: ticket.id, stamp: String(doubled.has(ticket.intent)), make: () => ticketRow(ticket, doubled) })));
  $("tickets-empty").hidden = tickets.length > 0;
  $("tickets-empty").textContent = failed && !seen ? "The server cannot be seen from here." : "No ticket yet.";

  const notes = [...(seen?.happened ?? [])].reverse();
  fill($("happened"), notes.map((note, at) => ({ id: `${note.at}-${notes.length - at}`, stamp: note.text, make: () => el("li", {}, el("span", { class: "words" }, note.text), el("span", { class: "meta" }, time(note.at))) })));
  $("happened-empty").hidden = notes.length > 0;
  for (const list of [$("tickets"), $("happened")]) {
    // What scrolls is reached by keyboard.
    if (list.scrollHeight > list.clientHeight) list.tabIndex = 0;
    else list.removeAttribute("tabindex");
  }
}

const PRIORITY = { low: "low", normal: "normal", urgent: "urgent" };

function ticketRow(ticket, doubled) {
  const row = el("li", { "data-ticket": ticket.id },
    el("span", { class: "name" }, `${ticket.id}. ${ticket.title}`),
    el("span", { class: "meta" }, `${ticket.place} · ${PRIORITY[ticket.priority]} · ${ticket.author === "ann" ? "Ann" : "Ben"}${ticket.way === "plain" ? " · without samekey" : ""}`));
  if (doubled.has(ticket.intent)) row.append(el("span", { class: "pill", "data-tone": "bad" }, "duplicate"));
  else if (ticket.has_photo) {
    const image = el("img", { alt: `Photo of ticket ${ticket.id}`, width: 56, height: 42, hidden: true });
    row.append(image);
    fetch(`/api/tickets/${ticket.id}/photo`).then((response) => response.json()).then((url) => Object.assign(image, { src: url, hidden: false })).catch(() => {});
  }
  return row;
}
