// Tokens that run out, and people who come and go.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

const states = (page) => page.evaluate(() => client.outbox.getSnapshot().map((intent) => intent.state));

test("a token that ran out while offline: the intent waits for a person, and goes on with its key", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await browser.setOffline(true);
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
  world.shop.refused.add("Bearer good");
  await browser.setOffline(false);
  await shows(page, "needs_auth");
  assert.equal(world.shop.ledger.length, 0);
  // Signed in again; the page that comes after the login goes on.
  await page.evaluate(() => (localStorage.setItem("token", "better"), client.resume()));
  await shows(page, "done");
  oneEffect(world, "tea");
});

test("logged out and in as somebody else: an intent goes out for its own account only", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await browser.setOffline(true);
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "anns" }, label: "anns" }).then(() => {}));
  await page.evaluate(() => localStorage.setItem("account", "bob"));
  await browser.setOffline(false);
  assert.equal((await page.evaluate(() => window.buy("bobs"))).state, "done");
  assert.equal(await page.textContent("#outbox"), "bobs: done");
  await page.reload();
  await shows(page, "done");
  assert.deepEqual(world.shop.ledger.map(({ sku, user }) => [sku, user]), [["bobs", "bob"]]);
  // Ann comes back.
  await page.evaluate(() => localStorage.setItem("account", "ann"));
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#outbox")?.textContent === "anns: done");
  assert.deepEqual(world.shop.ledger.map(({ sku, user }) => [sku, user]), [["bobs", "bob"], ["anns", "ann"]]);
});

test("signing out keeps what is unresolved for the next time, or discards it on this device", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("settled"));
  await browser.setOffline(true);
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "open" }, label: "open" }).then(() => {}));
  const kept = await page.evaluate(() => client.signOut().then((intents) => intents.map((intent) => intent.label)));
  assert.deepEqual(kept, ["open"]);
  /** What of these words lies on the disk, in whatever record. */
  const onDisk = (...words) => page.evaluate((words) => new Promise((resolve) => {
    indexedDB.open("samekey").onsuccess = ({ target: { result: db } }) => {
      db.transaction("intents").objectStore("intents").getAll().onsuccess = ({ target }) => {
        const text = target.result.map((record) => new TextDecoder("latin1").decode(record.data)).join();
        db.close();
        resolve(words.filter((word) => text.includes(word)));
      };
    };
  }), words);
  assert.deepEqual(await onDisk("settled", "open"), ["open"]);
  const discarded = await page.evaluate(() => client.signOut({ unresolved: "discard" }).then((intents) => intents.map((intent) => intent.label)));
  assert.deepEqual(discarded, ["open"]);
  assert.deepEqual(await onDisk("settled", "open"), []);
  assert.deepEqual(await states(page), []);
});

test("the session became another one behind the page's back: not run, and somebody is asked", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  const page = await openApp(browser, world.url);
  await page.evaluate(() => window.buy("first"));
  world.network.faults.push({ do: "loseAnswer" }, { do: "invent", method: "GET", status: 503 });
  const id = await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then((it) => it.intent.id));
  await world.network.arrived(2);
  // The page still believes that it is Ann; its requests are Bob's.
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = (url, init) => (init.headers.set("x-user", "bob"), real(url, init));
  });
  await page.waitForFunction((id) => ["needs_auth", "unknown"].includes(client.get(id)?.state), id);
  assert.equal(world.shop.effects("tea"), 1);
  assert.deepEqual(world.shop.ledger.map((entry) => entry.user), ["ann", "ann"]);
});
