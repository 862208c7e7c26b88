// The service worker in Node, among caches and servers that are not its own: the script runs as it is, its surroundings are made here.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

const SCOPE = "https://host.example/a/";
const OWN = `edgepack-page:${SCOPE} 2`;
const source = readFileSync(new URL("../../plugins/edgepack_web/js/service-worker.js", import.meta.url), "utf8").replace("{{version}}", "2").replace('"{{shell}}"', '["./"]');

/** A worker of the folder `a`, `caches` as name -> address -> text, and what the network answers. */
function started(kept, answer = () => Response.error()) {
  const listeners = {};
  const store = new Map(Object.entries(kept).map(([name, files]) => [name, new Map(Object.entries(files))]));
  const caches = {
    keys: async () => [...store.keys()],
    delete: async (name) => store.delete(name),
    open: async (name) => ({
      put: async (request, response) => (store.get(name) ?? store.set(name, new Map()).get(name)).set(request.url, await response.text()),
    }),
    match: async (url, { cacheName }) => {
      for (const [name, files] of store) if ((cacheName === undefined || name === cacheName) && files.has(url)) return new Response(files.get(url));
      return undefined;
    },
  };
  const self = { addEventListener: (name, listener) => (listeners[name] = listener), clients: { claim: () => {} }, skipWaiting: () => {} };
  const location = new URL(SCOPE);
  runInNewContext(source, { self, caches, location, registration: { scope: SCOPE }, fetch: async (request) => answer(request), Request, Response, Headers, URL, Promise });
  const ask = async (path, init = {}) => {
    let given;
    const request = { url: new URL(path, SCOPE).href, method: "GET", cache: "default", ...init };
    listeners.fetch({ request, respondWith: (promise) => (given = promise) });
    const response = await given;
    // What is kept is kept meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 5));
    return response;
  };
  const activate = () => new Promise((resolve) => listeners.activate({ waitUntil: resolve }));
  return { ask, activate, store };
}

test("what is of other folders and pages stays when a new version comes", async () => {
  const { activate, store } = started({ [`edgepack-page:${SCOPE} 1`]: {}, [OWN]: {}, "edgepack-page:https://host.example/b/ 1": {}, [`edgepack-page:${SCOPE}b/ 1`]: {}, "edgepack:x": {}, mail: {} });
  await activate().then((done) => done);
  assert.deepEqual([...store.keys()], [OWN, "edgepack-page:https://host.example/b/ 1", `edgepack-page:${SCOPE}b/ 1`, "edgepack:x", "mail"]);
});

test("what another page of the host has kept under the same address is not given", async () => {
  const asset = `${SCOPE}assets/worker-1.mjs`;
  const { ask, store } = started({ mail: { [asset]: "theirs", [SCOPE]: "their page" } }, (request) => (request.url === asset ? new Response("ours") : Promise.reject(new Error("no network"))));
  assert.equal((await ask(SCOPE)).type, "error");
  assert.equal(await (await ask(asset)).text(), "ours");
  assert.equal(store.get(OWN).get(asset), "ours");
});

test("the folder's own are given without a network, those of the loader too", async () => {
  const { ask } = started({ [OWN]: { [SCOPE]: "page" }, [`edgepack:${SCOPE}`]: { [`${SCOPE}assets/model-1.bin`]: "model" } }, () => Promise.reject(new Error("no network")));
  assert.equal(await (await ask("index.html")).text(), "page");
  const model = await ask("assets/model-1.bin");
  assert.equal(await model.text(), "model");
  assert.equal(model.headers.get("cross-origin-embedder-policy"), "require-corp");
});

test("a damaged asset is replaced where it is asked for past caches", async () => {
  const asset = `${SCOPE}assets/worker-1.mjs`;
  const { ask, store } = started({ [OWN]: { [asset]: "<html>log in" } }, () => new Response("code"));
  assert.equal(await (await ask(asset)).text(), "<html>log in");
  assert.equal(await (await ask(asset, { cache: "reload" })).text(), "code");
  assert.equal(store.get(OWN).get(asset), "code");
});

const redirected = () => Object.defineProperty(new Response("elsewhere"), "redirected", { value: true });
const opaque = () => Object.defineProperties(new Response("?"), { status: { value: 0 }, type: { value: "opaque" } });
for (const [name, make] of [["a part", () => new Response("par", { status: 206 })], ["a page of errors", () => new Response("no", { status: 404 })], ["what another address gave", redirected], ["an opaque answer", opaque]])
  test(`${name} is not kept`, async () => {
    const { ask, store } = started({}, make);
    await ask("assets/worker-1.mjs");
    assert.equal(store.get(OWN)?.size ?? 0, 0);
  });

test("nothing is answered for other folders, origins and methods", async () => {
  const { ask } = started({}, () => new Response("x"));
  for (const [path, init] of [["../b/assets/x.mjs"], ["https://other.example/a/"], ["../a"], ["assets/../../b/x"], ["assets/%2e%2e/%2e%2e/b/x"], ["", { method: "POST" }]]) assert.equal(await ask(path, init), undefined, path);
});
