// `samekey/testing`: a clock, a store, a network and a server that do what a test says, so that an application can
// crash its own flows and look what is left. The same seed and steps give the same keys, pauses and order.
import { createClientOn } from "./index.js";
import { memoryStore } from "./memory.js";
import type { Platform } from "./platform.js";
import type { Client, ClientOptions } from "./types.js";

export { memoryStore };

/** Where a page dies: its request has not left; the server has run it; the answer is here and not yet stored. */
export type KillPoint = "before_send" | "after_send" | "after_answer";
export type Handler = (request: Request) => Response | Promise<Response>;

export interface TestBench {
  /** The client of the page that is open now. */
  readonly client: Client;
  readonly server: {
    /** "POST /api/orders"; `:name` stands for one segment. */
    on(pattern: string, handler: Handler): void;
    /** How often the handler ran: what the world has seen of it. */
    effects(pattern: string): number;
    /** How often a request for it arrived. */
    deliveries(pattern: string): number;
  };
  readonly network: {
    /** The next request does not arrive. */
    loseNextRequest(): void;
    /** The next request arrives, its answer does not. */
    loseNextAnswer(): void;
    offline(): void;
    online(): void;
  };
  /** The time of the bench, in Unix milliseconds. */
  now(): number;
  /** Lets time pass, and everything happen that is due in it. */
  advance(milliseconds: number): Promise<void>;
  /** The page dies, at once or at this point of its next delivery, and is opened anew on the same store. */
  reload(options?: { killAt?: KillPoint | undefined }): Promise<Client>;
  close(): Promise<void>;
}

export type TestBenchOptions = Omit<ClientOptions, "fetch" | "store"> & { seed?: number | undefined };

const ORIGIN = "https://bench.example";
const PREFIX = "/.well-known/samekey";
const START = Date.UTC(2030, 0, 1);
/** Longer than any pause of the engine. */
const PATIENCE = 3_600_000;

interface Route { readonly method: string; readonly path: RegExp; readonly handler: Handler; effects: number; deliveries: number }
interface Kept { readonly body: string; answer?: { status: number; headers: [string, string][]; body: ArrayBuffer } }
interface Page { alive: boolean; killAt: KillPoint | undefined; client: Client }

