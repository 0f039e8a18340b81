// A page that dies at any stage of a delivery, and a network that does what networks do.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { closeBrowser, context, mortalBrowser, openApp } from "./support/browser.mjs";
import { gate, oneEffect, shows } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

after(closeBrowser);

const QUICK = ["--default-wait", "200ms", "--max-wait", "1s"];

/** Each leaves the page in the middle of a delivery, and gives back what lets the world go on. */
const STAGES = {
  "before the request leaves": async (world, page) => {
    await page.evaluate(() => (window.fetch = () => new Promise(() => {})));
    void page.evaluate(() => void window.buy("tea"));
    await shows(page, "sending");
    return () => {};
  },
  "while the request is on its way": async (world, page) => {
    const { until, open } = gate();
    world.network.faults.push({ do: "hold", until });
    void page.evaluate(() => void window.buy("tea"));
    await world.network.arrived(1);
    return open;
  },
  "while the shop works": async (world, page) => {
    const { until, open } = gate();
    world.shop.pause = () => until;
    void page.evaluate(() => void window.buy("tea"));
    await world.network.arrived(1);
    return open;
  },
  "while the answer is on its way": async (world, page) => {
    const { until, open } = gate();
    const done = gate();
    world.network.faults.push({ do: "hold", answered: true, until, arrived: done.open });
    void page.evaluate(() => void window.buy("tea"));
    await done.until;
    return open;
  },
  "between the answer and the disk": async (world, page) => {
    await page.evaluate(() => {
      const real = window.fetch;
      window.fetch = async (...request) => {
        await real(...request);
        window.answered = true;
        return new Promise(() => {});
      };
    });
    void page.evaluate(() => void window.buy("tea"));
    await page.waitForFunction(() => window.answered);
    return () => {};
  },
};

for (const [stage, reach] of Object.entries(STAGES)) {
  test(`a reload ${stage} makes one order`, async (t) => {
    const world = await startWorld(t, QUICK);
    const page = await openApp(await context(t), world.url);
    const goOn = await reach(world, page);
    await page.reload();
    await page.waitForFunction(() => window.shop?.ready);
    goOn();
    await shows(page, "done");
    oneEffect(world, "tea");
  });

  test(`a crash of the browser ${stage} makes one order`, async (t) => {
    const world = await startWorld(t, QUICK);
    const browser = await mortalBrowser(t);
    const goOn = await reach(world, await openApp(await browser.start(), world.url));
    await browser.kill();
    const page = await openApp(await browser.start(), world.url);
    goOn();
    await shows(page, "done");
    oneEffect(world, "tea");
  });
}

const FAULTS = {
  "a request that gets lost": { do: "loseRequest" },
  "an answer that gets lost": { do: "loseAnswer" },
  "an answer that breaks off": { do: "cutAnswer" },
  "a request that arrives twice": { do: "twice" },
  "a captive portal's page": { do: "invent", headers: { "content-type": "text/html" }, body: "<h1>Accept our terms</h1>" },
  "a captive portal's redirect": { do: "invent", status: 302, headers: { location: "http://portal.invalid/" } },
  "a gateway's error page": { do: "invent", status: 502, headers: { "content-type": "text/html" }, body: "<h1>Bad gateway</h1>" },
  "a gateway that says nothing": { do: "invent", status: 504 },
};

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`${name} makes one order, and the page shows its answer`, async (t) => {
    const world = await startWorld(t, QUICK);
    const page = await openApp(await context(t), world.url);
    // The client knows this server by then, as it does after the first command of a visit.
    await page.evaluate(() => window.buy("first"));
    world.network.faults.push(fault);
    const outcome = await page.evaluate(() => window.buy("tea"));
    assert.deepEqual({ ...outcome.data, state: outcome.state }, { id: "o2", state: "done" });
    await shows(page, "done", 2);
    oneEffect(world, "first", "tea");
    assert.deepEqual(page.errors, []);
  });

  test(`${name} on the very first command makes one order`, async (t) => {
    const world = await startWorld(t, QUICK);
    const page = await openApp(await context(t), world.url);
    world.network.faults.push(fault);
    const outcome = await page.evaluate(() => window.buy("tea"));
    assert.equal(outcome.state, "done");
    await shows(page, "done");
    oneEffect(world, "tea");
  });
}

const PAUSES = {
  "seconds": () => "2",
  "a date": () => new Date(Date.now() + 3_000).toUTCString(),
};
for (const [name, value] of Object.entries(PAUSES)) {
  test(`Retry-After as ${name} is a floor`, async (t) => {
    const world = await startWorld(t, QUICK);
    const page = await openApp(await context(t), world.url);
    world.shop.script.push({ status: 503, headers: { "retry-after": value() }, effect: false });
    const began = Date.now();
    assert.equal((await page.evaluate(() => window.buy("tea"))).state, "done");
    assert.ok(Date.now() - began >= 1_900, `it came after ${Date.now() - began} ms`);
    oneEffect(world, "tea");
  });
}

test("Retry-After survives a reload", async (t) => {
  const world = await startWorld(t, QUICK);
  const page = await openApp(await context(t), world.url);
  world.shop.script.push({ status: 503, headers: { "retry-after": "3" }, effect: false });
  const began = Date.now();
  void page.evaluate(() => void window.buy("tea"));
  await shows(page, "waiting");
  await page.reload();
  await shows(page, "done");
  assert.ok(Date.now() - began >= 2_900, `it came after ${Date.now() - began} ms`);
  oneEffect(world, "tea");
});

test("an absurd Retry-After is capped, and somebody may go on at once", async (t) => {
  const world = await startWorld(t, QUICK);
  const page = await openApp(await context(t), world.url);
  world.network.faults.push({ do: "invent", status: 503, headers: { "retry-after": "99999999999999999999", "samekey-state": "unknown" } });
  void page.evaluate(() => void window.buy("tea"));
  await shows(page, "waiting");
  const wait = await page.evaluate(() => client.outbox.getSnapshot()[0].nextAttemptAt - Date.now());
  assert.ok(wait > 0 && wait <= 86_400_000 + 1_000, `it waits ${wait} ms`);
  await page.evaluate(() => client.resume());
  await shows(page, "done");
  oneEffect(world, "tea");
});
