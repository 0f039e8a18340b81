// The public declarations. No `any`; they need only the fetch part of lib.dom.

export interface ClientOptions {
  /** Who is signed in; required so that nobody forgets it, `null` = anonymous on purpose. A function is asked before each delivery. */
  account: string | null | (() => string | null | Promise<string | null>);
  /** Called for each delivery, never stored: tokens, CSRF headers. */
  headers?: ((context: DeliveryContext) => HeadersInit | Promise<HeadersInit>) | undefined;
  /** After a refusal to an unknown caller; true = send again now, same key. Without it the intent waits as `needs_auth`. */
  refreshAuth?: ((context: DeliveryContext) => Promise<boolean>) | undefined;
  /** Which calls of `client.fetch` are intents. None but those with an `Idempotency-Key` header or `init.samekey`, unless said here. */
  operations?: Record<string, OperationOptions> | undefined;
  /** The location of document or worker, unless said here; needed in Node for relative URLs. */
  baseUrl?: string | URL | undefined;
  /** `globalThis.fetch`, looked up at call time, unless said here. */
  fetch?: typeof globalThis.fetch | undefined;
  /** IndexedDB, or memory where there is none, unless said here. */
  store?: Store | undefined;
  /** "samekey" unless said here; two applications on one origin need two. */
  name?: string | undefined;
  retry?: RetryOptions | undefined;
  /** "X-Request-Id" to the own origin and to known samekey servers, unless said here. */
  requestIdHeader?: string | false | undefined;
  /** `console.warn` for level "warn", unless said here. Never payload or key. */
  log?: ((entry: LogEntry) => void) | undefined;
}

export interface OperationOptions {
  /** "PATCH /api/orders/:id" */
  match?: string | RegExp | ((request: { method: string; url: URL }) => boolean) | undefined;
  /** Which fields make two calls the same intent; the URL always counts. */
  significant?: { include?: readonly string[] | undefined; exclude?: readonly string[] | undefined } | undefined;
  retry?: RetryOptions | undefined;
  /** Needs the receipt header, trusts the status, or learns it for each origin ("auto"). */
  receipt?: "auto" | "samekey" | "status" | undefined;
  /** An equal payload while the first is unresolved; "join" unless said here. */
  duplicates?: "join" | "reject" | "allow" | undefined;
  /** Bytes of the response kept for a page that is gone; 65536 unless said here, 0 = status only. */
  keepResponse?: number | undefined;
}

/** Milliseconds: 60 s, 5 days (capped by the server's contract), 1 s and 5 min unless said here. */
export interface RetryOptions {
  attemptTimeout?: number | undefined;
  budget?: number | undefined;
  baseDelay?: number | undefined;
  maxDelay?: number | undefined;
}

export interface SubmitOptions {
  url: string | URL;
  /** "POST" unless said here. */
  method?: "POST" | "PATCH" | "PUT" | "DELETE" | (string & {}) | undefined;
  /** `${method} ${pathname}` unless said here. */
  operation?: string | undefined;
  /** Written as JSON once; excludes `body`. */
  json?: unknown;
  body?: string | URLSearchParams | FormData | Blob | ArrayBuffer | ArrayBufferView | undefined;
  /** Stored: Authorization, Cookie and the like are refused. */
  headers?: HeadersInit | undefined;
  credentials?: RequestCredentials | undefined;
  /** One form, draft or cart: at most one unresolved intent in it. */
  slot?: string | undefined;
  /** An equal payload on purpose: the second coffee. */
  another?: boolean | undefined;
  key?: string | undefined;
  label?: string | undefined;
  meta?: Meta | undefined;
  /** Stops waiting, never the intent; see cancel(). */
  signal?: AbortSignal | undefined;
}

export type Meta = Readonly<Record<string, string | number | boolean | null>>;

export type IntentState =
  | "queued" | "sending" | "waiting" // moves by itself
  | "needs_auth" | "stalled" | "unknown" | "expired" // needs somebody
  | "done" | "failed" | "conflict" | "cancelled"; // settled

/** Frozen snapshot, the same object until something changes. */
export interface Intent {
  readonly id: string;
  readonly operation: string;
  readonly account: string | null;
  /** Minted with the first delivery. */
  readonly key?: string;
  readonly method: string;
  readonly url: string;
  readonly slot?: string;
  readonly label?: string;
  readonly meta: Meta;
  readonly state: IntentState;
  /** Did it happen? "no" for a refusal, "unknown" for a server that failed half-way. */
  readonly effect: "no" | "yes" | "unknown";
  /** false: no byte can have left, safe to edit or cancel. */
  readonly maybeSent: boolean;
  readonly deliveries: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** When it is no longer delivered by itself; known from the first delivery on. */
  readonly deadline?: number;
  readonly nextAttemptAt?: number;
  readonly waitingFor?: "network" | "server" | "other_tab" | "auth";
  readonly lastError?: {
    readonly code: ProblemCode | "network" | "timeout" | "no_receipt" | (string & {});
    readonly status?: number;
    readonly requestId?: string;
  };
  readonly response?: StoredResponse;
}

