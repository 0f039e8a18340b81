import ky from "ky"; import axios from "axios";
import { isSamekeyError } from "samekey";
import { client } from "./client.js";
export const api = ky.create({ prefixUrl: "https://shop.example/", fetch: client.fetch, timeout: false, retry: 0 });
export const http = axios.create({ baseURL: "https://shop.example/", adapter: "fetch", env: { fetch: client.fetch } });
export async function order(cart: unknown) {
  try { return await api.post("api/orders", { json: cart }).json<{ id: string }>(); }
  catch (error) {                                     // axios: same code, the helper looks through `cause`
    if (isSamekeyError(error, "samekey/pending")) return { pending: error.intent!.id };
    throw error;
  }
}
