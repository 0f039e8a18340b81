// The list of records, and one of them with all that happened to it.
import { $, el } from "./parts.js";
import { record, records, settle } from "./api.js";

const STATES = ["uncertain", "in_progress", "released", "failed", "completed", "expired"];
export const TONES = { completed: "ok", failed: "bad", uncertain: "bad", in_progress: "wait", released: "wait", expired: "none" };
const words = (state) => state.replaceAll("_", " ");
const when = (moment) => (moment === undefined ? "–" : new Date(moment).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }));

let state = "", query = {}, key = "", shown = [], more, chosen;
let fail = () => {};
export const onFailure = (listener) => (fail = listener);
/** Runs, and tells what went wrong. */
const guarded = (run) => async (...given) => {
  try {
    await run(...given);
    fail(undefined);
  } catch (error) {
    fail(error);
  }
};

export function showStates(counts) {
  const all = Object.values(counts).reduce((a, b) => a + b, 0);
  const made = [["", "all", all], ...STATES.map((name) => [name, words(name), counts[name] ?? 0])];
  const buttons = $("states").children;
  if (!buttons.length) $("states").append(...made.map(([name]) => el("button", { type: "button", "data-state": name, onclick: () => choose(name) })));
  made.forEach(([name, label, count], at) => {
    buttons[at].setAttribute("aria-pressed", String(name === state));
    buttons[at].replaceChildren(`${label} `, el("b", {}, count));
  });
}
function choose(name) {
  state = name;
  for (const button of $("states").children) button.setAttribute("aria-pressed", String(button.dataset.state === name));
  void list();
}

const NEXT = { holder: "runs", client: "client retries", probe: "is asked about", rerun: "runs again", manual: "you settle it", nobody: "–" };

function row(one) {
  return el("tr", { "data-id": one.id, "aria-current": String(one.id === chosen) },
    el("td", {}, el("button", { type: "button", class: "quiet", "aria-label": `Record ${one.id}`, onclick: () => open(one.id) }, `#${one.id}`)),
    el("td", {}, el("span", { class: "pill", "data-tone": TONES[one.state] ?? "none" }, words(one.state))),
    el("td", {}, one.operation),
    el("td", {}, when(one.created_at)),
    el("td", {}, el("code", {}, `${one.key_hash} · ${one.actor_hash}`)),
    el("td", {}, NEXT[one.next] ?? one.next));
}

function show() {
  $("list").replaceChildren(...shown.map(row));
  $("more").hidden = more === undefined;
  $("list-empty").hidden = shown.length > 0;
  $("list-empty").textContent = more !== undefined ? "None in this part of the list; older ones may fit." : state || key || Object.values(query).some(Boolean) ? "No record fits." : "No record yet: nobody sent a command with a key.";
}

export const list = guarded(async () => {
  const page = await records({ ...query, state, limit: 50 }, key);
  // What was opened below stays: only the first page is looked at again.
  const first = new Set(page.records.map(({ id }) => id));
  const last = page.records.at(-1)?.id ?? 0;
  const older = shown.length > 50 ? shown.filter(({ id }) => !first.has(id) && id < last) : [];
  if (!older.length) more = page.more;
  shown = [...page.records, ...older];
  show();
});

export function start() {
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const { actor, operation, key: pasted } = event.target.elements;
    query = { actor: actor.value.trim(), operation: operation.value.trim() };
    key = pasted.value.trim();
    shown = [];
    void list().then(() => ($("say").textContent = `${shown.length} records`));
  });
  $("search").addEventListener("reset", () => {
    [query, key, shown] = [{}, "", []];
    void list();
  });
  $("more").addEventListener("click", guarded(async () => {
    const page = await records({ ...query, state, limit: 50, before: more }, key);
    shown.push(...page.records);
    more = page.more;
    show();
  }));
}

export const refresh = async () => {
  if (document.activeElement?.closest("#list") === null) await list();
  // A form that somebody fills in is not pulled away.
  if (chosen !== undefined && !$("record").querySelector("form")) await open(chosen, false);
};

const BY = { delivery: "a delivery", handler: "the handler", lease: "its lease ran out", probe: "a probe", operator: "an operator", sweeper: "the sweeper", restore: "a restore", client: "the client" };

const REASONS = {
  lapse: "its holder fell silent", deadline: "no answer before the deadline", status: "the answer's status tells nothing",
  no_answer: "no answer, or a broken one", not_stored: "the answer could not be stored", earlier_attempt: "an earlier attempt may have done it",
  restore: "a backup was restored", holder: "its handler does not know", server_error: "the handler failed", panic: "the handler panicked", gave_up: "unknown for too long",
};
const because = (reason) => REASONS[reason] ?? words(reason);

