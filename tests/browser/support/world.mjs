// Browser or program -> faulty network -> the real `samekey serve` -> shop.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { startNetwork } from "./network.mjs";
import { startShop } from "./shop.mjs";

const BINARY = process.env.SAMEKEY_BIN ?? fileURLToPath(new URL("../../../target/debug/samekey", import.meta.url));

export async function startWorld(t, flags = []) {
  const shop = await startShop();
  const folder = await mkdtemp(join(tmpdir(), "samekey-world-"));
  const server = await startServer(shop.url, folder, flags);
  const network = await startNetwork(server.url);
  t.after(async () => {
    await network.close();
    server.child.kill("SIGKILL");
    await shop.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { shop, network, server, folder, url: network.url };
}

async function startServer(upstream, folder, flags) {
  const child = spawn(BINARY, [
    "serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "json",
    "--store", `sqlite:${join(folder, "samekey.db")}`, ...(flags.includes("--actor") ? [] : ["--actor", "header:X-User"]), ...flags,
  ], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const lines = [];
  const url = await new Promise((resolve, reject) => {
    const read = (line) => {
      lines.push(line);
      const found = / listening (http:\/\/[\d.:]+)/.exec(line);
      if (found) resolve(found[1]);
    };
    createInterface({ input: child.stdout }).on("line", read);
    createInterface({ input: child.stderr }).on("line", read);
    child.on("exit", (code) => reject(new Error(`samekey serve ended with ${code}:\n${lines.join("\n")}`)));
  });
  return { child, url, lines };
}
