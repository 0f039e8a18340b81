// The module service worker of the app: it has no page functions, so it says for itself who is signed in.
import { installSamekey } from "/dist/sw.js";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.client = installSamekey({ account: "ann", headers: () => ({ "x-user": "ann", authorization: "Bearer good" }), retry: { baseDelay: 50, maxDelay: 300 } }).client;
