// The operator's page: numbers and records of one server, for whoever has a token.
import { $ } from "./parts.js";
import { keep, onToken, token } from "./api.js";
import { EVERY, look } from "./numbers.js";
import { list, onFailure, refresh, showStates, start } from "./records.js";

function trouble(error) {
  $("trouble").textContent = error?.message ?? "";
  $("trouble").hidden = !error;
}
onFailure(trouble);

function showDoor() {
  const known = Boolean(token());
  $("sign-in").hidden = known;
  $("work").hidden = $("leave").hidden = !known;
  $("link").hidden = known;
  if (!known) $("token").focus();
}

async function turn() {
  if (token() && !document.hidden) {
    try {
      showStates(await look());
      await refresh();
      $("link").hidden = true;
    } catch (error) {
      trouble(error);
    }
  }
  setTimeout(turn, EVERY);
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keep($("token").value.trim());
  $("token").value = "";
  trouble();
  void look().then(showStates).then(list).catch(trouble);
});
$("leave").addEventListener("click", () => keep(""));
onToken(showDoor);
start();
showStates({});
showDoor();
if (token()) void list();
void turn();
