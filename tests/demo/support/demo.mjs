// A demo of a test's own, Chromium before it, and what a person does there.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const BINARY = process.env.SAMEKEY_BIN ?? fileURLToPath(new URL("../../../target/debug/samekey", import.meta.url));
const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** Machines that run tests are busy ones. */
export const PATIENCE = 45_000;

export async function startDemo(t) {
  const folder = await mkdtemp(join(tmpdir(), "samekey-demo-test-"));
  const any = "127.0.0.1:0";
  const child = spawn(BINARY, ["demo", "--listen", any, "--admin", any, "--provider", any], { env: { ...process.env, TMPDIR: folder }, stdio: ["ignore", "pipe", "inherit"] });
  const text = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
      if (text.includes("Ctrl-C ends the demo")) resolve(text);
    });
    child.once("exit", (code) => reject(new Error(`samekey demo ended with ${code}: ${text}`)));
  });
  const end = async () => {
    if (child.exitCode === null) {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    }
    await rm(folder, { recursive: true, force: true });
  };
  t?.after(end);
  const url = /the app +(\S+)\//.exec(text)[1];
  const operator = /the operator +(\S+)/.exec(text)[1];
  return { url, operator, end, ledger: async () => (await fetch(`${url}/demo/ledger`)).json() };
}

let shared;
export async function browser(t, options = {}) {
  shared ??= chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
  const context = await (await shared).newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  t?.after(() => context.close());
  return context;
}
export const closeBrowser = async () => (await shared)?.close();

/** Opens the app. What it complains of is kept in `page.complaints`. */
export async function open(context, url) {
  const page = await context.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.complaints.push(message.text()));
  await page.goto(url);
  await ready(page);
  return page;
}
export const ready = (page) => page.waitForFunction(() => document.documentElement.dataset.ready === "true");

export async function send(page, title, { place = "Hall 3", way = "samekey" } = {}) {
  await page.getByLabel("What is wrong").fill(title);
  await page.getByLabel("Where").fill(place);
  await page.locator(`input[name=way][value=${way}]`).check({ force: true });
  await page.getByRole("button", { name: "Send ticket" }).click();
  await row(page, title).first().waitFor();
}
export const row = (page, title) => page.locator("#outbox > li").filter({ hasText: title });
/** Switches that act once fall back by themselves; the page sees it a moment later. */
export async function flip(page, name, on = true) {
  const one = page.getByRole("switch", { name, exact: false }).first();
  await page.waitForFunction(([input, on]) => input.checked !== on, [await one.elementHandle(), on]);
  const here = ["offline", "clock"].includes(await one.getAttribute("name"));
  // What follows must find the switch set.
  await Promise.all([here || page.waitForResponse((response) => response.url().endsWith("/demo/switches")), one.setChecked(on)]);
}

/** Until the row of this ticket is in this state. */
export async function comesTo(page, title, state, timeout = PATIENCE) {
  await page.waitForFunction(
    ([title, state]) => [...document.querySelectorAll("#outbox > li")].some((row) => row.querySelector(".name").textContent === title && row.dataset.state === state),
    [title, state], { timeout },
  ).catch(async (error) => {
    throw new Error(`${title} does not come to ${state}: ${await page.locator("#outbox").innerText()}\n${error.message}`);
  });
}

/** The two tallies, as the page shows them. */
export const counts = (page) => page.evaluate(() => {
  const number = (tally, name) => Number(tally.querySelector(`[data-count="${name}"]`).textContent);
  const [samekey, plain] = [...document.querySelectorAll(".tally")].map((tally) => ({ intents: number(tally, "intents"), tickets: number(tally, "tickets"), notified: number(tally, "notified"), duplicates: tally.querySelectorAll("li").length }));
  return { samekey, plain };
});

/** Until the page says that so many were wanted with samekey, and each happened once; and the ledger says so, too. */
export async function agree(page, demo, wanted) {
  await page.waitForFunction((wanted) => {
    const tally = document.querySelector(".tally");
    return ["intents", "tickets", "notified"].every((name) => Number(tally.querySelector(`[data-count="${name}"]`)?.textContent) === wanted);
  }, wanted).catch(async (error) => {
    throw new Error(`the tally does not come to ${wanted}: ${JSON.stringify(await counts(page))}\n${await page.locator("#outbox").innerText()}\n${error.message}`);
  });
  const { samekey } = await demo.ledger();
  assert.deepEqual(samekey, { intents: wanted, effects: wanted, notifications: wanted, duplicates: [] });
}
