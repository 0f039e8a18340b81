// What people do to a button and a form.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, openApp } from "./support/browser.mjs";
import { gate, oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

async function open(t, flags) {
  const world = await startWorld(t, flags);
  return { world, page: await openApp(await context(t), world.url) };
}

test("two clicks in one frame are one order, and the second knows", async (t) => {
  const { world, page } = await open(t);
  const [first, second] = await page.evaluate(() => Promise.all([window.buy("tea", { slot: "cart" }), window.buy("tea", { slot: "cart" })]));
  assert.deepEqual([first.state, second.state], ["done", "done"]);
  assert.equal(first.id, second.id);
  assert.deepEqual([first.joined, second.joined], [false, true]);
  oneEffect(world, "tea");
});

test("a double click around an answer of 20 ms is one order", async (t) => {
  const { world, page } = await open(t);
  world.shop.pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  await page.evaluate(async () => {
    for (let click = 0; click < 6; click++) {
      document.querySelector("#buy").click();
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  });
  await shows(page, "done");
  oneEffect(world, "tea");
});

test("a click before the store has loaded is kept and sent once, in its order", async (t) => {
  const world = await startWorld(t);
  const browser = await context(t);
  await browser.addInitScript(() => {
    // The app clicks while its module is still being evaluated.
    document.addEventListener("DOMContentLoaded", () => {
      window.buy("early", { slot: "cart" });
      window.buy("early", { slot: "cart" });
    });
  });
  const page = await openApp(browser, world.url);
  await shows(page, "done");
  oneEffect(world, "early");
});

test("two equal coffees on purpose are two orders", async (t) => {
  const { world, page } = await open(t);
  const outcomes = await page.evaluate(async () => [await window.buy("coffee"), await window.buy("coffee", { another: true })]);
  assert.deepEqual(outcomes.map(({ state, joined }) => [state, joined]), [["done", false], ["done", false]]);
  assert.equal(world.shop.effects("coffee"), 2);
  assert.notEqual(outcomes[0].key, outcomes[1].key);
});

test("the same order a while after the first was answered is a new one", async (t) => {
  const { world, page } = await open(t);
  await page.evaluate(() => window.buy("tea"));
  await page.waitForTimeout(1_200); // a double click is over
  await page.evaluate(() => window.buy("tea"));
  assert.equal(world.shop.effects("tea"), 2);
});

test("a second click after a timeout joins the first", async (t) => {
  const { world, page } = await open(t);
  const { until, open: goOn } = gate();
  world.shop.pause = () => until;
  const gaveUp = await page.evaluate(() => client.submit({ url: "/api/orders", json: { sku: "tea" }, signal: AbortSignal.timeout(150) }).catch((error) => error.name));
  assert.equal(gaveUp, "TimeoutError");
  const again = page.evaluate(() => window.buy("tea"));
  goOn();
  const outcome = await again;
  assert.deepEqual([outcome.state, outcome.joined], ["done", true]);
  oneEffect(world, "tea");
});

test("a form edited before it left replaces what was queued", async (t) => {
  const { world, page } = await open(t);
  world.network.down = true;
  await page.evaluate(() => {
    // No byte leaves: the application's own headers are not ready.
    window.fetch = () => Promise.reject(new TypeError("offline"));
    window.dispatchEvent(new Event("offline"));
  });
  const first = await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "typo" }, slot: "form" }).then((it) => [it.intent.id, it.intent.maybeSent]));
  assert.equal(first[1], false);
  const id = await page.evaluate(() => client.enqueue({ url: "/api/orders", json: { sku: "tea" }, slot: "form", label: "tea" }).then((it) => it.intent.id));
  assert.equal(id, first[0]);
  world.network.down = false;
  await page.reload();
  await shows(page, "done");
  oneEffect(world, "tea");
});

test("a form edited after a timeout: the first key is closed or told, and both never happen unseen", async (t) => {
  const { world, page } = await open(t);
  // The first edition did not arrive: its key can be closed, and only the second one happens.
  world.network.faults.push({ do: "loseRequest" });
  await page.evaluate(() => void client.submit({ url: "/api/orders", json: { sku: "typo" }, slot: "form", label: "typo" }).catch(() => {}));
  await world.network.arrived(1);
  const second = await page.evaluate(() => window.buy("tea", { slot: "form" }));
  assert.equal(second.state, "done");
  await page.waitForFunction(() => client.outbox.getSnapshot().every((intent) => ["done", "cancelled"].includes(intent.state)));
  const states = await page.evaluate(() => Object.fromEntries(client.outbox.getSnapshot().map((intent) => [intent.label, intent.state])));
  assert.deepEqual(states, { typo: "cancelled", tea: "done" });
  assert.deepEqual(world.shop.ledger.map((entry) => entry.sku), ["tea"]);
});

