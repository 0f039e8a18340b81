// Debian's Chromium. Tests get a context of their own; those that kill it, a process of their own.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";

let shared;
/** A context of the browser that all tests of a file share. */
export async function context(t, options = {}) {
  shared ??= chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
  const context = await (await shared).newContext(options);
  t.after(() => context.close());
  return context;
}
export const closeBrowser = async () => (await shared)?.close();

/** Opens the app and waits until its outbox is read. */
export async function openApp(context, url, path = "/") {
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(error));
  await page.goto(url + path);
  await page.waitForFunction(() => window.shop?.ready);
  return page;
}

/** Chromium as a process that can be killed, and started again on the same profile. */
export async function mortalBrowser(t) {
  const profile = await mkdtemp(join(tmpdir(), "samekey-profile-"));
  let child, browser;
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    // The whole group: renderers would go on writing for a moment.
    process.kill(-child.pid, "SIGKILL");
    await gone;
    await browser?.close().catch(() => {});
  };
  const start = async () => {
    await rm(join(profile, "DevToolsActivePort"), { force: true });
    child = spawn(EXECUTABLE, [...ARGS, "--headless=new", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"], { stdio: ["ignore", "ignore", "pipe"], detached: true });
    const url = await new Promise((resolve, reject) => {
      let text = "";
      child.stderr.on("data", (data) => {
        text += data;
        const found = /DevTools listening on (ws:\S+)/.exec(text);
        if (found) resolve(found[1]);
      });
      child.once("exit", () => reject(new Error(`chromium ended: ${text}`)));
    });
    browser = await chromium.connectOverCDP(url);
    return browser.contexts()[0];
  };
  t.after(async () => {
    await kill();
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  return { start, kill };
}
