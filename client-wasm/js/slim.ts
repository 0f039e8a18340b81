// `samekey/slim`: the engine from where the application puts it, `samekey/samekey.wasm`.
import { clientOn } from "./client.js";
import { memory } from "./module.js";
import type { Client, ClientOptions, Source } from "./types.js";

export * from "./public.js";

/** `wasm` is called once, before the first client needs it: `() => fetch(new URL("samekey/samekey.wasm", …))`. */
export function clientFactory(wasm: () => Source | Promise<Source>): (options: ClientOptions) => Client {
  const load = memory(wasm);
  return (options) => clientOn(options, load);
}
