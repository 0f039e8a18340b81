// Performs what the engine asks for, and tells it what came of it. No decision is made here.
import { type Engine, initSync, Engine as Wasm } from "../wasm/samekey.js";
import { SamekeyError } from "./errors.js";
import { type Value, frame, unframe } from "./frame.js";
import type { Platform } from "./platform.js";
import { settings } from "./settings.js";
import type { ClientEvents, ClientOptions, DeliveryContext, Intent, SamekeyErrorCode, Store, StoredRecord, StoredResponse } from "./types.js";

export type Load = () => Promise<WebAssembly.Module>;
export interface Settled { readonly id: string; readonly intent: Intent; readonly joined: boolean; readonly intents: readonly Intent[] }
interface Call { resolve(settled: Settled): void; reject(error: unknown): void }
interface Prepared { readonly free: () => void; readonly headers: Headers; readonly stop: AbortController }

/** An application that gives no headers by then gives none; others may need the lock. */
const LATE = 60_000;

const MESSAGES: Record<string, string> = {
  evicted: "the browser erased the store of this origin; intents that this page does not hold in memory are lost",
  not_covered: "the server does not cover this route; it was sent without protection against doubles",
  no_receipt: "an answer without a receipt where one is due; is a page or proxy answering in the server's place?",
  newer_format: "a record was written by a newer version of this library and is left alone",
  unreadable: "a record cannot be read and is left alone",
  storage: "the store failed",
  headers: "`headers` or `account` threw",
};

export class Shell {
  readonly store: Store;
  readonly #views = new Map<string, { text: string; intent: Intent }>();
  readonly #calls = new Map<number, Call>();
  readonly #prepared = new Map<string, Prepared>();
  readonly #listeners = new Map<string, Set<(event: never) => void>>();
  readonly #freeing = new Map<string, Promise<void>>();
  readonly #todo: Value[][] = [];
  readonly #stops: (() => void)[] = [];
  readonly #exchanges = new Set<AbortController>();
  readonly #channel: ReturnType<Platform["channel"]>;
  #engine: Engine | undefined;
  #opening: Promise<void> | undefined;
  #busy = false;
  #closed = false;
  #call = 0;
  #wake = () => {};
  #loaded = () => {};
  #refreshing: Promise<boolean> | undefined;
  snapshot: readonly Intent[] = Object.freeze([]);
  readonly ready: Promise<void>;

