// Several pages of one origin.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { gate, oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

test("three tabs that come online together make one order of each intent", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const pages = [await openApp(browser, world.url), await openApp(browser, world.url), await openApp(browser, world.url)];
  await browser.setOffline(true);
  await Promise.all(pages.map((page, at) => page.evaluate((sku) => client.enqueue({ url: "/api/orders", json: { sku }, label: sku }).then(() => {}), `sku${at}`)));
  for (const page of pages) await page.waitForFunction(() => client.outbox.getSnapshot().length === 3);
  await browser.setOffline(false);
  for (const page of pages) await shows(page, "done", 3);
  oneEffect(world, "sku0", "sku1", "sku2");
  assert.equal(world.network.requests().length, 3, "nobody sent what another tab was sending");
});

test("what one tab sent another tab shows, and the same click there joins", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const [one, two] = [await openApp(browser, world.url), await openApp(browser, world.url)];
  const { until, open } = gate();
  world.shop.pause = () => until;
  const first = one.evaluate(() => window.buy("tea", { slot: "cart" }));
  await shows(two, "sending");
  const second = two.evaluate(() => window.buy("tea", { slot: "cart" }));
  open();
  assert.deepEqual([(await first).joined, (await second).joined], [false, true]);
  assert.equal((await second).data.id, "o1");
  oneEffect(world, "tea");
});

test("a tab that is closed in the middle is continued by the other one", async (t) => {
  const world = await startWorld(t, ["--default-wait", "200ms"]);
  const browser = await context(t);
  const [one, two] = [await openApp(browser, world.url), await openApp(browser, world.url)];
  world.network.faults.push({ do: "hold", until: gate().until });
  void one.evaluate(() => void window.buy("tea"));
  await world.network.arrived(1);
  await one.close();
  await shows(two, "done");
  oneEffect(world, "tea");
});

test("a tab frozen while it holds the lock holds nobody up for long", async (t) => {
  const world = await startWorld(t, ["--default-wait", "200ms"]);
  const browser = await context(t);
  await browser.addInitScript(() => sessionStorage.setItem("options", JSON.stringify({ retry: { baseDelay: 50, maxDelay: 300, attemptTimeout: 1_000 } })));
  const [one, two] = [await openApp(browser, world.url), await openApp(browser, world.url)];
  world.network.faults.push({ do: "hold", until: gate().until });
  void one.evaluate(() => void window.buy("tea")).catch(() => {});
  await world.network.arrived(1);
  // As a browser freezes a tab: no task of it runs, and its lock stays held.
  const session = await browser.newCDPSession(one);
  await session.send("Debugger.enable");
  await session.send("Debugger.pause");
  void one.evaluate(() => 0).catch(() => {});
  // The lease: one second for the exchange, fifteen for a slow page; then somebody looks again.
  await shows(two, "done", 1, 45_000).finally(() => session.send("Debugger.disable"));
  oneEffect(world, "tea");
});

test("without Web Locks, leases keep two tabs apart", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await browser.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { get: () => undefined }));
  const [one, two] = [await openApp(browser, world.url), await openApp(browser, world.url)];
  assert.equal(await one.evaluate(() => navigator.locks), undefined);
  await browser.setOffline(true);
  await one.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
  await two.waitForFunction(() => client.outbox.getSnapshot().length === 1);
  await browser.setOffline(false);
  await shows(one, "done");
  await shows(two, "done");
  oneEffect(world, "tea");
});
