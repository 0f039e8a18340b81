// "Without samekey": what many applications do. A fetch, a time limit, three tries. Nothing outlives the page.
import { now, send } from "./world.js";

const PATIENCE = 3_000, PAUSE = 1_000, TRIES = 4;
const rows = [];
const listeners = new Set();
const tell = () => listeners.forEach((listener) => listener());

export const onNaive = (listener) => listeners.add(listener);
export const naive = () => rows;
export function drop(id) {
  rows.splice(rows.findIndex((row) => row.id === id), 1);
  tell();
}

export async function submit(user, ticket) {
  const row = { id: `p-${crypto.getRandomValues(new Uint32Array(2)).join("")}`, label: ticket.title, user, state: "sending", tries: 0, at: now(), said: "" };
  rows.unshift(row);
  while (row.tries < TRIES) {
    row.tries += 1;
    row.state = "sending";
    tell();
    try {
      const response = await send("/api/tickets", {
        method: "POST", body: JSON.stringify(ticket), signal: AbortSignal.timeout(PATIENCE),
        headers: { "content-type": "application/json", authorization: `Bearer ${user}`, "demo-intent": row.id },
      });
      const answer = await response.json();
      row.said = response.ok ? `ticket ${answer.id}` : `${response.status}: ${answer.detail}`;
      row.state = response.ok ? "done" : response.status >= 500 ? "retrying" : "failed";
      if (row.state !== "retrying") return tell();
    } catch (error) {
      row.said = error.name === "TimeoutError" ? "no answer in time" : "no answer";
    }
    row.state = row.tries < TRIES ? "retrying" : "gave up";
    tell();
    if (row.tries < TRIES) await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}
