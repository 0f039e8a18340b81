// What crosses the border to the engine; client-wasm/src/frame.rs is the other side.

export type Value = number | boolean | string | Uint8Array | readonly string[] | null | undefined;

const utf8 = new TextEncoder();
const text = new TextDecoder();

export function frame(...values: Value[]): Uint8Array {
  const parts: Uint8Array[] = [];
  const leb = (tag: number[], value: number) => {
    // No shifts: they cut at 32 bits, and times have more.
    for (; value > 0x7f; value = Math.floor(value / 0x80)) tag.push((value % 0x80) + 0x80);
    parts.push(Uint8Array.from([...tag, value]));
  };
  const raw = (tag: number[], bytes: Uint8Array) => (leb(tag, bytes.length), parts.push(bytes));
  for (const value of values) {
    if (value === null || value === undefined) parts.push(Uint8Array.of(0));
    else if (typeof value === "string") raw([2], utf8.encode(value));
    else if (value instanceof Uint8Array) raw([3], value);
    else if (typeof value === "object") {
      leb([4], value.length);
      for (const one of value) raw([], utf8.encode(one));
    } else leb([1], Math.max(0, Math.floor(+value)) || 0);
  }
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let end = 0;
  for (const part of parts) (all.set(part, end), (end += part.length));
  return all;
}

/** Actions: each a count, a name, and values. */
export function unframe(bytes: Uint8Array): Value[][] {
  let at = 0;
  const leb = () => {
    for (let value = 0, unit = 1; ; unit *= 0x80) {
      const byte = bytes[at++]!;
      value += (byte % 0x80) * unit;
      if (byte < 0x80) return value;
    }
  };
  const raw = () => {
    const length = leb();
    return bytes.slice(at, (at += length));
  };
  const value = (): Value => {
    switch (bytes[at++]) {
      case 1: return leb();
      case 2: return text.decode(raw());
      case 3: return raw();
      case 4: return Array.from({ length: leb() }, () => text.decode(raw()));
      default: return undefined;
    }
  };
  const actions: Value[][] = [];
  while (at < bytes.length) actions.push(Array.from({ length: value() as number }, value));
  return actions;
}
