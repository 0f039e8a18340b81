// The app: a form, an outbox that the client keeps, and what the demonstrator sees beside it.
import { createClient } from "./samekey.js";
import "./world.js";
import * as deliveries from "./deliveries.js";
import { $ } from "./parts.js";
import { drop, naive, onNaive, submit } from "./naive.js";
import { settled, showOutbox } from "./outbox.js";
import { look, makePanel, onLedger, showPanel, signIn } from "./panel.js";
import { sample, shrink } from "./photo.js";
import { HINTS, tell } from "./words.js";
import { onWorld, skew } from "./world.js";

const USER = "demo.user", LOOK_EVERY = 1_000;
const user = () => localStorage.getItem(USER) ?? "ann";
const form = $("form");
let photo, busy = false;

const client = createClient({
  account: user,
  headers: ({ intent }) => ({ authorization: `Bearer ${user()}`, "demo-intent": intent.id }),
  operations: { "tickets.create": { match: "POST /api/tickets" } },
  // Times that suit somebody who watches; the defaults suit a service.
  retry: { attemptTimeout: 3_000, baseDelay: 800, maxDelay: 5_000 },
  fetch: deliveries.counted,
});

function show() {
  showOutbox(client, naive());
  const open = client.outbox.getSnapshot().filter((intent) => !settled(intent) && intent.state !== "expired").map(({ id }) => id);
  showPanel({ samekey: open, plain: naive().filter(({ state }) => state !== "failed").map(({ id }) => id) });
}

function trouble(text) {
  $("trouble").textContent = text;
  $("trouble").hidden = !text;
}
const say = (text) => ($("say").textContent = text);

// The form.

const NEEDED = { title: "Say what is wrong.", place: "Say where it is." };
function check() {
  const wrong = Object.keys(NEEDED).filter((name) => !form.elements[name].value.trim());
  for (const name of Object.keys(NEEDED)) {
    $(`${name}-error`).textContent = wrong.includes(name) ? NEEDED[name] : "";
    form.elements[name].setAttribute("aria-invalid", String(wrong.includes(name)));
  }
  if (wrong.length) form.elements[wrong[0]].focus();
  return !wrong.length;
}
form.addEventListener("input", ({ target }) => {
  if (!(target.name in NEEDED) || !target.value.trim()) return;
  $(`${target.name}-error`).textContent = "";
  target.setAttribute("aria-invalid", "false");
});

function setPhoto(url) {
  photo = url;
  $("preview").hidden = !url;
  $("preview").firstElementChild.src = url ?? "data:,";
}
$("photo").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  target.value = "";
  if (!file) return;
  await shrink(file).then(setPhoto, () => trouble(`${file.name} is no picture that this browser can read.`));
});
$("sample").addEventListener("click", () => setPhoto(sample()));
$("remove-photo").addEventListener("click", () => {
  setPhoto(undefined);
  $("sample").focus();
});

const way = () => form.elements.way.value;
const showWay = () => ($("way-hint").textContent = HINTS[way()]);
$("way").addEventListener("change", showWay);

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (busy || !check()) return;
  trouble("");
  const { title, place, priority } = form.elements;
  const ticket = { title: title.value.trim(), place: place.value.trim(), priority: priority.value, ...(photo && { photo }) };
  if (way() === "plain") {
    void submit(user(), ticket);
  } else {
    try {
      // A double click finds the form busy; the same words typed again are another ticket.
      busy = true;
      await client.enqueue({ url: "/api/tickets", json: ticket, label: ticket.title, another: true });
    } catch (error) {
      return trouble(`This ticket could not be kept on this device, so it was not sent: ${error.message}`);
    } finally {
      busy = false;
    }
  }
  say(`${ticket.title}: in the outbox.`);
  title.value = place.value = "";
  setPhoto(undefined);
  title.focus();
});

// Who is signed in.

$("user").value = user();
$("user").addEventListener("change", async ({ target }) => {
  localStorage.setItem(USER, target.value);
  await signIn(user()).catch(() => {});
  // As after any sign-in: another person's page begins anew, with that person's outbox.
  location.reload();
});
addEventListener("storage", ({ key }) => key === USER && location.reload());
addEventListener("sign-in", async () => {
  await signIn(user()).catch(() => {});
  await client.resume();
});

// The outbox.

$("clear").addEventListener("click", async () => {
  await Promise.all(client.outbox.getSnapshot().filter(settled).map(({ id }) => client.dismiss(id)));
  naive().filter(({ state }) => !["sending", "retrying"].includes(state)).forEach(({ id }) => drop(id));
  $("out-title").tabIndex = -1;
  $("out-title").focus();
});
const announce = (intent) => say(`${intent.label}: ${tell(intent, skew()).word}. ${tell(intent, skew()).text}`);
client.on("settled", (intent) => {
  announce(intent);
  void look();
});
client.on("attention", announce);
client.on("storage", ({ durability, reason }) => {
  if (durability === "memory") trouble(`This browser keeps nothing on disk (${reason}): what waits here is gone with the page.`);
});

client.outbox.subscribe(show);
deliveries.onDelivery(() => {
  show();
  void look();
});
onNaive(() => {
  show();
  void look();
});
onLedger(show);
onWorld(show);
makePanel(user);
showWay();
client.ready.then(() => {
  deliveries.forget(new Set(client.outbox.getSnapshot().map(({ id }) => id)));
  show();
  document.documentElement.dataset.ready = "true";
}, (error) => trouble(error.message));
void look();
setInterval(() => document.hidden || look(), LOOK_EVERY);

// The worker: the next visit needs no network, and a new version waits until somebody wants it.

if (navigator.serviceWorker) {
  let taken = Boolean(navigator.serviceWorker.controller);
  navigator.serviceWorker.addEventListener("controllerchange", () => (taken ? location.reload() : (taken = true)));
  const registration = await navigator.serviceWorker.register("/worker.js", { updateViaCache: "none" }).catch(() => undefined);
  const offer = () => ($("release").hidden = !(registration.waiting && navigator.serviceWorker.controller));
  const watch = (worker) => worker?.addEventListener("statechange", offer);
  if (registration) {
    watch(registration.installing);
    registration.addEventListener("updatefound", () => watch(registration.installing));
    offer();
    $("take-over").addEventListener("click", () => registration.waiting?.postMessage("take over"));
    document.addEventListener("visibilitychange", () => document.hidden || registration.update().catch(() => {}));
  }
}
