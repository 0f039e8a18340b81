import { createClient } from "samekey";
export const client = createClient({
  account: () => session()?.userId ?? null,
  headers: () => ({ authorization: `Bearer ${session()?.token ?? ""}` }),
  refreshAuth: async () => refresh(),
  operations: {
    "orders.create": { match: "POST /api/orders", significant: { exclude: ["/ui"] } },
    "orders.pay": { match: "POST /api/orders/:id/pay", retry: { budget: 15 * 60_000 } },
  },
});
declare function session(): { userId: string; token: string } | undefined;
declare function refresh(): Promise<boolean>;
