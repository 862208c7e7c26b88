// Lets the page open without a network: its own few files are kept here, the model's in the loader's own cache.

// Other folders of the host may hold bundles, too, and other pages caches: only what is of this folder is looked at or removed.
const FOLDER = `edgepack-page:${registration.scope} `;
const CACHE = `${FOLDER}{{version}}`;
const SHELL = "{{shell}}";

self.addEventListener("install", (event) => {
  // The browser's own cache may hold what was here before: the host is asked whether that still is.
  const requests = SHELL.map((path) => new Request(path, { cache: "no-cache" }));
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(requests)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith(FOLDER) && name !== CACHE;
  event.waitUntil(
    caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))).then(() => self.clients.claim()),
  );
});

/**
 * Assets never change: the cache first, but for one that is asked for past caches, since what came was damaged. All else
 * is asked for, and taken from the cache where nobody answers. bundle.json is not kept here: a newer one than the model
 * would be of no use without a network; the loader keeps that of the files that it has.
 */
self.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  const folder = new URL(registration.scope).pathname;
  if (request.method !== "GET" || origin !== location.origin || !pathname.startsWith(folder)) return;
  if (!pathname.startsWith(`${folder}assets/`)) event.respondWith(fetch(request).catch(() => keptOrFail(request)));
  else if (request.cache === "reload") event.respondWith(fetchAndKeep(request));
  else event.respondWith(keptAsset(request).then((found) => found ?? fetchAndKeep(request)));
});

async function kept(request) {
  for (const cacheName of [CACHE, `edgepack:${registration.scope}`]) {
    const found = await caches.match(nameOf(request), { cacheName, ignoreSearch: true, ignoreVary: true }).catch(() => undefined);
    if (found) return found;
  }
  return undefined;
}

/**
 * A kept asset, as a page with isolation can use it: its browser starts no thread from a file that does not ask for isolation
 * too, and files in the loader's cache have no such header.
 */
async function keptAsset(request) {
  const found = await kept(request);
  if (!found) return undefined;
  const headers = new Headers(found.headers);
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  return new Response(found.body, { status: found.status, headers });
}

/** The page is kept once, as the folder: index.html is another name of it. */
const nameOf = ({ url }) => url.replace(/\/index\.html(?=$|[?#])/, "/");

async function keptOrFail(request) {
  return (await kept(request)) ?? Response.error();
}

/** Code is kept here; the model and the runtime are kept by the loader, which has checked them. */
async function fetchAndKeep(request) {
  const response = await fetch(request);
  if (response.status === 200 && !response.redirected && request.url.endsWith(".mjs")) {
    const copy = response.clone();
    caches.open(CACHE).then((cache) => cache.put(request, copy)).catch(() => {});
  }
  return response;
}