test("a form edited after its first edition happened is a conflict, and is not sent", async (t) => {
  const { world, page } = await open(t);
  const { until, open: goOn } = gate();
  world.network.faults.push({ do: "hold", answered: true, until });
  await page.evaluate(() => void client.submit({ url: "/api/orders", json: { sku: "typo" }, slot: "form", label: "typo" }).catch(() => {}));
  await world.network.arrived(1);
  const second = page.evaluate(() => window.buy("tea", { slot: "form" }));
  goOn();
  assert.equal((await second).state, "conflict");
  const states = await page.evaluate(() => Object.fromEntries(client.outbox.getSnapshot().map((intent) => [intent.label, intent.state])));
  assert.deepEqual(states, { typo: "done", tea: "conflict" });
  assert.deepEqual(world.shop.ledger.map((entry) => entry.sku), ["typo"]);
});

test("cancel before the first delivery removes it", async (t) => {
  const { world, page } = await open(t);
  const state = await page.evaluate(async () => {
    window.dispatchEvent(new Event("offline"));
    const { intent } = await client.enqueue({ url: "/api/orders", json: { sku: "tea" } });
    const outcome = await client.cancel(intent.id);
    window.dispatchEvent(new Event("online"));
    return [intent.maybeSent, outcome.state, outcome.intent.effect];
  });
  assert.deepEqual(state, [false, "cancelled", "no"]);
  await page.waitForTimeout(300);
  assert.equal(world.network.seen.length, 0);
  assert.equal(world.shop.ledger.length, 0);
});

test("cancel after a delivery that never arrived closes the key: it did not and will not happen", async (t) => {
  const { world, page } = await open(t);
  world.network.faults.push({ do: "loseRequest" }, { do: "loseRequest" });
  const state = await page.evaluate(async () => {
    const { intent } = await client.enqueue({ url: "/api/orders", json: { sku: "tea" } });
    while (client.get(intent.id).deliveries === 0) await new Promise((resolve) => setTimeout(resolve));
    return (await client.cancel(intent.id)).state;
  });
  assert.equal(state, "cancelled");
  assert.equal(world.network.requests("DELETE").length, 1);
  assert.equal(world.shop.ledger.length, 0);
});

test("cancel after it happened tells that it is done", async (t) => {
  const { world, page } = await open(t);
  world.network.faults.push({ do: "loseAnswer" });
  const outcome = await page.evaluate(async () => {
    const { intent } = await client.enqueue({ url: "/api/orders", json: { sku: "tea" } });
    while (client.get(intent.id).deliveries === 0) await new Promise((resolve) => setTimeout(resolve));
    return (await client.cancel(intent.id)).state;
  });
  assert.equal(outcome, "done");
  oneEffect(world, "tea");
});

test("an abort in a pause stops the waiting, never the intent", async (t) => {
  const { world, page } = await open(t);
  world.shop.script.push({ status: 503, headers: { "retry-after": "1" }, effect: false });
  const error = await page.evaluate(async () => {
    const stop = new AbortController();
    const waiting = client.submit({ url: "/api/orders", json: { sku: "tea" }, label: "tea", signal: stop.signal });
    while (client.outbox.getSnapshot()[0]?.state !== "waiting") await new Promise((resolve) => setTimeout(resolve));
    stop.abort(new Error("gone for lunch"));
    return waiting.catch((error) => error.message);
  });
  assert.equal(error, "gone for lunch");
  await shows(page, "done");
  oneEffect(world, "tea");
});

test("a form with a file goes out byte for byte, and again the same after a loss", async (t) => {
  const { world, page } = await open(t);
  world.network.faults.push({ do: "loseAnswer" });
  const outcome = await page.evaluate(async () => {
    const form = new FormData();
    form.set("title", "receipt");
    form.set("file", new File([new Uint8Array([0, 1, 2, 255, 13, 10, 45, 45])], "scan.bin", { type: "application/octet-stream" }));
    const outcome = await client.submit({ url: "/api/files", body: form });
    return [outcome.state, outcome.replayed];
  });
  assert.deepEqual(outcome, ["done", true]);
  assert.equal(world.shop.ledger.length, 1);
  const [{ body, type }] = world.shop.ledger;
  const parsed = await new Response(body, { headers: { "content-type": type } }).formData();
  assert.equal(parsed.get("title"), "receipt");
  assert.equal(parsed.get("file").name, "scan.bin");
  assert.deepEqual([...new Uint8Array(await parsed.get("file").arrayBuffer())], [0, 1, 2, 255, 13, 10, 45, 45]);
});

test("two equal forms with a file are one intent, whatever boundaries they have", async (t) => {
  const { world, page } = await open(t);
  const joined = await page.evaluate(async () => {
    const form = () => {
      const form = new FormData();
      form.set("file", new File(["same"], "a.txt"));
      return { url: "/api/files", body: form };
    };
    return (await Promise.all([client.submit(form()), client.submit(form())])).map((outcome) => outcome.joined);
  });
  assert.deepEqual(joined, [false, true]);
  assert.equal(world.shop.ledger.length, 1);
});

test("a stream is refused, and says what to pass instead", async (t) => {
  const { world, page } = await open(t);
  const codes = await page.evaluate(async () => {
    const body = new ReadableStream();
    const code = (error) => error.code;
    return [
      await client.submit({ url: "/api/orders", body }).catch(code),
      await client.fetch("/api/orders", { method: "POST", body, duplex: "half", samekey: {} }).catch(code),
    ];
  });
  assert.deepEqual(codes, ["samekey/stream_body", "samekey/stream_body"]);
  assert.equal(world.network.seen.length, 0);
});
