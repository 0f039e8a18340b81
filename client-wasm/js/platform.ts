// What the shell stands on. Looked up at call time, so that importing the package touches nothing.
import { browserStore } from "./indexed_db.js";
import { memoryStore } from "./memory.js";
import type { ClientEvents, Store } from "./types.js";

export interface Platform {
  now(): number;
  seed(): Uint8Array;
  /** Returns what stops it. */
  timer(run: () => void, after: number): () => void;
  /** A program that waits for an outcome must not end; one that waits for nothing may, whatever timers run. */
  hold(): () => void;
  fetch(url: string, init: RequestInit): Promise<Response>;
  /** Where relative URLs start, and the origin of the page. */
  readonly base: string | undefined;
  readonly origin: string | undefined;
  readonly locks: Pick<LockManager, "request"> | undefined;
  /** Whether something may lie in the store that `store` opens. */
  readonly keeps: boolean;
  store(name: string, report: (reason: ClientEvents["storage"]["reason"]) => void): Store;
  /** Tells other tabs and workers, and is told by them. */
  channel(name: string, told: () => void): { tell(): void; close(): void };
  /** `look`: the page may have slept; `online`: a hint. Returns what stops it. */
  listen(look: () => void, online: (online: boolean) => void): () => void;
  /** An intent waits: a service worker may go on when this page is gone. */
  waits(name: string): void;
}

/** The longest time that a timer takes; it rings at once for a longer one. */
const LONGEST = 2 ** 31 - 1;

export function platform(): Platform {
  const { document, location, navigator, BroadcastChannel, indexedDB } = globalThis;
  return {
    now: () => Date.now(),
    seed: () => crypto.getRandomValues(new Uint8Array(32)),
    timer: (run, after) => {
      const timer = setTimeout(run, Math.min(after, LONGEST));
      (timer as { unref?(): void }).unref?.();
      return () => clearTimeout(timer);
    },
    hold: () => {
      const timer = setInterval(() => {}, LONGEST);
      return () => clearInterval(timer);
    },
    fetch: (url, init) => globalThis.fetch(url, init),
    base: document?.baseURI ?? location?.href,
    origin: location?.origin,
    // Node's end at the border of the process, which tells nothing of another one on the same store.
    locks: location && navigator?.locks,
    keeps: indexedDB !== undefined,
    store: (name, report) => (indexedDB ? browserStore(name, report) : memoryStore()),
    channel: (name, told) => {
      // In Node an open channel keeps the process alive, and nobody is there to talk to.
      if (!location || !BroadcastChannel) return { tell: () => {}, close: () => {} };
      const channel = new BroadcastChannel(name);
      channel.onmessage = told;
      return { tell: () => channel.postMessage(0), close: () => channel.close() };
    },
    listen: (look, online) => {
      const stop = new AbortController();
      const on = (target: EventTarget | undefined, type: string, run: () => void) =>
        target?.addEventListener?.(type, run, { signal: stop.signal });
      on(globalThis, "online", () => online(true));
      on(globalThis, "offline", () => online(false));
      on(globalThis, "pageshow", look);
      on(document, "visibilitychange", look);
      on(document, "resume", look);
      if (navigator?.onLine === false) online(false);
      return () => stop.abort();
    },
    waits: (name) => {
      const sync = (registration: ServiceWorkerRegistration | undefined) =>
        (registration as { sync?: { register(tag: string): Promise<void> } } | undefined)?.sync?.register(name);
      navigator?.serviceWorker?.getRegistration?.().then(sync).catch(() => {});
    },
  };
}
