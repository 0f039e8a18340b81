// What lies between the browser and samekey: a proxy that loses, holds, repeats and invents as a test tells it.
import { once } from "node:events";
import { Agent, createServer, request as ask } from "node:http";

/** Commands: what a network does to them is what the tests are about. */
const isCommand = (request) => request.method !== "GET" || request.url.includes("/.well-known/samekey/status");

export async function startNetwork(target) {
  const { port: to, hostname: host } = new URL(target);
  const agent = new Agent({ keepAlive: true });
  const network = {
    /** Every command that came by: `{ method, url, key, requestId }`. */
    seen: [],
    /** What happens to the next commands, first in first out; then they pass. Each `{ do, method?, ... }`. */
    faults: [],
    /** All connections break. */
    down: false,
    requests: (method = "POST") => network.seen.filter((one) => one.method === method),
  };
  const waiting = new Set();

  const server = createServer(async (request, response) => {
    const parts = [];
    try {
      for await (const part of request) parts.push(part);
    } catch {
      return; // the browser hung up
    }
    const body = Buffer.concat(parts);
    if (network.down) return request.socket.destroy();
    if (!isCommand(request)) return pass(request, body, response);
    const { method, url, headers } = request;
    const one = { method, url, key: headers["idempotency-key"], requestId: headers["x-request-id"], user: headers["x-user"] };
    network.seen.push(one);
    for (const waiter of waiting) waiter();
    const at = network.faults.findIndex((fault) => (fault.method ?? "POST") === method);
    const fault = at < 0 ? undefined : network.faults.splice(at, 1)[0];
    await FAULTS[fault?.do ?? "pass"]({ request, response, body, fault, one });
  });

  const FAULTS = {
    pass: ({ request, body, response }) => pass(request, body, response),
    /** It never arrives. */
    loseRequest: async ({ request }) => request.socket.destroy(),
    /** It arrives and is answered; the answer is lost. */
    loseAnswer: async ({ request, body, fault }) => {
      await answer(request, body);
      await fault.before?.();
      request.socket.destroy();
    },
    /** The answer stops in the middle of its body. */
    cutAnswer: async ({ request, body, response }) => {
      const got = await answer(request, body);
      response.writeHead(got.status, { ...got.headers, "content-length": got.body.length, connection: "close" });
      response.write(got.body.subarray(0, got.body.length / 2));
      setImmediate(() => request.socket.destroy());
    },
    /** It arrives twice, the answer of the second is given. */
    twice: async ({ request, body, response }) => {
      await answer(request, body);
      await pass(request, body, response);
    },
    /** `fault.until` is awaited with the request in hand, or with the answer if `fault.answered`. */
    hold: async ({ request, body, response, fault }) => {
      if (!fault.answered) await fault.until;
      if (request.socket.destroyed && !fault.answered) return;
      const got = await answer(request, body);
      fault.arrived?.();
      if (fault.answered) await fault.until;
      give(response, got);
    },
    /** Somebody else answers. */
    invent: async ({ response, fault }) => give(response, { status: fault.status ?? 200, headers: fault.headers ?? {}, body: Buffer.from(fault.body ?? "") }),
    /** The answer passes with other headers. */
    dress: async ({ request, body, response, fault }) => {
      const got = await answer(request, body);
      give(response, { ...got, headers: { ...got.headers, ...fault.headers } });
    },
  };

  async function answer(request, body) {
    const { method, url, headers } = request;
    const onward = ask({ host, port: to, method, path: url, headers, agent });
    onward.end(body);
    const [got] = await once(onward, "response");
    const parts = [];
    for await (const part of got) parts.push(part);
    return { status: got.statusCode, headers: got.headers, body: Buffer.concat(parts) };
  }
  async function pass(request, body, response) {
    give(response, await answer(request, body).catch(() => ({ status: 502, headers: {}, body: Buffer.alloc(0) })));
  }
  function give(response, { status, headers, body }) {
    const { "transfer-encoding": _, ...rest } = headers;
    // A browser repeats by itself what it sent on a kept connection that breaks, and no test would see the loss.
    response.writeHead(status, { ...rest, "content-length": body.length, connection: "close" });
    response.end(body);
  }

  /** Until so many commands of a method came by. */
  network.arrived = async (count, method = "POST") => {
    while (network.requests(method).length < count) {
      await new Promise((resolve) => {
        const waiter = () => (waiting.delete(waiter), resolve());
        waiting.add(waiter);
      });
    }
  };
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  network.url = `http://127.0.0.1:${server.address().port}`;
  network.breakAll = () => server.closeAllConnections();
  network.close = () => (agent.destroy(), new Promise((resolve) => (server.close(resolve), server.closeAllConnections())));
  return network;
}
