// Bodies become bytes once, when the command is given: it may be sent again next week.
import { SamekeyError } from "./errors.js";
import type { SubmitOptions } from "./types.js";

export interface Snapshot { readonly bytes: Uint8Array<ArrayBuffer> | undefined; readonly type: string | null }

export function refuseStream(body: unknown) {
  if (body instanceof Object && ("getReader" in body || Symbol.asyncIterator in body)) throw new SamekeyError("samekey/stream_body");
}

/** The platform writes forms, with files and a boundary of its own, and knows the type of each kind of body. */
export async function read(body: Body & { readonly headers: Headers }): Promise<Snapshot> {
  const bytes = new Uint8Array(await body.arrayBuffer());
  return { bytes: bytes.length ? bytes : undefined, type: body.headers.get("content-type") };
}

export async function snapshot({ json, body }: SubmitOptions): Promise<Snapshot> {
  if (json !== undefined && body !== undefined) throw new SamekeyError("samekey/invalid_option", { text: "pass `json` or `body`, not both" });
  if (json !== undefined) return { ...(await read(new Response(JSON.stringify(json)))), type: "application/json" };
  refuseStream(body);
  return read(new Response((body as BodyInit | undefined) ?? null));
}
