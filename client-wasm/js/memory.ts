// A store that ends with the process; clients that are given the same one share it like tabs.
import type { Store, StoredRecord } from "./types.js";

export function memoryStore(): Store {
  const records = new Map<string, StoredRecord>();
  const listeners = new Set<() => void>();
  const revision = (id: string) => records.get(id)?.revision ?? null;
  return {
    durability: "memory",
    all: async () => [...records.values()],
    put: async (record, expected) => {
      if (revision(record.id) !== expected) return false;
      records.set(record.id, record);
      for (const tell of listeners) tell();
      return true;
    },
    delete: async (id, expected) => revision(id) === expected && records.delete(id),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
