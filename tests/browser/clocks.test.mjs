// Clocks that are wrong, and queues that are old.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

const DAY = 86_400_000;
/** Shifts the page's clock, for all scripts of it, by what `localStorage.shift` says. */
const shiftable = (browser, start) => browser.addInitScript((start) => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + Number(localStorage.getItem("shift") ?? start);
}, start);
const timeOf = (key) => parseInt(key.replace(/["-]/g, "").slice(0, 12), 16);

for (const [name, days] of [["ahead", 31], ["behind", -31]]) {
  test(`a device clock a month ${name}: orders are made once, and keys carry the server's time`, async (t) => {
    const world = await startWorld(t);
    const browser = await context(t);
    await shiftable(browser, days * DAY);
    const page = await openApp(browser, world.url);
    const first = await page.evaluate(() => window.buy("first"));
    assert.equal(first.state, "done");
    world.network.faults.push({ do: "loseAnswer" });
    const outcome = await page.evaluate(() => window.buy("tea"));
    assert.equal(outcome.state, "done");
    assert.equal(world.shop.effects("first"), 1);
    assert.equal(world.shop.effects("tea"), 1);
    const last = world.network.requests().at(-1);
    assert.ok(Math.abs(timeOf(last.key) - Date.now()) < DAY, "the offset was learned from the first answer");
  });
}

test("a queue older than the server's memory is sent under a key of today", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await shiftable(browser, -200 * DAY);
  const page = await openApp(browser, world.url);
  await browser.setOffline(true);
  await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, label: "tea" }).then(() => {}));
  // Half a year in a drawer.
  await page.evaluate(() => localStorage.setItem("shift", "0"));
  await browser.setOffline(false);
  await page.reload();
  await shows(page, "done");
  assert.ok(Math.abs(timeOf(world.network.requests()[0].key) - Date.now()) < DAY);
  oneEffect(world, "tea");
});

test("a clock that jumps a year back and two days ahead in a pause neither spins nor sleeps", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await shiftable(browser, 0);
  const page = await openApp(browser, world.url);
  world.shop.script.push(...Array.from({ length: 3 }, () => ({ status: 503, headers: { "retry-after": "1" }, effect: false })));
  void page.evaluate(() => void window.buy("tea"));
  await shows(page, "waiting");
  const began = Date.now();
  await page.evaluate((day) => localStorage.setItem("shift", String(-365 * day)), DAY);
  await world.network.arrived(2);
  await page.evaluate((day) => localStorage.setItem("shift", String(2 * day)), DAY);
  await shows(page, "done");
  assert.ok(Date.now() - began < 15_000, `it took ${Date.now() - began} ms`);
  assert.ok(world.network.requests().length <= 5, `${world.network.requests().length} deliveries`);
  assert.equal(world.shop.effects("tea"), 1);
});
