// The face of the package: calls become events of the engine, and its answers outcomes.
import { type Snapshot, read, refuseStream, snapshot } from "./body.js";
import { SamekeyError } from "./errors.js";
import type { Value } from "./frame.js";
import { type Platform, platform as ambient } from "./platform.js";
import { address, named } from "./settings.js";
import { type Load, type Settled, Shell } from "./shell.js";
import type { Client, ClientOptions, Intent, Outcome, SubmitOptions } from "./types.js";

const NONE: readonly Intent[] = Object.freeze([]);
const PATIENCE = 30_000;

/** @internal */
export function clientOn(options: ClientOptions, load: Load, platform: Platform = ambient()): Client {
  const shell = new Shell(options, platform, load);

  async function submit(until: Value[], signal: AbortSignal | null | undefined, it: SubmitOptions, sent: () => Promise<Snapshot>) {
    signal?.throwIfAborted();
    const url = address(it.url, options, platform);
    if (!url) throw new SamekeyError("samekey/invalid_option", { text: `"${it.url}" is no URL; a relative one needs \`baseUrl\`` });
    const method = (it.method ?? "POST").toUpperCase();
    const headers = new Headers(it.headers);
    const { bytes, type } = await sent();
    if (type !== null && !headers.has("content-type")) headers.set("content-type", type);
    return shell.call(
      signal, "submit", ...until, await shell.account(), method, url.href,
      it.operation ?? named(options, method, url), [...headers].flat(), bytes, it.credentials, it.slot,
      it.another ?? false, it.key, it.label, it.meta && JSON.stringify(it.meta),
    );
  }

  const DURABLE = [undefined, true], OUTCOME = [undefined, false];
  const onFetch: Client["fetch"] = async (input, init) => {
    const { samekey, ...rest } = init ?? {};
    const request = input instanceof Request ? input : undefined;
    const url = address(request ? request.url : (input as string | URL), options, platform);
    const method = (rest.method ?? request?.method ?? "get").toUpperCase();
    const headers = new Headers(rest.headers ?? request?.headers);
    const untouched = () => (options.fetch ?? globalThis.fetch)(input, rest);
    const reads = method === "GET" || method === "HEAD";
    if (!url || (reads && !samekey)) return untouched();
    const mine = samekey ?? named(options, method, url) ?? (await shell.covers(method, url.href, [...headers].flat()));
    if (mine === false) return untouched();
    refuseStream(rest.body);
    const whole = new Request(request ?? url.href, rest);
    const it = { ...samekey, url, method, headers: whole.headers, credentials: whole.credentials };
    const patience = samekey?.patience ?? PATIENCE;
    return response(await submit([patience, false], rest.signal ?? request?.signal, it, () => read(whole)));
  };

  const client: Client = {
    submit: async (it) => outcome(await submit(OUTCOME, it.signal, it, () => snapshot(it))),
    enqueue: async (it) => {
      const { intent, joined } = await submit(DURABLE, it.signal, it, () => snapshot(it));
      return { intent, joined };
    },
    wait: async (id, it) => outcome(await shell.call(it?.signal, "wait", id)),
    fetch: onFetch,
    outbox: {
      getSnapshot: () => shell.snapshot,
      getServerSnapshot: () => NONE,
      subscribe: (listener) => shell.on("outbox", listener),
    },
    get: (id) => shell.snapshot.find((intent) => intent.id === id),
    resume: async (id, it) => void (await shell.call(null, "resume", id, it?.acceptRisk === "may_double")),
    cancel: async (id) => outcome(await shell.call(null, "cancel", id)),
    dismiss: async (id, it) => void (await shell.call(null, "dismiss", id, it?.acceptRisk === "may_double")),
    on: (type, listener) => shell.on(type, listener),
    signOut: async (it) => (await shell.call(null, "signOut", it?.unresolved === "discard")).intents,
    get ready() {
      return shell.open().then(() => shell.ready);
    },
    get durability() {
      return shell.store.durability;
    },
    requestPersistence: async () => (await globalThis.navigator?.storage?.persist?.()) ?? false,
    close: () => shell.close(),
    [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]: () => shell.close(),
  } as Client;
  // What an earlier page left goes on now. Where nothing can lie, the engine waits for the first call.
  if (options.store || platform.keeps) shell.open().catch(() => {});
  return client;
}

/** Data, as far as the answer says what it is. */
function data({ response }: Intent): unknown {
  if (!response?.body?.length) return undefined;
  const text = new TextDecoder().decode(response.body);
  const type = response.headers.find(([name]) => name === "content-type")?.[1] ?? "";
  if (!/^[^;]*[/+]json\s*(;|$)/i.test(type)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function outcome<T, E>({ intent, joined }: Settled): Outcome<T, E> {
  const { state, response } = intent;
  const more = response && { response, replayed: response.replayed };
  return { state, intent, joined, ...more, data: data(intent) } as Outcome<T, E>;
}

/** The answer as `fetch` gives it. Everything else is no answer. */
function response(settled: Settled): Response {
  const { state, response } = settled.intent;
  if (response?.body && (state === "done" || state === "failed")) {
    const { status, headers, body } = response;
    return new Response(body.length ? body : null, { status, headers: headers as [string, string][] });
  }
  throw new SamekeyError("samekey/outcome", { intent: settled.intent, outcome: outcome(settled) });
}
