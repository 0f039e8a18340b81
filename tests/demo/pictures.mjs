// Makes the pictures of the README anew, from the running demo: `node tests/demo/pictures.mjs`.
import { mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browser, closeBrowser, comesTo, flip, open, send, startDemo } from "./support/demo.mjs";

const FOLDER = fileURLToPath(new URL("../../www/pictures", import.meta.url));
await mkdir(FOLDER, { recursive: true });

async function take(page, name, { width, height, colorScheme = "light", at = "body" }) {
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
  await page.evaluate((at) => {
    document.activeElement?.blur();
    document.querySelector(at).scrollIntoView();
  }, at);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  const file = join(FOLDER, `${name}.webp`);
  await writeFile(file, Buffer.from(data, "base64"));
  console.log(`${file}: ${Math.round((await stat(file)).size / 1000)} kB`);
}

const demo = await startDemo();
try {
  const context = await browser();
  const app = await open(context, demo.url);
  const operator = await context.newPage();
  await operator.goto(demo.operator);
  await operator.locator("#numbers dd").first().waitFor();

  await app.getByRole("button", { name: "Use a sample" }).click();
  await send(app, "Corridor light is out", { place: "Hall 3" });
  await comesTo(app, "Corridor light is out", "done");
  await flip(app, "Lose the next answer");
  await send(app, "Lift stands still", { place: "West wing" });
  await comesTo(app, "Lift stands still", "done");
  await flip(app, "Lose the next answer");
  await send(app, "Water in the cellar", { place: "Depot", way: "plain" });
  await app.getByText("1 more than anybody wanted").waitFor();
  await flip(app, "Answer no questions");
  await flip(app, "Crash after the next effect");
  await send(app, "Door does not close", { place: "Gate 2" });
  await comesTo(app, "Door does not close", "unknown");
  await take(app, "app", { width: 1280, height: 800 });

  await operator.bringToFront();
  await operator.locator("#list tr", { hasText: "uncertain" }).getByRole("button").click();
  await operator.locator("#record").getByText("notify").waitFor();
  await operator.locator("#chart rect").nth(1).waitFor();
  await take(operator, "operator", { width: 1280, height: 800 });

  await app.bringToFront();
  await flip(app, "Offline");
  await send(app, "Window is broken", { place: "Stairs" });
  await comesTo(app, "Window is broken", "waiting");
  await app.setViewportSize({ width: 390, height: 844 });
  await app.reload();
  await app.locator("#outbox > li").first().waitFor();
  await take(app, "phone", { width: 390, height: 844, colorScheme: "dark", at: "#count" });
} finally {
  await closeBrowser();
  await demo.end();
}
