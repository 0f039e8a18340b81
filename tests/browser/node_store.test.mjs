// `samekey/node`: a program that is killed goes on with its keys.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createClient } from "samekey";
import { fileStore } from "samekey/node";
import { gate } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));

async function folder(t) {
  const dir = await mkdtemp(join(tmpdir(), "samekey-store-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** The importer of the README, as a process of its own. */
function importer(world, dir, rows) {
  const program = `
    import { createClient, unwrap } from "samekey";
    import { fileStore } from "samekey/node";
    const client = createClient({ account: "importer", baseUrl: "${world.url}", store: fileStore({ dir: "${dir}" }), headers: () => ({ "x-user": "importer" }), retry: { baseDelay: 20, maxDelay: 200 } });
    await client.ready;
    for (const sku of ${JSON.stringify(rows)}) console.log(sku, unwrap(await client.submit({ url: "/api/orders", json: { sku }, slot: "row:" + sku })).id);
    await client.close();`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { cwd: HERE, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (data) => (text += data));
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve({ code, text })));
  return { child, ended };
}

test("a program killed in the middle of a delivery makes each order once", async (t) => {
  const world = await startWorld(t, ["--default-wait", "200ms"]);
  const dir = await folder(t);
  const { until, open } = gate();
  const done = gate();
  world.network.faults.push({ do: "pass" }, { do: "hold", answered: true, until, arrived: done.open });
  const first = importer(world, dir, ["a", "b", "c"]);
  await done.until;
  first.child.kill("SIGKILL");
  await first.ended;
  open();
  const { code, text } = await importer(world, dir, ["a", "b", "c"]).ended;
  assert.equal(code, 0);
  // "a" was answered before the crash, and its row is a new order then: only what was open is continued.
  assert.match(text, /b o2\n/);
  assert.equal(world.shop.effects("b"), 1);
  assert.equal(world.shop.effects("c"), 1);
});

test("two processes on one folder deliver each intent once", async (t) => {
  const world = await startWorld(t);
  const dir = await folder(t);
  const rows = ["a", "b", "c", "d"];
  // Both find the same intents that an earlier run left.
  world.network.down = true;
  const left = createClient({ account: "importer", baseUrl: world.url, store: fileStore({ dir }) });
  for (const sku of rows) await left.enqueue({ url: "/api/orders", json: { sku }, slot: `row:${sku}` });
  await left.close();
  world.network.down = false;
  const ends = await Promise.all([importer(world, dir, []).ended, importer(world, dir, rows).ended, importer(world, dir, rows).ended]);
  assert.deepEqual(ends.map(({ code }) => code), [0, 0, 0]);
  const keys = world.network.requests().map((request) => request.key);
  assert.equal(new Set(keys).size, world.shop.ledger.length, "one effect for each key");
  for (const row of rows) assert.ok(world.shop.effects(row) >= 1, row);
});

test("compare-and-set holds among many writers", async (t) => {
  const dir = await folder(t);
  const stores = [fileStore({ dir }), fileStore({ dir })];
  const record = (revision) => ({ id: "x/../y", account: null, revision, format: 1, data: Uint8Array.of(revision) });
  const won = await Promise.all(Array.from({ length: 8 }, (_, at) => stores[at % 2].put(record(1), null)));
  assert.equal(won.filter(Boolean).length, 1);
  for (let revision = 2; revision < 6; revision++) {
    const won = await Promise.all(stores.map((store) => store.put(record(revision), revision - 1)));
    assert.deepEqual(won.sort(), [false, true]);
  }
  assert.equal(await stores[0].delete("x/../y", 4), false);
  assert.deepEqual((await stores[1].all()).map(({ revision, data }) => [revision, [...data]]), [[5, [5]]]);
  assert.deepEqual((await readdir(dir)).filter((name) => !name.endsWith(".json")), [], "nothing is left beside the records");
});

test("a lock left by a process that was killed holds nobody up", async (t) => {
  const dir = await folder(t);
  const gone = spawn(process.execPath, ["-e", ""]);
  await new Promise((resolve) => gone.once("exit", resolve));
  await writeFile(join(dir, ".lock"), String(gone.pid));
  assert.equal(await fileStore({ dir }).put({ id: "a", account: null, revision: 1, format: 1, data: Uint8Array.of(1) }, null), true);
});

test("a record cut in half is an error that names the file, and nothing is overwritten", async (t) => {
  const dir = await folder(t);
  const store = fileStore({ dir });
  await store.put({ id: "a", account: null, revision: 1, format: 1, data: Uint8Array.of(1) }, null);
  await writeFile(join(dir, "a.json"), "{\"id\":");
  await assert.rejects(store.all(), /a\.json/);
  assert.equal(await readFile(join(dir, "a.json"), "utf8"), "{\"id\":");
});

test("without a store, Node keeps intents in memory and says so", async (t) => {
  const world = await startWorld(t);
  const client = createClient({ account: "ann", baseUrl: world.url, headers: () => ({ "x-user": "ann" }) });
  t.after(() => client.close());
  assert.equal(client.durability, "memory");
  await client.submit({ url: "/api/orders", json: { sku: "tea" } });
  assert.equal(world.shop.effects("tea"), 1);
});
