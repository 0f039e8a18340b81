// What the first command of a page pays on top of a bare `fetch`: compiling the engine, opening the store, two durable
// writes. Told as a ratio to bare fetches of the same run, because machines differ.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context } from "./support/browser.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

test("the first command leaves soon after the page has loaded", async (t) => {
  const world = await startWorld(t);
  const runs = [];
  for (let run = 0; run < 7; run++) {
    const browser = await context(t);
    const page = await browser.newPage();
    await page.goto(`${world.url}/empty.html`);
    runs.push(await page.evaluate(async () => {
      const { createClient } = await import("/dist/index.js");
      const bare = async () => {
        const began = performance.now();
        await (await fetch("/api/orders", { method: "POST", body: "{}", headers: { "x-user": "ann" } })).text();
        return performance.now() - began;
      };
      await bare();
      const fetched = await bare();
      const real = window.fetch;
      let left;
      window.fetch = (...request) => ((left ??= performance.now()), real(...request));
      const began = performance.now();
      const client = createClient({ account: "ann", headers: () => ({ "x-user": "ann" }) });
      await client.submit({ url: "/api/orders", json: {} });
      return { start: left - began, fetched };
    }));
  }
  const middle = (of) => runs.map(of).sort((a, b) => a - b)[runs.length >> 1];
  const [start, fetched] = [middle((run) => run.start), middle((run) => run.fetched)];
  t.diagnostic(`first send after ${start.toFixed(1)} ms; a bare fetch takes ${fetched.toFixed(1)} ms: ratio ${(start / fetched).toFixed(2)}`);
  assert.ok(start < 15 || start < 6 * fetched, `first send after ${start.toFixed(1)} ms, bare fetch ${fetched.toFixed(1)} ms`);
});