const open = guarded(async (id, focus = true) => {
  chosen = id;
  for (const one of $("list").children) one.setAttribute("aria-current", String(one.dataset.id === String(id)));
  const one = await record(id);
  $("detail-title").textContent = `Record ${id}: ${words(one.state)}`;
  const fact = (name, value) => (value === undefined || value === "" ? [] : [el("dt", {}, name), el("dd", {}, value)]);
  $("record").replaceChildren(
    el("dl", { class: "facts" },
      ...fact("Operation", one.operation), ...fact("Attempt", one.attempt), ...fact("Reason", one.reason && because(one.reason)),
      ...fact("Ended", one.ended), ...fact("Status", one.status_code), ...fact("Result", one.result_id),
      ...fact("Answer kept", one.response_stored ? `until ${when(one.expires_at)}` : undefined),
      ...fact("May be settled", one.settle_after && one.state === "uncertain" ? when(one.settle_after) : undefined),
      ...fact("Next", `${NEXT[one.next] ?? one.next}${one.next_at ? `, ${when(one.next_at)}` : ""}`),
      ...fact("Key", el("code", {}, one.key_hash)), ...fact("Actor", el("code", {}, one.actor_hash)),
      ...fact("Last request", one.request_id && el("code", {}, one.request_id)), ...fact("Revision", one.revision)),
    el("h3", {}, "What happened"),
    el("ol", { class: "timeline" }, ...one.timeline.map((step) => el("li", { "data-tone": TONES[step.state] ?? "none" },
      el("div", {}, el("b", {}, words(step.state)), ` · ${when(step.at)} · by ${BY[step.by] ?? step.by} · attempt ${step.attempt}`),
      step.reason && el("div", { class: "meta" }, because(step.reason)),
      step.who && el("div", { class: "meta" }, `${step.who}: ${step.why ?? ""}`),
      !step.who && step.why && el("div", { class: "meta" }, step.why),
      step.request_id && el("div", { class: "meta" }, "request ", el("code", {}, step.request_id))))),
    el("h3", {}, "Effects outside"),
    one.effects.length ? el("ul", { class: "timeline" }, ...one.effects.map((effect) => el("li", { "data-tone": { done: "ok", open: "wait", unknown: "bad" }[effect.state] ?? "none" },
      el("div", {}, el("b", {}, effect.name), ` · ${words(effect.state)} · attempt ${effect.attempt} · ${when(effect.started_at)}${effect.finished_at ? ` to ${when(effect.finished_at)}` : ""}`),
      el("div", { class: "meta" }, "look for it there under ", el("code", {}, effect.provider_key))))) : el("p", { class: "empty" }, "None in the journal."),
    one.state === "uncertain" ? form(one) : "",
  );
  if (focus) $("detail").focus();
});

/** Ends what is uncertain. What the operator looked at goes along, so that nothing that happened meanwhile is overruled. */
function form(one) {
  const choice = (value, label, checked) => el("label", { class: "check" }, el("input", { type: "radio", name: "outcome", value, required: true, checked }), label);
  const submit = guarded(async (event) => {
    event.preventDefault();
    const { outcome, who, why, force, status, result } = event.target.elements;
    const body = { revision: one.revision, looked_at: one.server_time, outcome: outcome.value, who: who.value.trim(), why: why.value.trim(), force: force.checked };
    if (outcome.value !== "released") {
      body.status = Number(status.value) || (outcome.value === "failed" ? 500 : 200);
      if (result.value.trim()) body.result_id = result.value.trim();
    }
    await settle(one.id, body);
    $("say").textContent = `Record ${one.id} is settled.`;
    await open(one.id);
    await list();
  });
  return el("form", { class: "settle", id: "settle", onsubmit: submit },
    el("h3", {}, "Settle it"),
    el("p", { class: "hint" }, "Look at the external system first, after the moment from which it may be settled. What you find is what its callers hear."),
    el("fieldset", {}, el("legend", {}, "What happened"),
      choice("completed", "It happened"), choice("failed", "It failed for good"), choice("released", "Nothing happened: it may run again")),
    el("div", { class: "field" }, el("label", { for: "status" }, "Status that callers hear, if it ended"), el("input", { id: "status", name: "status", type: "number", min: 200, max: 599, placeholder: "200, or 500 if it failed" })),
    el("div", { class: "field" }, el("label", { for: "result" }, "What was made, if anything"), el("input", { id: "result", name: "result", maxlength: 255, autocomplete: "off" })),
    el("div", { class: "field" }, el("label", { for: "who" }, "Who you are"), el("input", { id: "who", name: "who", required: true, maxlength: 100, autocomplete: "name" })),
    el("div", { class: "field" }, el("label", { for: "why" }, "What you found, and where"), el("textarea", { id: "why", name: "why", required: true, maxlength: 500 })),
    el("label", { class: "check" }, el("input", { type: "checkbox", name: "force" }), "Although something may still be under way"),
    el("button", { class: "main", type: "submit" }, "Settle"),
  );
}
