import { useSyncExternalStore } from "react";
import { QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { unwrap, isSamekeyError, type Intent } from "samekey";
import { client } from "./client.js";
type Order = { id: string }; type Cart = { id: string; lines: string[] };
export const queryClient = new QueryClient({ defaultOptions: { mutations: { networkMode: "always", retry: false } } });
export function OrderButton({ cart }: { cart: Cart }) {
  const queries = useQueryClient();
  const order = useMutation({
    mutationFn: async (c: Cart) => unwrap(await client.submit<Order>({
      operation: "orders.create", url: "/api/orders", json: c, slot: `cart:${c.id}`, label: `Order of ${c.lines.length} items`,
    })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["orders"] }),
  });
  return (<>
    <button disabled={order.isPending} onClick={() => order.mutate(cart)}>Order</button>
    {isSamekeyError(order.error, "samekey/outcome") && <p role="alert">{text(order.error.intent!)}</p>}
  </>);
}
export function Outbox() {
  const intents = useSyncExternalStore(client.outbox.subscribe, client.outbox.getSnapshot, client.outbox.getServerSnapshot);
  return <ul>{intents.map((i) => <li key={i.id}>
    {i.label ?? i.operation}: {text(i)}
    {i.state === "stalled" && <button onClick={() => client.resume(i.id)}>Go on trying</button>}
    {i.state === "expired" && <button onClick={() => confirm("This may order twice.") && client.resume(i.id, { acceptRisk: "may_double" })}>Send anyway</button>}
    {!i.maybeSent && <button onClick={() => client.cancel(i.id)}>Cancel</button>}
    {(i.state === "failed" || i.state === "conflict" || i.state === "unknown") && <button onClick={() => client.dismiss(i.id)}>Dismiss</button>}
  </li>)}</ul>;
}
function text(i: Intent): string {
  switch (i.state) {
    case "queued": case "sending": return "on its way";
    case "waiting": return i.waitingFor === "network" ? "saved, waiting for the network" : `next try ${new Date(i.nextAttemptAt ?? 0).toLocaleTimeString()}`;
    case "needs_auth": return "sign in to send";
    case "unknown": return "sent, answer lost: being checked";
    case "stalled": return "not confirmed yet";
    case "failed": return i.effect === "unknown" ? "the server failed half-way: check before sending again" : "refused";
    case "expired": return "too late to repeat safely"; case "conflict": return "changed after it was sent";
    case "done": case "cancelled": return i.state;
  }
}
