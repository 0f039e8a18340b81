// What every test ends with: one effect, one key, and a page that says so.
import assert from "node:assert/strict";

/** Waits until the outbox shows so many intents, all in this state. */
export async function shows(page, state, count = 1, timeout = 20_000) {
  await page.waitForFunction(
    ([state, count]) => {
      const rows = [...document.querySelectorAll("#outbox li")];
      return rows.length === count && rows.every((row) => row.dataset.state === state);
    },
    [state, count],
    { timeout },
  ).catch(async (error) => {
    const outbox = await page.evaluate(() => JSON.stringify(window.client.outbox.getSnapshot(), null, 1)).catch(() => "?");
    const events = await page.evaluate(() => JSON.stringify(window.events)).catch(() => "?");
    throw new Error(`the page does not show ${count} × ${state}: ${outbox}\n${events}\n${error.message}`);
  });
}

/** One effect for each of these, and one key for each effect, whatever came by. */
export function oneEffect(world, ...skus) {
  for (const sku of skus) assert.equal(world.shop.effects(sku), 1, `effects of ${sku}`);
  assert.equal(world.shop.ledger.length, skus.length, "effects in all");
  const keys = new Set(world.network.requests().map((request) => request.key));
  assert.equal(keys.size, skus.length, `keys: ${[...keys].join(" ")}`);
  const ids = world.network.requests().map((request) => request.requestId);
  assert.equal(new Set(ids).size, ids.length, "each delivery has an id of its own");
}

export function gate() {
  let open;
  const until = new Promise((resolve) => (open = resolve));
  return { until, open };
}
