// `samekey/sw`: a service worker goes on when no page is open.
import { createClient } from "./index.js";
import type { Client, ClientOptions, Intent } from "./types.js";

export * from "./index.js";

interface Extendable extends Event { waitUntil(promise: Promise<unknown>): void }
/** How long a browser lets a worker run for one event, less a reserve. */
const PATIENCE = 25_000;

export function installSamekey(options: ClientOptions): { readonly client: Client } {
  const client = createClient(options);
  const moving = ({ state }: Intent) => state === "queued" || state === "sending" || state === "waiting";
  async function flush() {
    await client.ready;
    await client.resume();
    const signal = AbortSignal.timeout(PATIENCE);
    // A rejection asks the browser to wake this worker again later.
    await Promise.all(client.outbox.getSnapshot().filter(moving).map(({ id }) => client.wait(id, { signal })));
  }
  addEventListener("sync", (event) => {
    if ((event as Event & { tag: string }).tag === (options.name ?? "samekey")) (event as Extendable).waitUntil(flush());
  });
  // Where there is no Background Sync, whatever wakes the worker is a chance.
  addEventListener("activate", (event) => (event as Extendable).waitUntil(flush().catch(() => {})));
  return { client };
}
