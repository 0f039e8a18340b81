// Servers that take keys and know no receipts: one of Stripe's kind, one of the IETF draft's.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { createClient } from "samekey";
import { startNetwork } from "./support/network.mjs";

/** Each keeps what it answered under a key, and refuses what its documentation says it refuses. */
const SERVERS = {
  // A bare key; another payload is a 400; a key in use is a 409; 5xx answers are kept, too.
  stripe: { inUse: 409, mismatch: 400, error: (code) => ({ error: { type: "idempotency_error", code } }) },
  // A quoted key; another payload is a 422; a key in use is a 409; none is a 400.
  ietf: { inUse: 409, mismatch: 422, error: (code) => ({ type: "about:blank", title: code }) },
};

async function open(t, kind, options = {}) {
  const it = SERVERS[kind];
  const kept = new Map();
  const made = [];
  const foreign = { made, pause: async () => {}, script: [] };
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const say = (status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (request.method !== "POST") return say(404, it.error("not_found"));
    const key = request.headers["idempotency-key"]?.replaceAll('"', "");
    if (!key) return say(400, it.error("key_missing"));
    const known = kept.get(key);
    if (known && known.body !== body) return say(it.mismatch, it.error("mismatch"));
    if (known && !known.answer) return say(it.inUse, it.error("in_use"));
    if (known) return say(...known.answer);
    const scripted = foreign.script.shift();
    if (scripted) return response.writeHead(scripted.status, scripted.headers).end(JSON.stringify(it.error("later")));
    const entry = { body };
    kept.set(key, entry);
    made.push(body);
    await foreign.pause();
    entry.answer = [200, { id: `ch_${made.length}` }];
    say(...entry.answer);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const network = await startNetwork(`http://127.0.0.1:${server.address().port}`);
  const client = createClient({
    account: "ann", baseUrl: network.url, retry: { baseDelay: 20, maxDelay: 100 },
    operations: { charge: { match: "POST /v1/charges", receipt: "status" }, undeclared: { match: "POST /v1/other" } }, ...options,
  });
  t.after(async () => {
    await client.close();
    await network.close();
    server.close();
    server.closeAllConnections();
  });
  return { foreign, network, client };
}

const CHARGE = { url: "/v1/charges", json: { amount: 100 } };

for (const kind of Object.keys(SERVERS)) {
  test(`${kind}: an answer lost and a request lost make one charge`, async (t) => {
    const { foreign, network, client } = await open(t, kind);
    network.faults.push({ do: "loseRequest" }, { do: "loseAnswer" });
    const outcome = await client.submit(CHARGE);
    assert.deepEqual([outcome.state, outcome.data], ["done", { id: "ch_1" }]);
    assert.equal(foreign.made.length, 1);
    assert.equal(new Set(network.requests().map((request) => request.key)).size, 1);
  });

  test(`${kind}: a key in use and a server in trouble are asked again with the same key`, async (t) => {
    const { foreign, network, client } = await open(t, kind, { retry: { baseDelay: 20, maxDelay: 100, attemptTimeout: 300 } });
    foreign.script.push({ status: 503, headers: { "retry-after": "0" } }, { status: 429, headers: { "retry-after": "0" } });
    let goOn;
    foreign.pause = () => new Promise((resolve) => (goOn = resolve));
    // The third exchange takes too long for the client, and the fourth finds it still at work.
    const waiting = client.submit(CHARGE);
    await network.arrived(4);
    goOn();
    const outcome = await waiting;
    assert.equal(outcome.state, "done");
    assert.equal(foreign.made.length, 1);
    assert.equal(new Set(network.requests().map((request) => request.key)).size, 1);
  });

  test(`${kind}: a refusal is the end of it`, async (t) => {
    const { foreign, client, network } = await open(t, kind);
    foreign.script.push({ status: 402, headers: {} });
    const outcome = await client.submit(CHARGE);
    assert.deepEqual([outcome.state, outcome.response.status], ["failed", 402]);
    assert.equal(network.requests().length, 1);
  });
}

test("a foreign server that nobody declared is not sent to again after an ambiguous outcome", async (t) => {
  const { foreign, network, client } = await open(t, "stripe");
  network.faults.push({ do: "loseAnswer" });
  const outcome = await client.submit({ url: "/v1/other", json: { amount: 100 } });
  assert.equal(outcome.state, "unknown");
  assert.equal(network.requests().length, 1);
  assert.equal(foreign.made.length, 1);
});
