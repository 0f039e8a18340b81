// Every delivery that left this device: its request id, when, and what was heard. For people; the client needs none of it.
import { now, send } from "./world.js";

const NAME = "demo.deliveries";
const MOST = 12;
const listeners = new Set();
export const onDelivery = (listener) => listeners.add(listener);

function all() {
  try {
    return JSON.parse(localStorage.getItem(NAME)) ?? {};
  } catch {
    return {};
  }
}
function write(change) {
  const list = all();
  change(list);
  try {
    localStorage.setItem(NAME, JSON.stringify(list));
  } catch {
    // Full: it is a convenience.
  }
  for (const listener of listeners) listener();
}

export const of = (intent) => all()[intent] ?? [];
export const forget = (known) => write((list) => Object.keys(list).forEach((id) => known.has(id) || delete list[id]));

/** A `fetch` that keeps account of itself. */
export async function counted(url, init) {
  const headers = new Headers(init?.headers);
  const [intent, request] = [headers.get("demo-intent"), headers.get("x-request-id")];
  if (!intent || init?.method !== "POST") return send(url, init);
  const note = (heard) => write((list) => {
    const own = (list[intent] ??= []);
    const found = own.find((one) => one.request === request);
    if (found) found.heard = heard;
    else own.push({ request, at: now(), heard });
    list[intent] = own.slice(-MOST);
  });
  note("no answer yet");
  try {
    const response = await send(url, init);
    note(`${response.status}${response.headers.get("samekey-state") ? ` ${response.headers.get("samekey-state")}` : ""}${response.headers.get("idempotent-replayed") ? ", replayed" : ""}`);
    return response;
  } catch (error) {
    note(error.name === "AbortError" || error.name === "TimeoutError" ? "no answer in time" : "no answer");
    throw error;
  }
}
