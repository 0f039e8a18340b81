// IndexedDB as it really is: refused, full, closed under our feet, held by an old tab, emptied.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

const reports = (page) => page.evaluate(() => window.events.filter((event) => event.type === "storage").map(({ reason, durability }) => [reason, durability]));

test("IndexedDB refused: memory, said aloud, and the order is made", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await browser.addInitScript(() => (IDBFactory.prototype.open = () => { throw new DOMException("refused", "SecurityError"); }));
  const page = await openApp(browser, world.url);
  assert.equal((await page.evaluate(() => window.buy("tea"))).state, "done");
  assert.deepEqual(await reports(page), [["degraded", "memory"]]);
  assert.equal(await page.evaluate(() => client.durability), "memory");
  oneEffect(world, "tea");
});

test("a full disk: what cannot be kept is not sent, and the page hears it", async (t) => {
  const world = await startWorld(t);
  const page = await openApp(await context(t), world.url);
  await page.evaluate(() => {
    const put = IDBObjectStore.prototype.put;
    window.free = () => (IDBObjectStore.prototype.put = put);
    IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); };
  });
  assert.equal(await page.evaluate(() => window.buy("tea").catch((error) => error.code)), "samekey/storage");
  assert.equal(world.network.seen.length, 0, "nothing was sent that is not kept");
  assert.ok((await reports(page)).some(([reason]) => reason === "quota"));
  await page.evaluate(() => window.free());
  assert.equal((await page.evaluate(() => window.buy("tea"))).state, "done");
  oneEffect(world, "tea");
});

test("a disk that fills up during a delivery: the answer is shown and the order is not repeated", async (t) => {
  const world = await startWorld(t);
  const page = await openApp(await context(t), world.url);
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = async (...request) => {
      const answer = await real(...request);
      IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); };
      return answer;
    };
  });
  const outcome = await page.evaluate(() => window.buy("tea"));
  assert.deepEqual([outcome.state, outcome.data], ["done", { id: "o1" }]);
  oneEffect(world, "tea");
});

test("a connection closed under our feet is opened again", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await browser.addInitScript(() => {
    const open = IDBFactory.prototype.open;
    window.connections = [];
    IDBFactory.prototype.open = function (...name) {
      const request = open.apply(this, name);
      request.addEventListener("success", () => window.connections.push(request.result));
      return request;
    };
  });
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("first"));
  await page.evaluate(() => window.connections.forEach((connection) => connection.close()));
  assert.equal((await page.evaluate(() => window.buy("tea"))).state, "done");
  assert.equal(await page.evaluate(() => client.durability), "strict");
  await page.reload();
  await shows(page, "done", 2);
  oneEffect(world, "first", "tea");
});

test("a tab that wants to upgrade or erase the store is not blocked by ours", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("tea"));
  const other = await browser.newPage();
  await other.goto(`${world.url}/empty.html`);
  const result = await other.evaluate(() => new Promise((resolve) => {
    const request = indexedDB.open("samekey", 99);
    request.onsuccess = () => (request.result.close(), resolve("upgraded"));
    request.onblocked = () => resolve("blocked");
  }));
  assert.equal(result, "upgraded");
});

test("a store blocked by an old tab: after a while memory, said aloud", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const old = await browser.newPage();
  await old.goto(`${world.url}/empty.html`);
  // A connection that lets nobody in, and somebody who already waits for it to close.
  await old.evaluate(() => new Promise((resolve) => {
    indexedDB.open("samekey", 1).onsuccess = (event) => {
      window.held = event.target.result;
      indexedDB.deleteDatabase("samekey").onblocked = resolve;
    };
  }));
  const page = await openApp(browser, world.url);
  assert.equal((await page.evaluate(() => window.buy("tea"))).state, "done");
  assert.deepEqual(await reports(page), [["blocked", "memory"]]);
  oneEffect(world, "tea");
});

test("an emptied store is noticed, and what the page still holds is kept anew", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("first"));
  await browser.setOffline(true);
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
  const session = await browser.newCDPSession(page);
  await session.send("Storage.clearDataForOrigin", { origin: world.url, storageTypes: "indexeddb" });
  // The next write finds nothing there.
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "coffee" }, label: "coffee" }).then(() => {}));
  await page.evaluate(() => window.dispatchEvent(new Event("pageshow")));
  await browser.setOffline(false);
  await page.waitForFunction(() => client.outbox.getSnapshot().every((intent) => intent.state === "done"));
  oneEffect(world, "first", "tea", "coffee");
  await page.waitForFunction(() => window.events.some((event) => event.type === "storage" && event.reason === "evicted"));
});

test("what a newer version of the library left is not touched", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("tea"));
  const change = (format) => page.evaluate((format) => new Promise((resolve) => {
    indexedDB.open("samekey", 1).onsuccess = ({ target: { result: db } }) => {
      const store = db.transaction("intents", "readwrite").objectStore("intents");
      store.getAll().onsuccess = ({ target }) => {
        const before = target.result.filter((record) => record.id !== "samekey");
        if (format) for (const record of before) store.put({ ...record, format });
        store.transaction.oncomplete = () => (db.close(), resolve(before.map(({ id, format, revision, data }) => ({ id, format, revision, data: [...data] }))));
      };
    };
  }), format);
  const [was] = await change(999);
  await page.reload();
  await page.waitForFunction(() => window.shop?.ready);
  await page.evaluate(() => client.ready);
  assert.equal(await page.evaluate(() => client.outbox.getSnapshot().length), 0);
  assert.deepEqual(await change(), [{ ...was, format: 999 }]);
});
