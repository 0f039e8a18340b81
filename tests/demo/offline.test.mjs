// What a person's device does: no network at the start, a reload, two tabs, a new version.
import assert from "node:assert/strict";
import { createServer, request as ask } from "node:http";
import { after, test } from "node:test";
import { agree, browser, closeBrowser, comesTo, flip, open, PATIENCE, ready, row, send, startDemo } from "./support/demo.mjs";

after(closeBrowser);

/** Until the worker has everything. */
const kept = (page) => page.waitForFunction(() => navigator.serviceWorker.ready.then(() => navigator.serviceWorker.controller !== null));

test("after the first visit it opens without a network, and what is sent then arrives later", async (t) => {
  const demo = await startDemo(t);
  const context = await browser(t);
  const page = await open(context, demo.url);
  await kept(page);
  await context.setOffline(true);
  await page.reload();
  await ready(page);
  await send(page, "in the cellar");
  await comesTo(page, "in the cellar", "waiting");
  await page.reload();
  await ready(page);
  await row(page, "in the cellar").waitFor();
  await page.close();
  await context.setOffline(false);
  const again = await open(context, demo.url);
  await comesTo(again, "in the cellar", "done");
  await agree(again, demo, 1);
});

test("two tabs show one outbox and deliver each intent once", async (t) => {
  const demo = await startDemo(t);
  const context = await browser(t);
  const [one, other] = [await open(context, demo.url), await open(context, demo.url)];
  await flip(one, "Offline");
  await send(one, "from one");
  await row(other, "from one").waitFor();
  assert.equal(await other.getByRole("switch", { name: "Offline" }).isChecked(), true, "one device, one network");
  await send(other, "from the other");
  await flip(other, "Offline", false);
  for (const page of [one, other]) {
    for (const title of ["from one", "from the other"]) await comesTo(page, title, "done");
    await agree(page, demo, 2);
  }
  await row(one, "from one").getByRole("button", { name: "Dismiss" }).click();
  await row(other, "from one").waitFor({ state: "detached" });
});

/** The demo, as if another binary served it: another release of the same files. */
async function newer(t, demo) {
  const { hostname, port } = new URL(demo.url);
  let release = 1;
  const server = createServer((request, response) => {
    const onward = ask({ host: hostname, port, method: request.method, path: request.url, headers: { ...request.headers, "accept-encoding": "identity" } }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => {
        let body = Buffer.concat(parts);
        const { "content-length": _, "transfer-encoding": __, etag: ___, ...headers } = answer.headers;
        if (release > 1 && request.url === "/worker.js") body = Buffer.from(body.toString().replace(/"version":"/, `$&${release}-`));
        if (release > 1 && request.url === "/app.js") body = Buffer.from(`${body}\ndocument.documentElement.dataset.release = "${release}";\n`);
        response.writeHead(answer.statusCode, { ...headers, "cache-control": "no-store", connection: "close" });
        response.end(body);
      });
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise((resolve) => (server.close(resolve), server.closeAllConnections())));
  return { url: `http://127.0.0.1:${server.address().port}`, release: () => (release += 1) };
}

test("a new version takes over when somebody says so, and loses nothing that waits", async (t) => {
  const demo = await startDemo(t);
  const versions = await newer(t, demo);
  const page = await open(await browser(t), versions.url);
  await kept(page);
  await flip(page, "Offline");
  await send(page, "waits");
  await comesTo(page, "waits", "waiting");
  versions.release();
  await page.evaluate(() => navigator.serviceWorker.getRegistration().then((it) => it.update()).then(() => {}));
  await page.getByRole("button", { name: "Reload now" }).click();
  await page.waitForFunction(() => document.documentElement.dataset.release === "2");
  await ready(page);
  assert.equal(await page.getByRole("button", { name: "Reload now" }).isVisible(), false);
  await row(page, "waits").waitFor();
  await flip(page, "Offline", false);
  await comesTo(page, "waits", "done");
  await agree(page, demo, 1);
});

test("the first visit is small and soon usable, and the browser could install it", async (t) => {
  const demo = await startDemo(t);
  const context = await browser(t);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  let bytes = 0;
  const foreign = [];
  session.on("Network.requestWillBeSent", ({ request }) => request.url.startsWith(demo.url) || /^(data|blob):/.test(request.url) || foreign.push(request.url));
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  await page.goto(demo.url);
  await ready(page);
  const usable = await page.evaluate(() => performance.now());
  await page.waitForLoadState("networkidle", { timeout: PATIENCE }).catch(() => {});
  await kept(page);
  // What the worker fetched is not told to the page's session: the same files, asked for by their tags.
  const files = await page.evaluate(async () => {
    const sizes = [];
    for (const name of await caches.keys()) for (const request of await (await caches.open(name)).keys()) sizes.push(new URL(request.url).pathname);
    return sizes;
  });
  const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
  t.diagnostic(`first load: ${bytes} bytes transferred, usable after ${Math.round(usable)} ms, ${files.length} files kept`);
  console.log(`first load: ${bytes} bytes transferred, usable after ${Math.round(usable)} ms, ${files.length} files kept`);
  assert.ok(bytes > 20_000 && bytes < 120_000, `${bytes} bytes`);
  assert.deepEqual(foreign, []);
  assert.deepEqual(complaints, []);
  assert.deepEqual(installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito"), []);
  assert.ok(files.includes("/") && files.includes("/samekey.js"));
});
