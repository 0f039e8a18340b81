// A page as an application has it: it shows its outbox and what became of the last command.
import * as samekey from "/dist/index.js";

const options = JSON.parse(sessionStorage.getItem("options") ?? localStorage.getItem("options") ?? "{}");
const account = () => localStorage.getItem("account") ?? "ann";
const token = () => localStorage.getItem("token") ?? "good";
const events = (window.events = []);

const client = (window.client = samekey.createClient({
  account,
  headers: () => ({ "x-user": account(), authorization: `Bearer ${token()}` }),
  retry: { baseDelay: 50, maxDelay: 300 },
  ...options,
}));
window.samekey = samekey;
for (const type of ["change", "settled", "attention", "storage"]) {
  client.on(type, (event) => events.push({ type, state: event.state, reason: event.reason, durability: event.durability, id: event.id }));
}

function render() {
  const rows = client.outbox.getSnapshot().map((intent) => {
    const row = document.createElement("li");
    row.textContent = `${intent.label ?? intent.operation}: ${intent.state}`;
    row.dataset.state = intent.state;
    return row;
  });
  document.querySelector("#outbox").replaceChildren(...rows);
}
client.outbox.subscribe(render);

window.buy = async (sku, more = {}) => {
  const outcome = await client.submit({ url: "/api/orders", json: { sku }, label: sku, ...more });
  document.querySelector("#result").textContent = `${sku}: ${outcome.state}`;
  return { state: outcome.state, data: outcome.data, joined: outcome.joined, id: outcome.intent.id, key: outcome.intent.key, effect: outcome.intent.effect, replayed: outcome.replayed };
};
/** Clicks have no place to put an error. */
document.querySelector("#buy").onclick = () => void window.buy("tea", { slot: "cart" }).catch((error) => events.push({ type: "error", code: error.code, message: String(error) }));
window.shop = { ready: true };
