// The packed package in every place that it is meant for: a tiny project each, which makes one order.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { bin, bun, closeBrowser, install, project, run, serve, shop, visit, work } from "./world.mjs";

const tarball = install();
after(closeBrowser);
const require = createRequire(import.meta.url);

/** What each project does; `SHOP` is where. */
const ORDER = `
  async function order(createClient, base) {
    const client = createClient({ account: null, baseUrl: base });
    const outcome = await client.submit({ url: "/api/orders", json: { sku: "tea" } });
    await client.close();
    return outcome.state + " " + outcome.data.id;
  }`;
const PAGE = (script) => `<!doctype html><meta charset="utf-8"><title>shop</title>${script}`;
const SAYS = `order(createClient, location.origin).then((text) => (window.said = text), (error) => (window.said = String(error)));`;
const MADE = "done o1";

test("an ESM page without a bundler", async (t) => {
  project("page", { "index.html": PAGE(`<script type="module">import { createClient } from "/node_modules/samekey/dist/index.js";${ORDER}${SAYS}</script>`) });
  const { url } = await shop(t);
  assert.equal(await visit(t, `${url}/page/`), MADE);
});

test("an ESM page with samekey/slim and the module beside it", async (t) => {
  project("slim", { "index.html": PAGE(`<script type="module">import { clientFactory } from "/node_modules/samekey/dist/slim.js";
    const createClient = clientFactory(() => fetch("/node_modules/samekey/dist/samekey.wasm"));${ORDER}${SAYS}</script>`) });
  const { url } = await shop(t);
  assert.equal(await visit(t, `${url}/slim/`), MADE);
});

test("a classic script", async (t) => {
  project("classic", { "index.html": PAGE(`<script src="/node_modules/samekey/dist/samekey.iife.js"></script><script>const { createClient } = samekey;${ORDER}${SAYS}</script>`) });
  const { url } = await shop(t);
  assert.equal(await visit(t, `${url}/classic/`), MADE);
});

for (const [kind, source, options] of [
  ["module", `import { installSamekey } from "/node_modules/samekey/dist/sw.js";`, `{ type: "module" }`],
  ["classic", `importScripts("/node_modules/samekey/dist/samekey.iife.js"); const { installSamekey } = samekey;`, `{}`],
]) {
  test(`a ${kind} service worker`, async (t) => {
    project(`worker-${kind}`, {
      "worker.js": `${source}
        const { client } = installSamekey({ account: null });
        self.addEventListener("message", async (event) => {
          const outcome = await client.submit({ url: "/api/orders", json: { sku: "tea" } });
          event.source.postMessage(outcome.state + " " + outcome.data.id);
        });`,
      "index.html": PAGE(`<script type="module">
        navigator.serviceWorker.onmessage = (event) => (window.said = event.data);
        await navigator.serviceWorker.register("worker.js", ${options});
        (await navigator.serviceWorker.ready).active.postMessage("order");
      </script>`),
    });
    const { url } = await shop(t);
    assert.equal(await visit(t, `${url}/worker-${kind}/`), MADE);
  });
}

test("a strict Content-Security-Policy", async (t) => {
  project("csp", {
    "page.js": `import { createClient } from "/node_modules/samekey/dist/index.js";${ORDER}${SAYS}`,
    "index.html": PAGE(`<script type="module" src="page.js"></script>`),
  });
  const csp = (script) => ({ "content-security-policy": `default-src 'none'; connect-src 'self'; script-src 'self'${script}` });
  const { url } = await shop(t, work, csp(" 'wasm-unsafe-eval'"));
  assert.equal(await visit(t, `${url}/csp/`), MADE);
  const blocked = await shop(t, work, csp(""));
  const said = await visit(t, `${blocked.url}/csp/`);
  assert.match(said, /samekey\/wasm_blocked.*'wasm-unsafe-eval'/);
  assert.equal(blocked.orders.deliveries, 0);
});

const APP = { "index.html": PAGE(`<script type="module" src="./main.js"></script>`), "main.js": `import { createClient } from "samekey";${ORDER}${SAYS}` };
const BUILT = { ...APP, "index.html": PAGE(`<script src="out.js"></script>`) };

test("Vite, built", async (t) => {
  const folder = project("vite", { ...APP, "package.json": `{ "private": true, "type": "module" }` });
  await run(folder, bin("vite"), "build", "--logLevel", "warn");
  const { url } = await shop(t, join(folder, "dist"));
  assert.equal(await visit(t, `${url}/`), MADE);
});

test("Vite, its development server", async (t) => {
  const { url: to } = await shop(t);
  const folder = project("vite-dev", { ...APP, "package.json": `{ "private": true, "type": "module" }`, "vite.config.js": `export default { server: { proxy: { "/api": "${to}" } } };` });
  const url = await serve(t, folder, bin("vite"), "--port", "0", "--host", "127.0.0.1");
  assert.equal(await visit(t, `${url}/`), MADE);
});

test("webpack", async (t) => {
  const folder = project("webpack", BUILT);
  const webpack = require("webpack");
  const stats = await new Promise((resolve, reject) =>
    webpack({ mode: "production", context: folder, entry: "./main.js", output: { path: folder, filename: "out.js" } }, (error, stats) => (error ? reject(error) : resolve(stats))),
  );
  assert.deepEqual(stats.toJson({ all: false, errors: true, warnings: true }).errors, []);
  const { url } = await shop(t, folder);
  assert.equal(await visit(t, `${url}/`), MADE);
});

