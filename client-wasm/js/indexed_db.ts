// IndexedDB as a store: strict durability, compare-and-set inside one transaction, a connection that comes back.
import { type IDBPDatabase, openDB } from "idb";
import { memoryStore } from "./memory.js";
import type { ClientEvents, Durability, Store, StoredRecord } from "./types.js";

const INTENTS = "intents";
/** Opening waits for other tabs without saying so, and for ever where a browser is broken. */
const PATIENCE = 4_000;

/** Falls back to memory where the browser refuses, and says so. */
export function browserStore(name: string, report: (reason: ClientEvents["storage"]["reason"]) => void): Store {
  const disk = diskStore(name);
  let store: Promise<Store> | undefined;
  let durability: Durability = "strict";
  const chosen = () =>
    (store ??= disk.open().then(
      () => disk,
      (error: unknown) => {
        durability = "memory";
        report((error as Error).message === "blocked" ? "blocked" : "degraded");
        return memoryStore();
      },
    ));
  return {
    get durability() {
      return durability;
    },
    all: async () => (await chosen()).all(),
    put: async (record, expected) => (await chosen()).put(record, expected),
    delete: async (id, expected) => (await chosen()).delete(id, expected),
    close: async () => disk.close(),
  };
}

function diskStore(name: string) {
  let connection: Promise<IDBPDatabase> | undefined;
  const lost = () => (connection = undefined);
  const connect = async () => {
    const opening = openDB(name, 1, {
      upgrade: (db) => void db.createObjectStore(INTENTS, { keyPath: "id" }),
      // Another tab wants to upgrade or erase; whoever held on would block it for ever.
      blocking: (_current, _wanted, event) => (lost(), (event.target as IDBDatabase).close()),
      terminated: lost,
    });
    let bell = 0;
    const late = new Promise<never>((_, reject) => (bell = +setTimeout(() => reject(new Error("blocked")), PATIENCE)));
    // One that opens too late holds nobody up.
    late.catch(() => opening.then((db) => db.close(), () => {}));
    return Promise.race([opening, late]).finally(() => clearTimeout(bell));
  };
  const open = () => {
    const opened = (connection ??= connect());
    opened.catch(() => connection === opened && lost());
    return opened;
  };
  type Intents = { get(id: string): Promise<StoredRecord | undefined>; put(record: StoredRecord): Promise<unknown>; delete(id: string): Promise<void>; getAll(): Promise<StoredRecord[]> };
  async function run<T>(mode: "readonly" | "readwrite", work: (intents: Intents) => Promise<T>): Promise<T> {
    for (let again = true; ; again = false) {
      try {
        const transaction = (await open()).transaction(INTENTS, mode, { durability: "strict" });
        const [result] = await Promise.all([work(transaction.store as unknown as Intents), transaction.done]);
        return result;
      } catch (error) {
        // Closed under our feet. Nothing of an aborted transaction is written, so it is run again.
        if (!again || !["InvalidStateError", "AbortError"].includes((error as Error).name)) throw error;
        lost();
      }
    }
  }
  const ifIs = (id: string, expected: number | null, act: (intents: Intents) => Promise<unknown>) =>
    run("readwrite", async (store) => {
      const matches = ((await store.get(id))?.revision ?? null) === expected;
      if (matches) await act(store);
      return matches;
    });
  return {
    durability: "strict" as const,
    open,
    all: () => run("readonly", (store) => store.getAll()),
    put: (record: StoredRecord, expected: number | null) => ifIs(record.id, expected, (store) => store.put(record)),
    delete: (id: string, expected: number) => ifIs(id, expected, (store) => store.delete(id)),
    close: async () => (await connection?.catch(() => undefined))?.close(),
  };
}
