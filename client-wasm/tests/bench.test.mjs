// `samekey/testing`, used as an application's tests use it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestBench } from "samekey/testing";

const ORDERS = "POST /api/orders";
function bench(t, options = {}) {
  const bench = createTestBench({ seed: 7, account: "ann", ...options });
  let made = 0;
  bench.server.on(ORDERS, () => Response.json({ id: `o${++made}` }, { status: 201 }));
  t.after(() => bench.close());
  return bench;
}

test("an answer lost and a reload make one order", async (t) => {
  const it = bench(t);
  it.network.loseNextAnswer();
  const { intent } = await it.client.enqueue({ url: "/api/orders", json: { sku: "tea" }, slot: "cart:7" });
  const again = await it.reload({ killAt: "after_send" });
  await it.advance(60_000);
  const outcome = await again.wait(intent.id);
  assert.equal(outcome.state === "done" && outcome.data.id, "o1");
  assert.equal(it.server.effects(ORDERS), 1);
});

for (const killAt of ["before_send", "after_send", "after_answer"]) {
  test(`a page that dies ${killAt.replace("_", " ")} makes one order`, async (t) => {
    const it = bench(t);
    it.network.offline();
    const { intent } = await it.client.enqueue({ url: "/api/orders", json: { sku: "tea" } });
    it.network.online();
    const again = await it.reload({ killAt });
    await it.advance(60_000);
    assert.equal((await again.wait(intent.id)).state, "done");
    assert.equal(it.server.effects(ORDERS), 1);
    assert.equal(again.outbox.getSnapshot().length, 1);
  });
}

test("the same seed and steps give the same keys, and another seed others", async (t) => {
  const run = async (seed) => {
    const it = bench(t, { seed });
    it.network.loseNextRequest();
    const waiting = it.client.submit({ url: "/api/orders", json: { sku: "tea" } });
    await it.advance(60_000);
    const { intent } = await waiting;
    return [intent.id, intent.key, intent.deliveries, intent.updatedAt];
  };
  assert.deepEqual(await run(7), await run(7));
  assert.notDeepEqual(await run(7), await run(8));
});

test("time passes only when the test says so", async (t) => {
  const it = bench(t);
  it.network.loseNextRequest();
  let settled = false;
  void it.client.submit({ url: "/api/orders", json: { sku: "tea" } }).then(() => (settled = true));
  await it.advance(0);
  const began = it.now();
  assert.equal(settled, false);
  await it.advance(60_000);
  assert.equal(settled, true);
  assert.equal(it.now(), began + 60_000);
});

test("offline an intent waits for the network, online it goes", async (t) => {
  const it = bench(t);
  it.network.offline();
  await it.client.enqueue({ url: "/api/orders", json: { sku: "tea" } });
  await it.advance(3_600_000);
  assert.equal(it.client.outbox.getSnapshot()[0].waitingFor, "network");
  assert.equal(it.server.deliveries(ORDERS), 0);
  it.network.online();
  await it.advance(1_000);
  assert.equal(it.client.outbox.getSnapshot()[0].state, "done");
});

test("the outbox's snapshot is the same object until something changes, and frozen", async (t) => {
  const it = bench(t);
  const empty = it.client.outbox.getSnapshot();
  assert.equal(empty, it.client.outbox.getSnapshot());
  let told = 0;
  const stop = it.client.outbox.subscribe(() => told++);
  await it.client.submit({ url: "/api/orders", json: { sku: "tea" } });
  const one = it.client.outbox.getSnapshot();
  assert.notEqual(one, empty);
  assert.equal(one, it.client.outbox.getSnapshot());
  assert.equal(one[0], it.client.get(one[0].id));
  assert.ok(Object.isFrozen(one) && Object.isFrozen(one[0]) && Object.isFrozen(one[0].response));
  await it.advance(0);
  assert.ok(told > 0);
  const before = told;
  stop();
  await it.client.submit({ url: "/api/orders", json: { sku: "coffee" } });
  await it.advance(0);
  assert.equal(told, before);
  assert.deepEqual(it.client.outbox.getServerSnapshot(), []);
});

test("a closed client says so", async (t) => {
  const it = bench(t);
  const { client } = it;
  it.network.offline();
  const waiting = client.submit({ url: "/api/orders", json: { sku: "tea" } }).catch((error) => error.code);
  await it.advance(0);
  await client.close();
  assert.equal(await waiting, "samekey/closed");
  assert.equal(await client.submit({ url: "/api/orders", json: {} }).catch((error) => error.code), "samekey/closed");
});

test("options that make no sense are refused with words", async (t) => {
  const it = bench(t);
  const code = (promise) => promise.then(() => "none", (error) => error.code);
  assert.equal(await code(it.client.submit({ url: "/x", json: 1, body: "2" })), "samekey/invalid_option");
  assert.equal(await code(it.client.submit({ url: "http://" })), "samekey/invalid_option");
  assert.equal(await code(it.client.submit({ url: "/x", method: "GET" })), "samekey/invalid_option");
  assert.equal(await code(it.client.submit({ url: "/x", key: "two words" })), "samekey/invalid_option");
  const bad = createTestBench({ account: null, operations: { a: { significant: { include: ["no-slash"] } } } });
  t.after(() => bad.close());
  assert.equal(await code(bad.client.submit({ url: "/x" })), "samekey/invalid_option");
});

test("a listener that throws or calls back harms nobody", async (t) => {
  const it = bench(t);
  const reported = t.mock.method(console, "error", () => {});
  it.client.on("settled", () => { throw new Error("mine"); });
  let second;
  it.client.on("settled", (intent) => intent.slot === "a" && (second = it.client.submit({ url: "/api/orders", json: { sku: "b" }, slot: "b" })));
  await it.client.submit({ url: "/api/orders", json: { sku: "a" }, slot: "a" });
  await it.advance(0);
  assert.equal((await second).state, "done");
  assert.deepEqual(reported.mock.calls.map(({ arguments: [error] }) => error.message), ["mine", "mine"]);
});

test("headers that never come hold an intent up, and nobody else", async (t) => {
  let stuck = true;
  const it = bench(t, { headers: ({ intent }) => (intent.slot === "stuck" && stuck ? new Promise(() => {}) : {}) });
  await it.client.enqueue({ url: "/api/orders", json: { sku: "a" }, slot: "stuck" });
  await it.client.submit({ url: "/api/orders", json: { sku: "b" }, slot: "b" });
  assert.equal(it.server.effects(ORDERS), 1);
  stuck = false;
  await it.advance(120_000);
  assert.deepEqual(it.client.outbox.getSnapshot().map((intent) => intent.state), ["done", "done"]);
});
