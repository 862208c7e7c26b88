// A bundle's folder on the loopback, as a host would serve it that behaves, or that does not.
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript", css: "text/css", wasm: "application/wasm", json: "application/json" };
export const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp", "cross-origin-resource-policy": "cross-origin" };
export const SHARED = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

/**
 * A host that neither compresses nor knows ranges. `asked` are the paths so far; `meddle(path, response)` may answer in its
 * place, and says so by `true`.
 */
export async function openSite(folder, headers = {}) {
  const site = { asked: [], meddle: () => false };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://x").pathname).replace(/\/$/, "/index.html");
    site.asked.push(path);
    if (site.meddle(path, response)) return;
    const file = join(folder, path);
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404, headers).end();
    const body = readFileSync(file);
    const type = TYPES[path.split(".").pop()] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-length": body.length, "cache-control": "no-store", ...headers }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  site.url = `http://127.0.0.1:${server.address().port}/`;
  site.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return site;
}

export function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, at) => sum + value * y[at], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** In a page: vectors of texts as plain arrays, and how loading went. */
export const embedHere = async (url, list, options) => {
  const { load } = await import(`${url}embed.mjs`);
  const embedder = await load(url, options);
  const vectors = await embedder.embed(list);
  return { vectors: vectors.map((vector) => Array.from(vector)), loaded: embedder.loaded };
};

/** In a page: what loading says where it fails. */
export const failureOf = async (url, options) => {
  const { load } = await import(`${url}embed.mjs`);
  return load(url, options).then(() => "loaded", (error) => `${error.name}: ${error.message}`);
};

/** In a page: names of what the browser keeps of a bundle, in Cache Storage and in files of the origin's. */
export const keptOf = async (url) => {
  const cached = await (await caches.open(`edgepack:${url}`)).keys();
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle(`edgepack:${encodeURIComponent(url)}`).catch(() => undefined);
  const names = cached.map((request) => request.url.split("/").pop());
  for await (const name of folder?.keys() ?? []) names.push(name);
  return names;
};
