// Service workers: with Background Sync they go on when no page is open; without it the next page does.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { gate, oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

for (const [kind, script, options] of [["module", "/worker.mjs", { type: "module" }], ["classic", "/worker.js", {}]]) {
  test(`a ${kind} worker with Background Sync sends what a closed page left`, async (t) => {
    const world = await startWorld(t);
    const browser = await context(t);
    const page = await openApp(browser, world.url);
    await page.evaluate(async ([script, options]) => {
      await navigator.serviceWorker.register(script, options);
      await navigator.serviceWorker.ready;
    }, [script, options]);
    await browser.grantPermissions(["background-sync"], { origin: world.url }).catch(() => {});
    world.network.down = true;
    await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
    await page.waitForFunction(() => client.outbox.getSnapshot()[0].state === "waiting");
    await page.waitForFunction(async () => (await (await navigator.serviceWorker.ready).sync.getTags()).includes("samekey"));
    await page.close();
    world.network.down = false;
    // The browser wakes the worker when it believes that there is a network again; here somebody tells it so.
    const worker = browser.serviceWorkers()[0] ?? (await browser.waitForEvent("serviceworker"));
    const other = await browser.newPage();
    await other.goto(`${world.url}/empty.html`);
    const session = await browser.newCDPSession(other);
    const registered = new Promise((resolve) => session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => registrations[0] && resolve(registrations[0])));
    await session.send("ServiceWorker.enable");
    const { registrationId } = await registered;
    await session.send("ServiceWorker.dispatchSyncEvent", { origin: world.url, registrationId, tag: "samekey", lastChance: false });
    await world.network.arrived(1);
    await worker.evaluate(async () => {
      while (self.client.outbox.getSnapshot()[0]?.state !== "done") await new Promise((resolve) => setTimeout(resolve, 20));
    });
    const again = await openApp(browser, world.url);
    await shows(again, "done");
    oneEffect(world, "tea");
  });
}

test("without Background Sync the next page goes on, worker or not", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await browser.addInitScript(() => delete ServiceWorkerRegistration.prototype.sync);
  const page = await openApp(browser, world.url);
  await page.evaluate(async () => {
    await navigator.serviceWorker.register("/worker.mjs", { type: "module" });
    await navigator.serviceWorker.ready;
  });
  await browser.setOffline(true);
  world.network.down = true;
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
  await page.close();
  world.network.down = false;
  await browser.setOffline(false);
  const again = await openApp(browser, world.url);
  await shows(again, "done");
  oneEffect(world, "tea");
});

test("page and worker deliver an intent once between them", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(async () => {
    await navigator.serviceWorker.register("/worker.mjs", { type: "module" });
    await navigator.serviceWorker.ready;
  });
  const worker = browser.serviceWorkers()[0] ?? (await browser.waitForEvent("serviceworker"));
  const { until, open } = gate();
  world.shop.pause = () => until;
  const ordered = page.evaluate(() => window.buy("tea", { slot: "cart" }));
  await world.network.arrived(1);
  const joined = worker.evaluate(() => self.client.submit({ url: "/api/orders", json: { sku: "tea" }, slot: "cart" }).then((outcome) => [outcome.state, outcome.joined]));
  open();
  assert.deepEqual(await joined, ["done", true]);
  assert.equal((await ordered).state, "done");
  await shows(page, "done");
  oneEffect(world, "tea");
});
