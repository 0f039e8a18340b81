// `samekey/node`: a folder as a store, for programs that may be killed at any moment.
import { rmSync } from "node:fs";
import { mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Store, StoredRecord } from "./types.js";

/** Nobody holds the folder's lock for longer than a few writes take. */
const STALE = 10_000;

/** One file for each intent. Several processes may share the folder, on one host. */
export function fileStore({ dir }: { dir: string }): Store {
  const lock = join(dir, ".lock");
  const file = (id: string) => join(dir, `${encodeURIComponent(id)}.json`);
  let line: Promise<unknown> = Promise.resolve();

  async function get(path: string): Promise<StoredRecord | undefined> {
    const text = await readFile(path, "utf8").catch(absent);
    if (text === undefined) return undefined;
    try {
      const record = JSON.parse(text) as Omit<StoredRecord, "data"> & { data: string };
      return { ...record, data: new Uint8Array(Buffer.from(record.data, "base64")) };
    } catch (cause) {
      throw new Error(`${path} is no record; move it away or restore it from a backup`, { cause });
    }
  }

  /** Entries of a folder are durable when the folder is. */
  async function syncFolder() {
    const folder = await open(dir, "r");
    await folder.sync().finally(() => folder.close());
  }

  /** A file that is there while somebody holds it, with the holder's process in it. */
  async function takes(path: string): Promise<boolean> {
    const held = await open(path, "wx").catch((error: NodeJS.ErrnoException) => (error.code === "EEXIST" ? undefined : Promise.reject(error)));
    await held?.writeFile(String(process.pid)).finally(() => held.close());
    return held !== undefined;
  }

  async function take(): Promise<void> {
    await mkdir(dir, { recursive: true });
    while (!(await takes(lock))) {
      const found = await stat(lock).catch(absent);
      if (found && (Date.now() - found.mtimeMs > STALE || (await isOrphan(lock)))) await rm(lock, { force: true });
      else await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 10));
    }
  }

  async function isOrphan(path: string): Promise<boolean> {
    const owner = Number(await readFile(path, "utf8").catch(absent));
    if (!owner || owner === process.pid) return false;
    try {
      return !process.kill(owner, 0);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ESRCH";
    }
  }

  /** One after the other in this process, one at a time over all processes. */
  function alone<T>(act: () => Promise<T>): Promise<T> {
    const next = line.then(async () => {
      await take();
      try {
        return await act();
      } finally {
        await rm(lock, { force: true });
      }
    });
    line = next.catch(() => {});
    return next;
  }

  const ifIs = (id: string, expected: number | null, act: (path: string) => Promise<void>) =>
    alone(async () => {
      const path = file(id);
      if (((await get(path))?.revision ?? null) !== expected) return false;
      await act(path);
      await syncFolder();
      return true;
    });

  return {
    durability: "strict",
    all: async () => {
      const names = (await readdir(dir).catch(absent)) ?? [];
      const records = await Promise.all(names.filter((name) => name.endsWith(".json")).map((name) => get(join(dir, name))));
      return records.filter((record) => record !== undefined);
    },
    put: (record, expected) =>
      ifIs(record.id, expected, async (path) => {
        // Whole or not at all: written aside, synced, then moved over the old one.
        const aside = await open(`${path}.new`, "w");
        try {
          await aside.writeFile(JSON.stringify({ ...record, data: Buffer.from(record.data).toString("base64") }));
          await aside.sync();
        } finally {
          await aside.close();
        }
        await rename(`${path}.new`, path);
      }),
    delete: (id, expected) => ifIs(id, expected, (path) => rm(path)),
    lock: (name, steal) =>
      alone(async () => {
        const path = `${file(name)}.lock`;
        if (steal || (await isOrphan(path))) await rm(path, { force: true });
        if (!(await takes(path))) return undefined;
        // Freed at once, so that nobody sees it held who asks a moment later.
        return () => rmSync(path, { force: true });
      }),
  };
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}
