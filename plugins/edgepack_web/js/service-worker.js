// Lets the page open without a network: its own few files are kept here, the model's in the loader's own cache.

const CACHE = "edgepack-page-{{version}}";
const SHELL = "{{shell}}";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("edgepack-page-") && name !== CACHE;
  event.waitUntil(
    caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))).then(() => self.clients.claim()),
  );
});

/** Assets never change: the cache first. All else is asked for, and taken from the cache where nobody answers. */
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  const asset = new URL(request.url).pathname.startsWith(new URL("assets/", registration.scope).pathname);
  event.respondWith(asset ? kept(request).then((found) => found ?? fetchAndKeep(request)) : fetch(request).catch(() => keptOrFail(request)));
});

const kept = (request) => caches.match(nameOf(request), { ignoreSearch: true, ignoreVary: true });

/** The page is kept once, as the folder: index.html is another name of it. */
const nameOf = ({ url }) => url.replace(/\/index\.html(?=$|[?#])/, "/");

async function keptOrFail(request) {
  return (await kept(request)) ?? Response.error();
}

/** Code is kept here; the model and the runtime are kept by the loader, which has checked them. */
async function fetchAndKeep(request) {
  const response = await fetch(request);
  if (response.ok && request.url.endsWith(".mjs")) (await caches.open(CACHE)).put(request, response.clone());
  return response;
}
