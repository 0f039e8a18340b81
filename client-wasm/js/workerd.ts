// `samekey` in workerd, which compiles nothing at run time.
import wasm from "../wasm/samekey.wasm";
import { clientOn } from "./client.js";
import { memory } from "./module.js";
import type { Client, ClientOptions } from "./types.js";

export * from "./public.js";

const load = /* @__PURE__ */ memory(() => wasm as WebAssembly.Module);

export function createClient(options: ClientOptions): Client {
  return clientOn(options, load);
}
