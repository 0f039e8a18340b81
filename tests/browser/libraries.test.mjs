// Other people's libraries on top of `client.fetch`, one line each, in Node against the real server; a faulty network
// between them. What a page does with them is the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MutationObserver, QueryClient } from "@tanstack/query-core";
import axios from "axios";
import ky from "ky";
import createOpenApi from "openapi-fetch";
import { createClient, isSamekeyError, unwrap } from "samekey";
import { gate, oneEffect } from "./support/truth.mjs";
import { startWorld } from "./support/world.mjs";

async function open(t, options = {}) {
  const world = await startWorld(t);
  const client = createClient({
    account: "ann", baseUrl: world.url, headers: () => ({ "x-user": "ann" }), requestIdHeader: "X-Request-Id",
    retry: { baseDelay: 20, maxDelay: 100 }, operations: { "orders.create": { match: "POST /api/orders" } }, ...options,
  });
  t.after(() => client.close());
  return { world, client };
}

const LIBRARIES = {
  ky: ({ client, world }) => {
    const api = ky.create({ prefixUrl: world.url, fetch: client.fetch, timeout: false, retry: 0 });
    return (sku) => api.post("api/orders", { json: { sku } }).json();
  },
  axios: ({ client, world }) => {
    const http = axios.create({ baseURL: world.url, adapter: "fetch", env: { fetch: client.fetch } });
    return async (sku) => (await http.post("/api/orders", { sku })).data;
  },
  "openapi-fetch": ({ client, world }) => {
    const api = createOpenApi({ baseUrl: world.url, fetch: client.fetch });
    return async (sku) => (await api.POST("/api/orders", { body: { sku } })).data;
  },
  "TanStack Query": ({ client }) => {
    const queries = new QueryClient({ defaultOptions: { mutations: { networkMode: "always", retry: false } } });
    const order = new MutationObserver(queries, { mutationFn: async (sku) => unwrap(await client.submit({ url: "/api/orders", json: { sku } })) });
    return (sku) => order.mutate(sku);
  },
  "plain fetch": ({ client }) => async (sku) => (await client.fetch("/api/orders", { method: "POST", body: JSON.stringify({ sku }), headers: { "content-type": "application/json" } })).json(),
};

for (const [name, order] of Object.entries(LIBRARIES)) {
  test(`${name}: an answer lost on the way makes one order, and the caller gets it`, async (t) => {
    const it = await open(t);
    const make = order(it);
    assert.deepEqual(await make("first"), { id: "o1" });
    it.world.network.faults.push({ do: "loseAnswer" }, { do: "invent", status: 502 });
    assert.deepEqual(await make("tea"), { id: "o2" });
    oneEffect(it.world, "first", "tea");
  });
}

test("a refusal by the shop is the library's own error, with the shop's answer", async (t) => {
  const { world, client } = await open(t);
  const api = ky.create({ prefixUrl: world.url, fetch: client.fetch, timeout: false, retry: 0 });
  world.shop.script.push({ status: 422, body: '{"message":"sold out"}', effect: false });
  const error = await api.post("api/orders", { json: { sku: "tea" } }).catch((error) => error);
  assert.equal(error.name, "HTTPError");
  assert.equal(error.response.status, 422);
});

for (const [name, make] of Object.entries({
  ky: (client, url) => ky.create({ prefixUrl: url, fetch: (input, init) => client.fetch(input, { ...init, samekey: { patience: 50 } }), timeout: false, retry: 0 }).post("api/orders", { json: { sku: "tea" } }),
  axios: (client, url) => axios.create({ baseURL: url, adapter: "fetch", env: { fetch: (input, init) => client.fetch(input, { ...init, samekey: { patience: 50 } }) } }).post("/api/orders", { sku: "tea" }),
})) {
  test(`${name}: patience ends as samekey/pending with the intent, which goes on`, async (t) => {
    const { world, client } = await open(t);
    const { until, open: goOn } = gate();
    world.shop.pause = () => until;
    const error = await make(client, world.url).catch((error) => error);
    assert.ok(isSamekeyError(error, "samekey/pending"), String(error));
    assert.equal(error.intent?.operation, "orders.create");
    goOn();
    const outcome = await client.wait(error.intent.id);
    assert.equal(outcome.state, "done");
    oneEffect(world, "tea");
  });
}

test("axios gives slot and operation by headers, which are not sent", async (t) => {
  const { world, client } = await open(t);
  const http = axios.create({ baseURL: world.url, adapter: "fetch", env: { fetch: client.fetch } });
  await http.post("/api/orders", { sku: "tea" }, { headers: { "Samekey-Slot": "cart:7", "Samekey-Operation": "orders.create" } });
  const [intent] = client.outbox.getSnapshot();
  assert.deepEqual([intent.slot, intent.operation], ["cart:7", "orders.create"]);
  oneEffect(world, "tea");
});

test("a form of axios under Node, which claims to be something else, is one intent and arrives as it was", async (t) => {
  const { world, client } = await open(t);
  const http = axios.create({ baseURL: world.url, adapter: "fetch", env: { fetch: client.fetch } });
  const form = new FormData();
  form.set("a", "1");
  world.network.faults.push({ do: "loseAnswer" });
  await http.post("/api/orders", form);
  assert.equal(world.shop.ledger.length, 1);
  assert.ok(world.shop.ledger[0].body.toString().includes('name="a"'));
});

test("what is no command goes untouched, and is not stored", async (t) => {
  const { world, client } = await open(t);
  const page = await client.fetch(`${world.url}/empty.html`);
  assert.equal(page.status, 200);
  const other = await client.fetch("http://" + new URL(world.url).host + "/api/search", { method: "POST", body: "q" });
  assert.equal(other.status, 201);
  assert.equal(world.network.requests()[0].key, undefined);
  assert.deepEqual(client.outbox.getSnapshot(), []);
});

test("credentials among stored headers are refused", async (t) => {
  const { world, client } = await open(t);
  const refused = await client.submit({ url: "/api/orders", json: {}, headers: { authorization: "Bearer x" } }).catch((error) => error);
  assert.ok(isSamekeyError(refused, "samekey/secret_header"));
  assert.equal(world.network.seen.length, 0);
});
