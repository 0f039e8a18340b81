// Each switch of the panel: with samekey the tallies agree, whatever was broken; without it they do not.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { agree, browser, closeBrowser, comesTo, counts, flip, open, row, send, startDemo } from "./support/demo.mjs";

after(closeBrowser);

const world = async (t) => {
  const demo = await startDemo(t);
  return { demo, page: await open(await browser(t), demo.url) };
};

test("nothing broken: a ticket, its answer, its delivery", async (t) => {
  const { demo, page } = await world(t);
  await page.getByRole("button", { name: "Use a sample" }).click();
  await send(page, "No light");
  await comesTo(page, "No light", "done");
  await agree(page, demo, 1);
  await row(page, "No light").getByText("1 delivery").click();
  assert.match(await row(page, "No light").innerText(), /201, ticket 1[^]*Key\s+[0-9a-f-]{36}[^]*201 completed/);
  await page.getByAltText("Photo of ticket 1").waitFor();
  assert.deepEqual(page.complaints, []);
});

for (const [name, title] of [["Lose the next answer", "answer"], ["Lose the next request", "request"]]) {
  test(`${name}: sent again under the same key`, async (t) => {
    const { demo, page } = await world(t);
    await flip(page, name);
    await send(page, title);
    await comesTo(page, title, "done");
    await agree(page, demo, 1);
    // It acts once, and falls back.
    await page.waitForFunction((input) => !input.checked, await page.getByRole("switch", { name }).elementHandle());
    await row(page, title).getByText("2 deliveries").waitFor();
  });
}

test("Deliver everything twice: each happens once", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Deliver everything twice");
  for (const title of ["one", "two"]) await send(page, title);
  for (const title of ["one", "two"]) await comesTo(page, title, "done");
  await agree(page, demo, 2);
});

test("Slow handler: the page stops waiting, the ticket is made once", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Slow handler");
  await send(page, "slow");
  await comesTo(page, "slow", "waiting");
  await comesTo(page, "slow", "done");
  await agree(page, demo, 1);
});

for (const name of ["Crash after the next effect", "Lose its answers"]) {
  test(`${name}: unknown until samekey has asked the provider`, async (t) => {
    const { demo, page } = await world(t);
    await flip(page, name);
    await send(page, "told");
    await comesTo(page, "told", "unknown");
    await comesTo(page, "told", "done");
    await agree(page, demo, 1);
  });
}

test("Slow provider: waited for", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, /^Slow Two/);
  await send(page, "patience");
  await comesTo(page, "patience", "done");
  await agree(page, demo, 1);
});

test("A restart: what is sent meanwhile waits and arrives", async (t) => {
  const { demo, page } = await world(t);
  await page.getByRole("button", { name: "Restart the server" }).click();
  await page.locator("#link", { hasText: "no server" }).waitFor();
  await send(page, "meanwhile");
  await comesTo(page, "meanwhile", "done");
  await agree(page, demo, 1);
});

test("A restart under a running handler: the record is found out, not run twice", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Slow handler");
  await send(page, "cut off");
  await comesTo(page, "cut off", "waiting");
  await page.getByRole("button", { name: "Restart the server" }).click();
  await page.locator("#link", { hasText: "no server" }).waitFor();
  await comesTo(page, "cut off", "done");
  await agree(page, demo, 1);
});

test("Offline: kept, and sent when it is over", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Offline");
  await page.locator("#link", { hasText: "offline" }).waitFor();
  for (const title of ["one", "two", "three"]) await send(page, title);
  assert.deepEqual((await counts(page)).samekey, { intents: 3, tickets: 0, notified: 0, duplicates: 0 });
  await page.reload();
  await row(page, "three").waitFor();
  assert.equal(await page.getByRole("switch", { name: "Offline" }).isChecked(), true);
  await flip(page, "Offline", false);
  await agree(page, demo, 3);
});

test("A clock that is a day ahead changes nothing", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Clock a day ahead");
  await flip(page, "Lose the next answer");
  await send(page, "tomorrow");
  await comesTo(page, "tomorrow", "done");
  await agree(page, demo, 1);
  await flip(page, "Clock a day ahead", false);
  await send(page, "today");
  await comesTo(page, "today", "done");
  await agree(page, demo, 2);
});

test("A session that ended: sign in, and the same key goes out", async (t) => {
  const { demo, page } = await world(t);
  await page.getByRole("button", { name: "End my session" }).click();
  await send(page, "stranger");
  await comesTo(page, "stranger", "needs_auth");
  await row(page, "stranger").getByRole("button", { name: "Sign in" }).click();
  await comesTo(page, "stranger", "done");
  await agree(page, demo, 1);
});

test("Two people on one device: what is Ann's waits for Ann", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Offline");
  await send(page, "from Ann");
  await page.getByLabel("Signed in as").selectOption("ben");
  await page.waitForEvent("load");
  await row(page, "from Ann").waitFor({ state: "detached" });
  await flip(page, "Offline", false);
  await send(page, "from Ben");
  await comesTo(page, "from Ben", "done");
  assert.deepEqual((await demo.ledger()).tickets.map(({ author }) => author), ["ben"]);
  await page.getByLabel("Signed in as").selectOption("ann");
  await page.waitForEvent("load");
  await comesTo(page, "from Ann", "done");
  await agree(page, demo, 2);
});

test("Cancelled before anything left: nothing happens", async (t) => {
  const { demo, page } = await world(t);
  await flip(page, "Offline");
  await send(page, "never mind");
  await row(page, "never mind").getByRole("button", { name: "Cancel" }).click();
  await comesTo(page, "never mind", "cancelled");
  await flip(page, "Offline", false);
  await send(page, "but this");
  await agree(page, demo, 1);
});

for (const [name, tickets] of [["Lose the next answer", 2], ["Deliver everything twice", 2]]) {
  test(`Without samekey, ${name}: duplicates, listed`, async (t) => {
    const { page } = await world(t);
    await flip(page, name);
    await send(page, "plain", { way: "plain" });
    await page.waitForFunction((tickets) => document.querySelectorAll(".tally")[1].querySelector('[data-count="notified"]')?.textContent === String(tickets), tickets);
    const { plain } = await counts(page);
    assert.equal(plain.intents, 1);
    assert.equal(plain.duplicates, 1);
    assert.match(await page.locator(".tally").nth(1).innerText(), /1 more than anybody wanted[^]*plain: 2 tickets, 2 notified/);
  });
}
