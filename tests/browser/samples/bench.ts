import { test } from "node:test"; import assert from "node:assert/strict";
import { createTestBench } from "samekey/testing";
test("an answer lost and a reload make one order", async () => {
  const bench = createTestBench({ seed: 7, account: "ann" });
  bench.server.on("POST /api/orders", () => Response.json({ id: "o1" }, { status: 201 }));
  bench.network.loseNextAnswer();
  const { intent } = await bench.client.enqueue({ url: "/api/orders", json: { sku: "tea" }, slot: "cart:7" });
  const again = await bench.reload({ killAt: "after_send" });
  await bench.advance(60_000);
  const outcome = await again.wait<{ id: string }>(intent.id);
  assert.equal(outcome.state === "done" && outcome.data.id, "o1");
  assert.equal(bench.server.effects("POST /api/orders"), 1);
});
