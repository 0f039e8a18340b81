// Errors with a stable code. Libraries wrap them and bundles double their class, so a code is looked for, never a class.
import type { Intent, Outcome, SamekeyErrorCode } from "./types.js";

const TEXTS: Record<SamekeyErrorCode, string> = {
  "samekey/pending": "the outcome is not known yet; the intent is kept and goes on, see client.wait(error.intent.id)",
  "samekey/outcome": "the command did not succeed; see error.outcome",
  "samekey/conflict": "the key or slot is in use for something else, see error.intent",
  "samekey/duplicate": "an equal command is not resolved yet, see error.intent",
  "samekey/stream_body": "a stream can be read only once, but a command may be sent again; pass a Blob or bytes",
  "samekey/secret_header": "credentials are not stored; pass them by the option `headers` of createClient",
  "samekey/storage": "the command could not be stored, and therefore was not sent",
  "samekey/wasm_blocked": "WebAssembly is blocked: allow 'wasm-unsafe-eval' in script-src of the Content-Security-Policy",
  "samekey/closed": "this client is closed",
  "samekey/invalid_option": "an option makes no sense",
};

export class SamekeyError extends Error {
  override readonly name = "SamekeyError";
  readonly intent?: Intent;
  readonly outcome?: Outcome;

  constructor(readonly code: SamekeyErrorCode, more: { intent?: Intent | undefined; outcome?: Outcome; cause?: unknown; text?: string } = {}) {
    super(`${code}: ${more.text ?? TEXTS[code]}`, more.cause === undefined ? undefined : { cause: more.cause });
    if (more.intent) this.intent = more.intent;
    if (more.outcome) this.outcome = more.outcome;
  }
}

/**
 * Looks through `cause`: axios wraps, and two copies of the package break instanceof. A wrapper is given `code`, `intent`
 * and `outcome` of what it wraps, so that they are found where the type says.
 */
export function isSamekeyError(error: unknown, code?: SamekeyErrorCode): error is SamekeyError {
  for (let at = error, depth = 0; at instanceof Object && depth < 8; at = (at as Error).cause, depth++) {
    const own = at as SamekeyError;
    if (typeof own.code !== "string" || !own.code.startsWith("samekey/") || (code !== undefined && own.code !== code)) continue;
    // axios copies the code to its wrapper, but not what belongs to it.
    const whole = own.intent || own.outcome ? own : ((own.cause as SamekeyError | undefined) ?? own);
    if (whole !== error) Object.assign(error as object, { code: own.code, intent: whole.intent, outcome: whole.outcome });
    return true;
  }
  return false;
}

/** `data` of a `done` outcome; throws `samekey/outcome` for every other. */
export function unwrap<T>(outcome: Outcome<T, unknown>): T {
  if (outcome.state === "done") return outcome.data;
  throw new SamekeyError("samekey/outcome", { intent: outcome.intent, outcome, text: `the command is "${outcome.state}"; see error.outcome` });
}
