import { createClient } from "samekey";
const client = createClient({ account: null });
const form = document.querySelector("form")!;
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const outcome = await client.submit<{ id: string }, { message: string }>({
    url: form.action, body: new FormData(form), slot: `signup:${form.id}`,
  });
  switch (outcome.state) {
    case "done": location.assign(`/tickets/${outcome.data.id}`); break;
    case "failed": show(outcome.data.message); break;
    case "unknown": case "stalled": show("We do not know yet whether this arrived. It is kept; do not send it again."); break;
    case "expired": show("Too late to repeat safely. Please check your tickets first."); break;
    case "conflict": case "cancelled": show("Not sent."); break;
    default: outcome satisfies never;
  }
});
declare function show(text: string): void;