test("Rollup", async (t) => {
  const folder = project("rollup", BUILT);
  const { rollup } = require("rollup");
  const { nodeResolve } = require("@rollup/plugin-node-resolve");
  const warnings = [];
  const bundle = await rollup({ input: join(folder, "main.js"), plugins: [nodeResolve({ browser: true })], onwarn: (warning) => warnings.push(warning.message) });
  await bundle.write({ file: join(folder, "out.js"), format: "iife" });
  assert.deepEqual(warnings, []);
  const { url } = await shop(t, folder);
  assert.equal(await visit(t, `${url}/`), MADE);
});

test("esbuild, and what is imported for nothing is left out", async (t) => {
  const folder = project("esbuild", { ...BUILT, "nothing.js": `import { createClient } from "samekey"; import "samekey/sw"; console.log(1);` });
  await run(folder, bin("esbuild"), "main.js", "--bundle", "--minify", "--outfile=out.js");
  const { url } = await shop(t, folder);
  assert.equal(await visit(t, `${url}/`), MADE);
  await run(folder, bin("esbuild"), "nothing.js", "--bundle", "--minify", "--outfile=nothing.out.js", "--log-level=error");
  assert.ok(readFileSync(join(folder, "nothing.out.js")).length < 200);
});

test("Next: a page and a route handler", async (t) => {
  const { url: to } = await shop(t);
  const folder = project("next", {
    "package.json": `{ "private": true }`,
    "next.config.js": `module.exports = { outputFileTracingRoot: require("path").join(__dirname, "../.."), turbopack: { root: require("path").join(__dirname, "../..") } };`,
    "app/layout.js": `export default function Layout({ children }) { return <html><body>{children}</body></html>; }`,
    "app/client.js": `import { createClient } from "samekey"; export const client = createClient({ account: null, baseUrl: "${to}" });`,
    "app/page.js": `"use client";
      import { useEffect, useSyncExternalStore } from "react";
      import { client } from "./client.js";
      export default function Page() {
        const intents = useSyncExternalStore(client.outbox.subscribe, client.outbox.getSnapshot, client.outbox.getServerSnapshot);
        useEffect(() => { client.submit({ url: "/api/orders", json: { sku: "tea" }, slot: "cart" }); }, []);
        const done = intents.find((intent) => intent.state === "done");
        useEffect(() => { if (done) window.said = done.state + " " + intents.length; }, [done]);
        return <ul>{intents.map((intent) => <li key={intent.id}>{intent.state}</li>)}</ul>;
      }`,
    "app/made/route.js": `import { createClient } from "samekey";
      ${ORDER}
      export const dynamic = "force-dynamic";
      export async function GET() { return new Response(await order(createClient, "${to}")); }`,
  });
  await run(folder, bin("next"), "build");
  const url = await serve(t, folder, bin("next"), "start", "--port", "0", "--hostname", "127.0.0.1");
  assert.equal(await (await fetch(`${url}/made`)).text(), MADE);
  assert.equal(await visit(t, `${url}/`), "done 1");
});

const PROGRAM = (load, to) => `${load}${ORDER} order(createClient, "${to}").then(console.log);`;

test("Node, ESM and CommonJS", async (t) => {
  const { url } = await shop(t);
  const folder = project("node", {
    "esm.mjs": PROGRAM(`import { createClient } from "samekey";`, url),
    "cjs.cjs": PROGRAM(`const { createClient } = require("samekey");`, url),
    "entries.mjs": `for (const entry of ["samekey", "samekey/slim", "samekey/sw", "samekey/node", "samekey/testing"]) console.log(Object.keys(await import(entry)).length > 0);`,
    "entries.cjs": `for (const entry of ["samekey", "samekey/slim", "samekey/sw", "samekey/node", "samekey/testing"]) console.log(Object.keys(require(entry)).length > 0);`,
  });
  assert.equal(await run(folder, "node", "esm.mjs"), "done o1\n");
  assert.equal(await run(folder, "node", "cjs.cjs"), "done o2\n");
  for (const entries of ["entries.mjs", "entries.cjs"]) assert.equal(await run(folder, "node", entries), "true\n".repeat(5));
});

test("Deno", async (t) => {
  const { url } = await shop(t);
  const folder = project("deno", { "main.mjs": PROGRAM(`import { createClient } from "samekey";`, url), "deno.json": `{ "nodeModulesDir": "manual" }`, "package.json": `{ "dependencies": { "samekey": "*" } }` });
  assert.equal(await run(folder, bin("deno"), "run", "--no-lock", "--allow-net", "--allow-read", "--allow-env", "main.mjs"), "done o1\n");
});

test("Bun", async (t) => {
  const { url } = await shop(t);
  const folder = project("bun", { "main.mjs": PROGRAM(`import { createClient } from "samekey";`, url) });
  assert.equal(await run(folder, bun(), "run", "main.mjs"), "done o1\n");
});

test("workerd", async (t) => {
  const { url } = await shop(t);
  const folder = project("workerd", {
    "worker.mjs": `import { createClient } from "samekey"; ${ORDER} export default { fetch: async () => new Response(await order(createClient, "${url}").catch(String)) };`,
  });
  await run(folder, bin("esbuild"), "worker.mjs", "--bundle", "--format=esm", "--conditions=workerd,worker", "--loader:.wasm=copy", "--asset-names=[name]", "--outdir=out");
  const { Miniflare } = require("miniflare");
  const worker = new Miniflare({ modules: true, modulesRoot: join(folder, "out"), scriptPath: join(folder, "out/worker.js"), modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }, { type: "ESModule", include: ["**/*.js"] }], compatibilityDate: "2026-07-01" });
  t.after(() => worker.dispose());
  const answer = await worker.dispatchFetch("http://worker/");
  assert.equal(await answer.text(), MADE);
});

test("publint and are-the-types-wrong have nothing to say", async () => {
  await run(work, bin("publint"), "--strict", tarball);
  await run(work, bin("attw"), tarball, "--profile", "node16", "--exclude-entrypoints", "iife", "samekey.wasm");
});
