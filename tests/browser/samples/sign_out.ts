import { client } from "./client.js";
export async function logOut() {
  const open = client.outbox.getSnapshot().filter((i) => ["queued", "sending", "waiting", "unknown", "stalled"].includes(i.state));
  const shared = open.length > 0 && !confirm(`${open.length} things are not confirmed. Keep them on this device for your next sign-in?`);
  await client.signOut({ unresolved: shared ? "discard" : "keep" });
  location.assign("/login");
}
