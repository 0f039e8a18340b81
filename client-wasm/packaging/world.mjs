// The packed package in a folder of tiny projects, a server that makes orders, and a browser.
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const work = join(here, "work");
export const bin = (name) => join(here, "node_modules/.bin", name);
/** Bun's own file is put in its place by an install script, and those do not run here. */
export const bun = () => join(here, "node_modules/@oven", readdirSync(join(here, "node_modules/@oven"))[0], "bin/bun");

/** Packs the package as `npm publish` would, and installs the tarball beside the projects. */
export function install() {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work);
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", work], { cwd: join(here, ".."), encoding: "utf8" });
  const tarball = join(work, packed.trim().split("\n").at(-1));
  writeFileSync(join(work, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--offline", "--silent", tarball], { cwd: work });
  return tarball;
}

/** A project of these files. */
export function project(name, files) {
  const folder = join(work, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

/** Runs to the end and gives what was printed; the shop of this process answers meanwhile. */
export async function run(folder, program, ...args) {
  const { stdout } = await promisify(execFile)(program, args, { cwd: folder, timeout: 120_000, env: { ...process.env, NODE_ENV: "production", NEXT_TELEMETRY_DISABLED: "1" } });
  return stdout;
}

/** Starts a server and waits for the line that names its address. */
export async function serve(t, folder, program, ...args) {
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"], detached: true, env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1" } });
  t.after(() => process.kill(-child.pid, "SIGKILL"));
  let text = "";
  return new Promise((resolve, reject) => {
    const read = (data) => {
      text += data;
      // Colours stand inside of addresses.
      const found = /http:\/\/(?:localhost|127\.0\.0\.1):\d+/.exec(text.replace(/\x1b\[[\d;]*m/g, ""));
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => reject(new Error(`${program} ended with ${code}: ${text}`)));
  });
}

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };

/** Files of a folder, and orders: one effect for each key, as samekey makes sure of. */
export async function shop(t, root = work, headers = {}) {
  const kept = new Map();
  const orders = { made: 0, deliveries: 0 };
  const server = createServer(async (request, response) => {
    const cors = { "access-control-allow-origin": "*", "access-control-allow-headers": "*", "access-control-allow-methods": "*", "access-control-expose-headers": "*" };
    const path = new URL(request.url, "http://shop").pathname;
    if (request.method === "OPTIONS") return response.writeHead(204, cors).end();
    if (request.method === "POST") {
      for await (const _ of request);
      orders.deliveries++;
      const key = request.headers["idempotency-key"];
      if (!kept.has(key)) kept.set(key, JSON.stringify({ id: `o${++orders.made}` }));
      return response.writeHead(201, { ...cors, "content-type": "application/json", "samekey-state": "completed;attempt=1" }).end(kept.get(key));
    }
    try {
      const file = join(root, path.endsWith("/") ? `${path}index.html` : path);
      const text = readFileSync(file);
      response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", ...headers }).end(text);
    } catch {
      response.writeHead(404, cors).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.close(), server.closeAllConnections()));
  return { orders, url: `http://127.0.0.1:${server.address().port}` };
}

let browser;
/** Opens a page and returns what it says in `window.said`. */
export async function visit(t, url) {
  browser ??= chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await (await browser).newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(url);
  await page.waitForFunction(() => window.said, undefined, { timeout: 20_000 }).catch(() => {
    throw new Error(`${url} said nothing: ${errors.join("\n")}`);
  });
  return page.evaluate(() => window.said);
}
export const closeBrowser = async () => (await browser)?.close();