export function createTestBench({ seed = 1, ...options }: TestBenchOptions): TestBench {
  const store = memoryStore();
  const routes = new Map<string, Route>();
  const kept = new Map<string, Kept>();
  const timers = new Set<{ at: number; run: () => void }>();
  const network = { loseRequest: false, loseAnswer: false, offline: false };
  const locks = new Map<string, Page>();
  const hints = new Set<(online: boolean) => void>();
  let now = START;
  let drawn = 0;
  let pending = 0;

  function platform(page: Page): Platform {
    const never = new Promise<never>(() => {});
    const alive = async <T>(value: Promise<T>): Promise<T> => {
      const result = await value;
      return page.alive ? result : never;
    };
    const dies = (at: KillPoint) => {
      if (page.killAt !== at) return false;
      page.alive = false;
      // What it began never ends, and nobody waits for it.
      pending = 0;
      return true;
    };
    return {
      now: () => now,
      seed: () => Uint8Array.from({ length: 32 }, (_, at) => (seed >> (8 * (at % 4))) ^ (at < 4 ? 0 : at === 4 ? ++drawn : at)),
      timer: (run, after) => {
        const timer = { at: now + after, run: () => page.alive && run() };
        timers.add(timer);
        return () => timers.delete(timer);
      },
      hold: () => () => {},
      fetch: (url, init) => {
        pending++;
        return alive(exchange(new Request(url, init), dies)).finally(() => (pending = Math.max(0, pending - 1)));
      },
      base: options.baseUrl === undefined ? ORIGIN : undefined,
      origin: ORIGIN,
      // They end with their page, like a browser's.
      locks: {
        request: (async (name: string, _options: LockOptions, run: (lock: Lock | null) => Promise<unknown>) => {
          if (locks.get(name)?.alive) return run(null);
          locks.set(name, page);
          return Promise.resolve(run({ name, mode: "exclusive" })).finally(() => locks.get(name) === page && locks.delete(name));
        }) as LockManager["request"],
      },
      keeps: true,
      store: () => ({
        ...store,
        put: (record, expected) => (page.alive ? alive(store.put(record, expected)) : never),
        all: () => alive(store.all()),
      }),
      channel: () => ({ tell: () => {}, close: () => {} }),
      listen: (_look, online) => {
        const hint = (is: boolean) => page.alive && online(is);
        hints.add(hint);
        if (network.offline) hint(false);
        return () => hints.delete(hint);
      },
      waits: () => {},
    };
  }

  async function exchange(request: Request, dies: (at: KillPoint) => boolean): Promise<Response> {
    if (network.offline) throw new TypeError("the bench is offline");
    if (dies("before_send")) return new Promise(() => {});
    if (network.loseRequest) {
      network.loseRequest = false;
      throw new TypeError("the bench lost the request");
    }
    const { pathname } = new URL(request.url);
    const answer = pathname.startsWith(PREFIX) ? status(request) : await deliver(request, pathname);
    if (dies("after_send")) return new Promise(() => {});
    if (network.loseAnswer) {
      network.loseAnswer = false;
      throw new TypeError("the bench lost the answer");
    }
    dies("after_answer");
    return answer;
  }

  async function deliver(request: Request, pathname: string): Promise<Response> {
    const route = [...routes.values()].find(({ method, path }) => method === request.method && path.test(pathname));
    if (!route) return new Response(null, { status: 404, headers: { "samekey-state": "not_covered" } });
    route.deliveries++;
    const key = request.headers.get("idempotency-key");
    const again = request.clone();
    const body = await request.text();
    const known = key === null ? undefined : kept.get(key);
    if (known && known.body !== body) return problem("key_payload_mismatch", 409, "refused");
    if (known && !known.answer) return problem("operation_in_progress", 409, "in_progress");
    if (known?.answer) return stored(known.answer, true);
    const record: Kept = { body };
    if (key !== null) kept.set(key, record);
    route.effects++;
    const answer = await route.handler(again);
    record.answer = { status: answer.status, headers: [...answer.headers], body: await answer.arrayBuffer() };
    return stored(record.answer, false);
  }

  function status(request: Request): Response {
    const key = request.headers.get("idempotency-key");
    const known = key === null ? undefined : kept.get(key)?.answer;
    if (!known) return Response.json({ state: "none" }, { status: 404, headers: { "samekey-state": "none" } });
    const state = word(known.status);
    return Response.json({ state, status_code: known.status, response_stored: true }, { headers: { "samekey-state": state } });
  }

  const word = (status: number) => (status < 400 ? "completed" : "failed");

  function stored(answer: NonNullable<Kept["answer"]>, replayed: boolean): Response {
    const headers = new Headers([...answer.headers, ["samekey-state", `${word(answer.status)};attempt=1`]]);
    if (replayed) headers.set("idempotent-replayed", "true");
    return new Response(answer.body.byteLength ? answer.body : null, { status: answer.status, headers });
  }

  function problem(code: string, status: number, state: string): Response {
    const body = JSON.stringify({ type: `${PREFIX}/problems/${code}`, code, status });
    return new Response(body, { status, headers: { "content-type": "application/problem+json", "samekey-state": state } });
  }

  function opened(): Page {
    const page: Page = { alive: true, killAt: undefined, client: undefined as unknown as Client };
    page.client = createClientOn(options, platform(page));
    return page;
  }

  /** Until nothing more happens without time. Promises run before a timer of the real clock does. */
  async function settle() {
    for (let quiet = 0; quiet < 3; quiet = pending > 0 ? 0 : quiet + 1) await new Promise((resolve) => setTimeout(resolve));
  }

  async function advance(milliseconds: number, until = () => false) {
    const end = now + milliseconds;
    await page.client.ready;
    for (await settle(); !until(); await settle()) {
      const next = [...timers].sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      timers.delete(next);
      now = Math.max(now, next.at);
      next.run();
    }
    if (!until()) now = end;
  }

  let page = opened();
  return {
    get client() {
      return page.client;
    },
    server: {
      on: (pattern, handler) => {
        const [method = "", path = ""] = pattern.split(" ");
        const source = path.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/:[A-Za-z]\w*/g, "[^/]+");
        routes.set(pattern, { method, path: new RegExp(`^${source}$`), handler, effects: 0, deliveries: 0 });
      },
      effects: (pattern) => routes.get(pattern)?.effects ?? 0,
      deliveries: (pattern) => routes.get(pattern)?.deliveries ?? 0,
    },
    network: {
      loseNextRequest: () => void (network.loseRequest = true),
      loseNextAnswer: () => void (network.loseAnswer = true),
      offline: () => ((network.offline = true), hints.forEach((hint) => hint(false))),
      online: () => ((network.offline = false), hints.forEach((hint) => hint(true))),
    },
    now: () => now,
    advance: (milliseconds) => advance(milliseconds),
    reload: async ({ killAt } = {}) => {
      if (killAt) {
        page.killAt = killAt;
        await advance(PATIENCE, () => !page.alive);
      }
      page.alive = false;
      page = opened();
      await page.client.ready;
      return page.client;
    },
    close: () => page.client.close(),
  };
}
