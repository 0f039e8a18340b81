// Live numbers, and the last five minutes as a picture.
import { $, el } from "./parts.js";
import { metrics, records } from "./api.js";

export const EVERY = 2_000;
const SAMPLES = 150;
/** What somebody has to look at is counted now; the gauges are up to 15 s old. */
const MOST_UNCERTAIN = 100;
const DECISIONS = ["claimed", "replayed", "waited", "refused", "passed"];
const history = [];
let before;

const sum = (samples, name, labels = {}) => samples
  .filter((one) => one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value))
  .reduce((total, { value }) => total + value, 0);

const bytes = (value) => (value < 1e6 ? `${Math.round(value / 1e3)} kB` : value < 1e9 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e9).toFixed(1)} GB`);
const age = (seconds) => (seconds < 90 ? `${Math.max(0, Math.round(seconds))} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`);

/** Looks, shows, and gives back how many records there are of each state. */
export async function look() {
  const [samples, open] = await Promise.all([metrics(), records({ state: "uncertain", limit: MOST_UNCERTAIN })]);
  const totals = Object.fromEntries(DECISIONS.map((decision) => [decision, sum(samples, "samekey_requests_total", { decision })]));
  // A counter that went back belongs to another process.
  if (before) history.push(Object.fromEntries(DECISIONS.map((name) => [name, Math.max(0, totals[name] - before[name])])));
  if (history.length > SAMPLES) history.shift();
  before = totals;

  const states = {};
  for (const { labels, value } of samples.filter(({ name }) => name === "samekey_records")) states[labels.state] = (states[labels.state] ?? 0) + value;
  if (open.more === undefined) states.uncertain = open.records.length;
  const uncertain = Math.max(states.uncertain ?? 0, open.records.length);
  const gauges = samples.filter(({ name, value }) => name === "samekey_uncertain_oldest_timestamp_seconds" && value > 0).map(({ value }) => value);
  // The list begins with the newest: its last record is the oldest, unless there are more.
  const oldest = open.more === undefined ? open.records.at(-1)?.created_at / 1000 : Math.min(...gauges);
  show([
    ["requests", Object.values(totals).reduce((a, b) => a + b, 0)],
    ["replayed", totals.replayed],
    ["running", sum(samples, "samekey_in_flight")],
    ["waiting", sum(samples, "samekey_waiters")],
    ["uncertain", uncertain, uncertain > 0],
    ["oldest uncertain", Number.isFinite(oldest) ? age(Date.now() / 1000 - oldest) : "none", Number.isFinite(oldest)],
    ["store", bytes(sum(samples, "samekey_store_size_bytes"))],
    ["store errors", sum(samples, "samekey_store_errors_total"), sum(samples, "samekey_store_errors_total") > 0],
  ]);
  draw();
  return states;
}

function show(rows) {
  $("numbers").replaceChildren(...rows.map(([name, value, bad]) => el("div", { "data-tone": bad ? "bad" : "none" }, el("dt", {}, name), el("dd", {}, value))));
}

const SVG = "http://www.w3.org/2000/svg";

/** Stacked bars: one for each look. */
function draw() {
  const [width, height] = [600, 120];
  const most = Math.max(4, ...history.map((one) => DECISIONS.reduce((total, name) => total + one[name], 0)));
  const step = width / SAMPLES;
  const bars = history.flatMap((one, at) => {
    let y = height;
    return DECISIONS.filter((name) => one[name] > 0).map((name) => {
      const bar = document.createElementNS(SVG, "rect");
      const tall = (one[name] / most) * (height - 8);
      y -= tall;
      const place = { x: (SAMPLES - history.length + at) * step, y, width: Math.max(step - 1, 1), height: tall, class: name };
      for (const [attribute, value] of Object.entries(place)) bar.setAttribute(attribute, value);
      return bar;
    });
  });
  $("chart").replaceChildren(...bars);
  const recent = DECISIONS.map((name) => [name, history.reduce((total, one) => total + one[name], 0)]);
  $("chart").setAttribute("aria-label", `Requests in the last five minutes: ${recent.map(([name, count]) => `${count} ${name}`).join(", ")}`);
  $("legend").replaceChildren(...recent.map(([name, count]) => el("span", {}, el("i", { class: name }), `${name} ${count}`)));
}
