// The admin listener, with a token that this tab keeps.

const NAME = "samekey.token";
const listeners = new Set();

export const token = () => sessionStorage.getItem(NAME);
export const onToken = (listener) => listeners.add(listener);
export function keep(value) {
  if (value) sessionStorage.setItem(NAME, value);
  else sessionStorage.removeItem(NAME);
  for (const listener of listeners) listener();
}

// The demo prints an address that ends in the token. A fragment is not sent; it does not stay in the address bar.
if (location.hash.startsWith("#samekey_")) {
  sessionStorage.setItem(NAME, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}

/** Why the listener refused, in its own words. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the listener answered ${status}`);
    Object.assign(this, { status, problem });
  }
}

async function ask(path, { headers, ...init } = {}) {
  let response;
  try {
    response = await fetch(path, { ...init, headers: { ...headers, authorization: `Bearer ${token()}` } });
  } catch {
    throw new Error("The admin listener cannot be reached.");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401) keep("");
  throw new Refused(response.status, problem);
}

/** Samples of /metrics: `[{ name, labels, value }]`. */
export async function metrics() {
  const text = await (await ask("/metrics")).text();
  const samples = [];
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

export async function records(query, key) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== ""));
  return (await ask(`/v1/records?${search}`, key ? { headers: { "idempotency-key": key } } : {})).json();
}
export const record = async (id) => (await ask(`/v1/records/${id}`)).json();
export const settle = async (id, body) => (await ask(`/v1/records/${id}/settle`, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } })).json();