  constructor(readonly options: ClientOptions, readonly platform: Platform, readonly load: Load) {
    const report = (reason: ClientEvents["storage"]["reason"]) => this.#emit("storage", { durability: this.store.durability, reason });
    this.store = options.store ?? platform.store(this.#name, report);
    this.ready = new Promise((resolve) => (this.#loaded = resolve));
    this.#channel = platform.channel(this.#name, () => this.#send("told"));
  }

  get #name() {
    return this.options.name ?? "samekey";
  }

  /** Memoised; a failure is not, so that the next call tries anew. */
  open(): Promise<void> {
    if (this.#closed) return Promise.reject(new SamekeyError("samekey/closed"));
    const opening = (this.#opening ??= this.#open());
    opening.catch(() => (this.#opening = undefined));
    return opening;
  }

  async #open() {
    const module = await this.load().catch((cause: unknown) => {
      throw new SamekeyError("samekey/wasm_blocked", { cause, ...(cause instanceof WebAssembly.CompileError ? {} : { text: "the engine could not be loaded, see error.cause" }) });
    });
    initSync({ module });
    const engine = Wasm.open(settings(this.options, this.platform), this.platform.seed());
    if (!engine) throw new SamekeyError("samekey/invalid_option", { text: "`significant` names no fields that can be selected" });
    if (this.#closed) throw new SamekeyError("samekey/closed");
    this.#engine = engine;
    this.#stops.push(this.platform.listen(() => this.#send("tick"), (online) => this.#send("online", online)));
    if (this.store.subscribe) this.#stops.push(this.store.subscribe(() => this.#send("told")));
    await this.whoIsIt();
  }

  #send(event: string, ...values: Value[]) {
    const engine = this.#engine;
    if (!engine) return;
    try {
      this.#todo.push(...unframe(engine.step(this.platform.now(), frame(event, ...values))));
    } catch (cause) {
      // The engine trapped, and its memory is not to be trusted. What is stored is; the next page goes on with it.
      void this.close(new SamekeyError("samekey/closed", { cause, text: "the engine failed, see error.cause; reload the page" }));
    }
    if (this.#busy) return;
    this.#busy = true;
    // An action may bring the next event at once; the actions of that one come behind these.
    for (let action = this.#todo.shift(); action; action = this.#todo.shift()) {
      const [name, ...rest] = action;
      void (this as unknown as Record<string, (...values: Value[]) => unknown>)[name as string]!(...rest);
    }
    this.#busy = false;
  }

  /** A promise of the engine. It goes on when nobody waits any more. */
  async call(signal: AbortSignal | null | undefined, event: string, ...values: Value[]): Promise<Settled> {
    const free = this.platform.hold();
    return this.#asked(signal, event, values).finally(free);
  }

  async #asked(signal: AbortSignal | null | undefined, event: string, values: Value[]): Promise<Settled> {
    await this.open();
    signal?.throwIfAborted();
    const call = ++this.#call;
    const settled = new Promise<Settled>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      signal?.addEventListener("abort", () => {
        if (this.#calls.delete(call)) this.#send("aborted", call);
        reject(signal.reason);
      }, { once: true });
    });
    this.#send(event, call, ...values);
    return settled;
  }

  /** Method, URL and headers. */
  async covers(method: string, url: string, headers: string[]): Promise<boolean> {
    await this.open();
    return this.#engine!.covers(frame(method, url, headers));
  }

  async account(): Promise<string | null> {
    return typeof this.options.account === "function" ? this.options.account() : this.options.account;
  }

  view(id: string): Intent | undefined {
    return this.#views.get(id)?.intent;
  }

  on(type: string, listener: (event: never) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  #emit(type: string, event: unknown) {
    // Later, so that a listener that throws or calls back breaks nothing here.
    const told = (listener: (event: never) => void) => Promise.resolve(event as never).then(listener);
    for (const listener of this.#listeners.get(type) ?? []) told(listener).catch(globalThis.reportError ?? console.error);
  }

  async close(why = new SamekeyError("samekey/closed")) {
    if (this.#closed) return;
    this.#closed = true;
    this.#engine = undefined;
    this.#wake();
    for (const stop of this.#stops) stop();
    for (const exchange of this.#exchanges) exchange.abort();
    for (const id of this.#prepared.keys()) this.release(id);
    for (const call of this.#calls.values()) call.reject(why);
    this.#calls.clear();
    this.#channel.close();
    await this.store.close?.();
  }

  async read() {
    try {
      const records = await this.store.all();
      this.#send("loaded", ...records.flatMap((it) => [it.id, it.account, it.revision, it.format, it.data]));
      this.#loaded();
    } catch (error) {
      this.#broke(error);
      this.#stops.push(this.platform.timer(() => void this.read(), 1_000));
    }
  }

  async write(write: number, id: string, account: string | undefined, revision: number, format: number, data: Uint8Array<ArrayBuffer>, expected: number | undefined) {
    const record: StoredRecord = { id, account: account ?? null, revision, format, data };
    await this.#ended(write, () => this.store.put(record, expected ?? null));
  }

  erase = (write: number, id: string, expected: number) => this.#ended(write, () => this.store.delete(id, expected));

  async #ended(write: number, act: () => Promise<boolean>) {
    let ended = "failed";
    try {
      ended = (await act()) ? "done" : "lost";
    } catch (error) {
      this.#broke(error);
    }
    this.#send("written", write, ended);
  }

  #broke(error: unknown) {
    const reason = (error as Error)?.name === "QuotaExceededError" ? "quota" : "degraded";
    this.#emit("storage", { durability: this.store.durability, reason });
  }

  tell() {
    this.#channel.tell();
  }

  async whoIsIt() {
    try {
      this.#send("account", await this.account());
    } catch {
      this.log(1, "headers");
      this.#stops.push(this.platform.timer(() => void this.whoIsIt(), 1_000));
    }
  }

  async #lock(id: string, steal: boolean): Promise<(() => void) | undefined> {
    const { locks } = this.platform;
    if (this.store.lock) return this.store.lock(id, steal);
    if (!locks) return () => {};
    // A lock that was given up is free a moment later; asked before that, it would look like somebody else's.
    await this.#freeing.get(id);
    return new Promise((got) => {
      const held = (lock: Lock | null) => (lock ? new Promise<void>((release) => got(release)) : got(undefined));
      // It rejects where locks are refused, which leaves the lease, and when the lock is stolen, long after.
      const freed = locks.request(`${this.#name}:${id}`, steal ? { steal } : { ifAvailable: true }, held).catch(() => got(() => {}));
      this.#freeing.set(id, freed.then(() => void this.#freeing.delete(id)));
    });
  }

  #context = (id: string, delivery: number, signal: AbortSignal): DeliveryContext => ({ intent: this.view(id)!, delivery, signal });

  async prepare(id: string, delivery: number, steal: number) {
    const free = await this.#lock(id, steal === 1).catch((error: unknown) => this.#broke(error));
    if (!free) return this.#send("unprepared", id, "busy");
    const stop = new AbortController();
    const late = new Promise<never>((_, reject) => stop.signal.addEventListener("abort", reject));
    const bell = this.platform.timer(() => stop.abort(), LATE);
    try {
      const given = Promise.resolve().then(() => this.options.headers?.(this.#context(id, delivery, stop.signal)));
      const headers = new Headers(await Promise.race([given, late]));
      const account = await Promise.race([this.account(), late]);
      if (this.#closed) return free();
      this.#prepared.set(id, { free, headers, stop });
      this.#send("prepared", id, account);
    } catch {
      free();
      this.log(1, "headers", id);
      this.#send("unprepared", id, "threw");
    } finally {
      bell();
    }
  }

  release(id: string) {
    const prepared = this.#prepared.get(id);
    this.#prepared.delete(id);
    prepared?.stop.abort();
    prepared?.free();
  }

  async fetch(exchange: number, id: string | undefined, method: string, url: string, own: string[], body: Uint8Array<ArrayBuffer> | undefined, credentials: string | undefined, timeout: number) {
    const abort = new AbortController();
    const stop = this.platform.timer(() => abort.abort(), timeout);
    let failure = "not_sent";
    this.#exchanges.add(abort);
    try {
      const headers = new Headers(id === undefined ? undefined : this.#prepared.get(id)?.headers);
      for (let at = 0; at < own.length; at += 2) headers.set(own[at]!, own[at + 1]!);
      const init: RequestInit = { method, headers, body: body ?? null, redirect: "manual", signal: abort.signal };
      if (id === undefined) init.credentials = "omit";
      else if (credentials) init.credentials = credentials as RequestCredentials;
      // Throws where `fetch` would throw before it sends anything.
      new Request(url, init);
      failure = "network";
      const answer = await (this.options.fetch ?? this.platform.fetch)(url, init);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      this.#send("answered", exchange, answer.status, [...answer.headers].flat(), bytes);
    } catch {
      this.#send("failed", exchange, abort.signal.aborted ? "timeout" : failure);
    } finally {
      this.#exchanges.delete(abort);
      stop();
    }
  }

  async refreshAuth(id: string, delivery: number) {
    const stop = new AbortController();
    // One for all that ask at the same time.
    const asked = (this.#refreshing ??= Promise.resolve().then(() => this.options.refreshAuth!(this.#context(id, delivery, stop.signal))));
    const again = await asked.catch(() => false);
    if (this.#refreshing === asked) this.#refreshing = undefined;
    this.#send("refreshed", id, again);
  }

  #show(id: string, text: Value, body: Value): Intent {
    const shown = this.#views.get(id);
    if (typeof text !== "string" || shown?.text === text) return shown!.intent;
    const intent = JSON.parse(text) as Intent;
    if (intent.response) Object.assign(intent.response, { body: (body as StoredResponse["body"] | undefined) ?? null });
    for (const part of [intent.meta, intent.lastError, intent.response, intent.response?.headers, intent]) Object.freeze(part);
    this.#views.set(id, { text, intent });
    return intent;
  }

  settled(call: number, id: string, joined: number, text: Value, body: Value) {
    const settled = { id, intent: this.#show(id, text, body), joined: joined === 1, intents: [] };
    this.#calls.get(call)?.resolve(settled);
    this.#calls.delete(call);
  }

  done(call: number, ids: string[]) {
    const intents = ids.flatMap((id) => this.view(id) ?? []);
    this.#calls.get(call)?.resolve({ id: "", intent: intents[0]!, joined: false, intents });
    this.#calls.delete(call);
  }

  rejected(call: number, code: string, id: string | undefined) {
    this.#calls.get(call)?.reject(new SamekeyError(code as SamekeyErrorCode, { intent: id === undefined ? undefined : this.view(id) }));
    this.#calls.delete(call);
  }

  changed(id: string, turn: string, text: Value, body: Value) {
    const intent = this.#show(id, text, body);
    if (intent.state === "waiting") this.platform.waits(this.#name);
    this.#emit("change", intent);
    if (turn !== "change") this.#emit(turn, intent);
  }

  /** Its last view stays until the outbox is told, for whoever asked for it. */
  gone() {}

  outbox(ids: string[]) {
    const intents = ids.flatMap((id) => this.view(id) ?? []);
    for (const id of this.#views.keys()) if (!ids.includes(id)) this.#views.delete(id);
    if (intents.length === this.snapshot.length && intents.every((intent, at) => intent === this.snapshot[at])) return;
    this.snapshot = Object.freeze(intents);
    this.#emit("outbox", undefined);
  }

  wake(after: number) {
    this.#wake();
    this.#wake = this.platform.timer(() => this.#send("tick"), after);
  }

  log(warn: number, code: string, intentId?: string) {
    const level = warn ? "warn" : "debug";
    const entry = { level, code, message: MESSAGES[code] ?? code, ...(intentId === undefined ? {} : { intentId }) } as const;
    if (code === "evicted") this.#emit("storage", { durability: this.store.durability, reason: "evicted" });
    if (this.options.log) this.options.log(entry);
    else if (warn) console.warn(`samekey: ${entry.message} (${code})`, intentId ?? "");
  }
}
