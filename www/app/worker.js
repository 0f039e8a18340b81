// Keeps the app's files, so that it opens without a network. Commands are not its business: the client keeps those.
// RELEASE stands in a line before this one, written by the server: { version, files }.
const { version, files } = self.RELEASE;
const NAME = `tickets-${version}`;
const path = (name) => (name === "index.html" ? "/" : `/${name}`);
const mine = new Set(files.map(path));

self.addEventListener("install", (event) => {
  const fresh = files.map((name) => new Request(path(name), { cache: "no-cache" }));
  event.waitUntil(caches.open(NAME).then((cache) => cache.addAll(fresh)));
});

self.addEventListener("activate", (event) => {
  const clean = async () => {
    const old = (await caches.keys()).filter((name) => name.startsWith("tickets-") && name !== NAME);
    await Promise.all(old.map((name) => caches.delete(name)));
    await self.clients.claim();
  };
  event.waitUntil(clean());
});

self.addEventListener("message", ({ data }) => {
  if (data === "take over") self.skipWaiting();
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || !mine.has(url.pathname)) return;
  event.respondWith(caches.open(NAME).then((cache) => cache.match(url.pathname)).then((kept) => kept ?? fetch(event.request)));
});
