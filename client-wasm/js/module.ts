// The engine's module, compiled once for all clients of a page.
import type { Load } from "./shell.js";
import type { Source } from "./types.js";

/** Compiles what `source` gives, at the first call; a failure is forgotten, so that the next call tries anew. */
export function memory(source: () => Source | Promise<Source>): Load {
  let module: Promise<WebAssembly.Module> | undefined;
  const compiled = async () => {
    const found = await source();
    if (found instanceof WebAssembly.Module) return found;
    return WebAssembly.compile(found instanceof Response ? await found.arrayBuffer() : found);
  };
  return () => {
    const compiling = (module ??= compiled());
    compiling.catch(() => (module = undefined));
    return compiling;
  };
}
