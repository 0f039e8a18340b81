// Options of the application, for the engine; client-wasm/src/settings.rs reads them.
import { type Value, frame } from "./frame.js";
import type { Platform } from "./platform.js";
import type { ClientOptions, RetryOptions } from "./types.js";

export function settings(options: ClientOptions, platform: Platform): Uint8Array {
  const retry = (it: RetryOptions = {}): Value[] => [it.attemptTimeout, it.budget, it.baseDelay, it.maxDelay];
  const base = address("", options, platform);
  const header = options.requestIdHeader;
  const operations = Object.entries(options.operations ?? {}).flatMap(([name, it]): Value[] => [
    name, typeof it.match === "string" ? it.match : undefined,
    it.significant?.include ?? [], it.significant?.exclude ?? [],
    it.receipt, it.duplicates, it.keepResponse, ...retry(it.retry),
  ]);
  return frame(
    platform.origin, base?.origin, header === false ? "" : header, options.refreshAuth !== undefined,
    (options.store?.lock ?? platform.locks) !== undefined, ...retry(options.retry), ...operations,
  );
}

/** An absolute URL, if it can be told. */
export function address(url: string | URL, options: ClientOptions, platform: Platform): URL | undefined {
  try {
    const base = options.baseUrl === undefined ? platform.base : new URL(options.baseUrl, platform.base);
    return new URL(url, base);
  } catch {
    return undefined;
  }
}

/** The operation that a pattern or function of the application names; texts are matched by the engine. */
export function named(options: ClientOptions, method: string, url: URL): string | undefined {
  return Object.entries(options.operations ?? {}).find(([, { match }]) =>
    match instanceof RegExp ? match.test(`${method} ${url.href}`) : typeof match === "function" && match({ method, url }),
  )?.[0];
}
