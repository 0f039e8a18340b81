// The service behind samekey: a small shop with a ledger of what really happened in it, and the pages of its app.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const APP = fileURLToPath(new URL("../app", import.meta.url));
const PACKAGE = fileURLToPath(new URL("../../../client-wasm/dist", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };

export async function startShop() {
  const shop = {
    /** One entry for each effect. */
    ledger: [],
    /** What the next commands are answered with, before the usual answer: `{ status, headers, body, effect }`. */
    script: [],
    /** Awaited between effect and answer. */
    pause: async () => {},
    /** Further headers of every page. */
    pageHeaders: {},
    /** Tokens that are refused; the shop looks at them like a service of its own. */
    refused: new Set(),
    effects: (sku) => shop.ledger.filter((entry) => entry.sku === sku).length,
  };
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await collect(request));
    const path = new URL(request.url, "http://shop").pathname;
    if (request.method === "GET") return page(path, response);
    if (shop.refused.has(request.headers.authorization)) return response.writeHead(401).end();
    const scripted = shop.script.shift();
    if (scripted?.effect !== false) {
      shop.ledger.push({ path, sku: sku(request, body), body, type: request.headers["content-type"], user: request.headers["x-user"], key: request.headers["idempotency-key"], at: Date.now() });
    }
    const number = shop.ledger.length;
    await shop.pause();
    response.writeHead(scripted?.status ?? 201, { "content-type": "application/json", ...scripted?.headers });
    response.end(scripted?.body ?? JSON.stringify({ id: `o${number}` }));
  });
  async function page(path, response) {
    const file = path.startsWith("/dist/") ? join(PACKAGE, path.slice(6)) : join(APP, path === "/" ? "index.html" : path);
    const text = await readFile(file).catch(() => undefined);
    if (text === undefined) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "cache-control": "no-store", ...shop.pageHeaders });
    response.end(text);
  }
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  shop.url = `http://127.0.0.1:${server.address().port}`;
  shop.close = () => new Promise((resolve) => (server.close(resolve), server.closeAllConnections()));
  return shop;
}

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

function sku(request, body) {
  try {
    return JSON.parse(body.toString()).sku;
  } catch {
    return undefined;
  }
}
