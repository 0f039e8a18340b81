// `samekey`: the engine inlined, so that one file is all there is to load.
import packed from "../wasm/samekey.wasm";
import { clientOn } from "./client.js";
import { memory } from "./module.js";
import type { Platform } from "./platform.js";
import type { Client, ClientOptions } from "./types.js";

export * from "./public.js";

const load = /* @__PURE__ */ memory(async () => {
  const bytes = Uint8Array.from(atob(packed as string), (byte) => byte.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
});

export function createClient(options: ClientOptions): Client {
  return clientOn(options, load);
}

/** @internal For samekey/testing, which has a clock and a network of its own. */
export function createClientOn(options: ClientOptions, platform: Platform): Client {
  return clientOn(options, load, platform);
}
