import { createClient, unwrap } from "samekey";
import { fileStore } from "samekey/node";
const client = createClient({ account: "importer", baseUrl: "https://shop.example", store: fileStore({ dir: "./.samekey" }),
  headers: () => ({ authorization: `Bearer ${process.env["TOKEN"]}` }) });
try {
  await client.ready;                                          // what an earlier crashed run left is resumed with its keys
  for (const row of rows()) {
    const order = unwrap(await client.submit<{ id: string }>({ url: "/api/orders", json: row, slot: `row:${row.no}`, signal: AbortSignal.timeout(60_000) }));
    console.log(row.no, order.id);
  }
} finally { await client.close(); }
declare function rows(): { no: number }[];
