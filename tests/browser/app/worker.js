// The same as a classic worker.
importScripts("/dist/samekey.iife.js");

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.client = samekey.installSamekey({ account: "ann", headers: () => ({ "x-user": "ann", authorization: "Bearer good" }), retry: { baseDelay: 50, maxDelay: 300 } }).client;