/** `body` is null where the answer was not kept. */
export interface StoredResponse {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body: Uint8Array<ArrayBuffer> | null;
  readonly replayed: boolean;
}

interface Base<S extends IntentState> {
  readonly state: S;
  readonly intent: Intent;
  readonly joined: boolean;
  readonly response?: StoredResponse;
}

/** What `submit` resolves to: settled, or in need of a person. It rejects only for abort, storage and programming errors. */
export type Outcome<T = unknown, E = unknown> =
  | (Base<"done"> & { readonly data: T; readonly response: StoredResponse; readonly replayed: boolean })
  | (Base<"failed"> & { readonly data: E; readonly response: StoredResponse })
  | Base<"conflict"> | Base<"cancelled"> | Base<"expired"> | Base<"unknown"> | Base<"stalled">;

export interface Client {
  /** enqueue + wait */
  submit<T = unknown, E = unknown>(options: SubmitOptions): Promise<Outcome<T, E>>;
  /** Resolves once durable. */
  enqueue(options: SubmitOptions): Promise<{ intent: Intent; joined: boolean }>;
  wait<T = unknown, E = unknown>(id: string, options?: { signal?: AbortSignal | undefined }): Promise<Outcome<T, E>>;
  /** Bound. Unmatched requests go straight to the network, untouched and unstored. */
  readonly fetch: (input: RequestInfo | URL, init?: RequestInit & { samekey?: FetchIntent | undefined }) => Promise<Response>;
  readonly outbox: Outbox;
  get(id: string): Intent | undefined;
  /** Same key; `expired` needs acceptRisk. */
  resume(id?: string, options?: { acceptRisk?: "may_double" | undefined }): Promise<void>;
  /** Closes the key on the server if anything was sent; tells the truth. */
  cancel(id: string): Promise<Outcome>;
  /** Forgets a settled intent; an unsettled one needs acceptRisk. */
  dismiss(id: string, options?: { acceptRisk?: "may_double" | undefined }): Promise<void>;
  on<K extends keyof ClientEvents>(type: K, listener: (event: ClientEvents[K]) => void): () => void;
  /** Returns what was unresolved; "keep" unless said here. */
  signOut(options?: { unresolved?: "keep" | "discard" | undefined }): Promise<readonly Intent[]>;
  /** The outbox has been read from disk. */
  readonly ready: Promise<void>;
  readonly durability: Durability;
  requestPersistence(): Promise<boolean>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Fits useSyncExternalStore as it is. */
export interface Outbox {
  getSnapshot(): readonly Intent[];
  getServerSnapshot(): readonly Intent[];
  subscribe(listener: () => void): () => void;
}

export interface FetchIntent {
  operation?: string | undefined;
  slot?: string | undefined;
  another?: boolean | undefined;
  label?: string | undefined;
  /** 30 s unless said here, then rejects with samekey/pending; the intent goes on. */
  patience?: number | undefined;
}

export interface DeliveryContext {
  readonly intent: Intent;
  readonly delivery: number;
  readonly signal: AbortSignal;
}

export interface ClientEvents {
  change: Intent;
  settled: Intent;
  attention: Intent;
  storage: { durability: Durability; reason: "degraded" | "evicted" | "quota" | "blocked" };
}

export type Durability = "strict" | "relaxed" | "session" | "memory";

export interface LogEntry {
  readonly level: "debug" | "warn";
  readonly code: string;
  readonly intentId?: string;
  readonly message: string;
}

export type ProblemCode =
  | "operation_in_progress" | "outcome_uncertain" | "key_payload_mismatch" | "key_expired" | "response_not_stored"
  | "idempotency_key_required" | "idempotency_key_invalid" | "actor_required" | "actor_changed" | "operation_released"
  | "key_closed" | "payload_too_large" | "quota_exceeded" | "overloaded" | "store_unavailable"
  | "upstream_unreachable" | "upstream_timeout";

export type SamekeyErrorCode =
  | "samekey/pending" | "samekey/outcome" | "samekey/conflict" | "samekey/duplicate" | "samekey/stream_body"
  | "samekey/secret_header" | "samekey/storage" | "samekey/wasm_blocked" | "samekey/closed" | "samekey/invalid_option";

/** A place for records, with compare-and-set: two pages or processes on one store must not both win. */
export interface Store {
  readonly durability: Durability;
  all(): Promise<StoredRecord[]>;
  /** Resolves once durable; false: the stored revision is not `expected` (null = absent), nothing was written. */
  put(record: StoredRecord, expected: number | null): Promise<boolean>;
  delete(id: string, expected: number): Promise<boolean>;
  /** Takes a lock that ends with its holder, and gives back what frees it; undefined: somebody holds it. `steal`: take it even so. */
  lock?(name: string, steal: boolean): Promise<(() => void) | undefined>;
  /** Others wrote. */
  subscribe?(listener: () => void): () => void;
  close?(): Promise<void>;
}

/** Opaque to stores. `format` grows; old formats are read for ever. */
export interface StoredRecord {
  readonly id: string;
  readonly account: string | null;
  readonly revision: number;
  readonly format: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** Where the engine of samekey/slim comes from. */
export type Source = WebAssembly.Module | BufferSource | Response;
