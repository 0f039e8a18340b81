// What people see: pictures of every kind of state for whoever wants to look (target/demo-pictures), and axe's rules.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { browser, closeBrowser, comesTo, flip, open, PATIENCE, send, startDemo } from "./support/demo.mjs";

after(closeBrowser);

const PICTURES = fileURLToPath(new URL("../../target/demo-pictures", import.meta.url));
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = [["phone", 390, 844], ["desktop", 1280, 800]];

async function sound(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`), [], where);
}

/** Looks at the page in both sizes and both colours. */
async function look(page, name) {
  await mkdir(PICTURES, { recursive: true });
  for (const [size, width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(wide, 0, `${name} on a ${size} is wider than the screen`);
      await sound(page, `${name}, ${size}, ${colorScheme}`);
      await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}.png`) });
      await page.screenshot({ path: join(PICTURES, `${name}-${size}-${colorScheme}-whole.png`), fullPage: true });
    }
  }
}

const LONG = "The lift between the second and the third floor of the west wing has stopped with somebody in it who would like to get out";

test("the app, empty, in every state, and in error", async (t) => {
  const demo = await startDemo(t);
  const page = await open(await browser(t, { reducedMotion: "reduce" }), demo.url);
  await page.getByText("Nothing was wanted yet").first().waitFor();
  await look(page, "empty");

  await page.getByRole("button", { name: "Send ticket" }).click();
  await page.getByText("Say what is wrong.").waitFor();
  await look(page, "error");

  await page.getByRole("button", { name: "Use a sample" }).click();
  await send(page, "Corridor light is out", { place: "Hall 3" });
  await comesTo(page, "Corridor light is out", "done");
  await flip(page, "Lose the next answer");
  await send(page, LONG.slice(0, 120), { place: LONG.slice(0, 100) });
  await comesTo(page, LONG.slice(0, 120), "done");
  await flip(page, "Lose the next answer");
  await send(page, "Water in the cellar", { place: "Depot", way: "plain" });
  await page.getByText("1 more than anybody wanted").waitFor();
  await flip(page, "Answer no questions");
  await flip(page, "Crash after the next effect");
  await send(page, "Door does not close", { place: "Gate 2" });
  await comesTo(page, "Door does not close", "unknown");
  await page.getByRole("button", { name: "End my session" }).click();
  await send(page, "Heating is cold", { place: "Office 12" });
  await comesTo(page, "Heating is cold", "needs_auth");
  await flip(page, "Offline");
  await send(page, "Window is broken", { place: "Stairs" });
  await comesTo(page, "Window is broken", "waiting");
  await page.locator("#outbox details").first().locator("summary").click();
  await look(page, "full");
  assert.deepEqual(page.complaints.filter((text) => !/ERR_|status of (401|409|5\d\d)/.test(text)), []);
});

test("the operator's page: without a token, with numbers, with a record to settle", async (t) => {
  const demo = await startDemo(t);
  const context = await browser(t, { reducedMotion: "reduce" });
  const app = await open(context, demo.url);
  await flip(app, "Answer no questions");
  await send(app, "Corridor light is out");
  await comesTo(app, "Corridor light is out", "done");
  await flip(app, "Crash after the next effect");
  await send(app, "Door does not close");
  await comesTo(app, "Door does not close", "unknown");
  const key = await app.evaluate(() => [...document.querySelectorAll("#outbox li")].find(({ dataset }) => dataset.state === "unknown").querySelector("code").textContent);

  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  const [address, token] = demo.operator.split("#");
  await page.goto(address);
  await page.getByLabel("Token of the admin listener").waitFor();
  await look(page, "operator-door");
  await page.getByLabel("Token of the admin listener").fill("samekey_wrong_wrong_wrong_wrong");
  await page.getByRole("button", { name: "Show the records" }).click();
  await page.getByText("does not stand in the token file").waitFor();
  await page.getByLabel("Token of the admin listener").fill(token);
  await page.getByRole("button", { name: "Show the records" }).click();

  await page.locator("#list tr").nth(3).waitFor();
  await page.getByLabel("Key", { exact: true }).fill(key);
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#list tr").length === 2);
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByLabel("Actor", { exact: true }).fill("ann");
  await page.getByLabel("Operation").fill("tickets.create");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#list tr").length === 2);

  await page.locator("#list tr", { hasText: "uncertain" }).getByRole("button").click();
  await page.locator("#detail-title", { hasText: "uncertain" }).waitFor();
  await page.locator("#record").getByText("notify").waitFor();
  await look(page, "operator");

  // The operator asks the provider, finds the notification, and says so. Its caller hears it.
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByLabel("It happened").check();
  await page.getByLabel("What was made").fill("2");
  await page.getByLabel("Who you are").fill("Olga");
  await page.getByLabel("What you found").fill("The provider lists it under its reference.");
  await page.getByRole("button", { name: "Settle", exact: true }).click();
  await page.locator("#detail-title", { hasText: "completed" }).or(page.locator("#trouble:not([hidden])")).waitFor();
  assert.equal(await page.locator("#trouble").isVisible(), false, await page.locator("#trouble").textContent());
  await page.getByText("Olga").waitFor();
  await comesTo(app, "Door does not close", "done", PATIENCE);
  assert.deepEqual(complaints, []);
});
