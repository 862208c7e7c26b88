// A bundle with the runtime that has threads (its folder is in BUNDLE), in a real browser (CHROMIUM) and in Node.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { openBrowser } from "./browser.mjs";

const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript", wasm: "application/wasm", json: "application/json" };
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const texts = golden.texts.slice(0, 24);
let browser;
let alone;
let page;
let other;
let asked = [];

function serve(headers) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://x").pathname);
    asked.push(path);
    if (path === "/") return response.writeHead(200, { "content-type": "text/html", ...headers }).end("<!doctype html>");
    const file = join(bundle, path);
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    const type = TYPES[path.split(".").pop()] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, ...headers }).end(readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, url: `http://127.0.0.1:${server.address().port}/` })));
}

before(async () => {
  alone = await serve({});
  page = await serve(ISOLATED);
  other = await serve({ "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" });
  browser = await openBrowser(process.env.CHROMIUM);
});
after(async () => {
  await browser?.close();
  for (const each of [alone, page, other]) {
    each?.server.closeAllConnections();
    each?.server.close();
  }
});

const embedHere = async (url, list, options) => {
  const { load } = await import(`${url}embed.mjs`);
  const embedder = await load(url, options);
  const vectors = await embedder.embed(list);
  const found = { vectors: vectors.map((vector) => Array.from(vector)), runtime: embedder.loaded.runtime, threads: embedder.loaded.threads };
  embedder.close();
  return found;
};

function assertGolden(vectors) {
  vectors.forEach((vector, row) => {
    const wanted = golden.vectors[row];
    const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
    const cosine = dot(vector, wanted) / Math.sqrt(dot(vector, vector) * dot(wanted, wanted));
    assert.ok(cosine >= golden.tolerance, `text ${row}: ${cosine}`);
  });
}

for (const threads of [2, 4])
  for (const from of ["its own origin", "another origin"])
    test(`${threads} threads in an isolated page, the bundle from ${from}`, async () => {
      asked = [];
      const tab = await browser.page(page.url);
      const { vectors, runtime } = await tab.run(embedHere, from === "another origin" ? other.url : page.url, texts, { threads });
      assert.equal(runtime, "reduced-threads");
      assertGolden(vectors);
      assert.ok(!asked.some((path) => path.includes("ort-reduced.")), "the runtime without threads is not fetched");
      await tab.close();
    });

test("an isolated page that asks for no number gets the runtime with threads", async () => {
  asked = [];
  const tab = await browser.page(page.url);
  const processors = await tab.run(() => navigator.hardwareConcurrency);
  const { vectors, runtime, threads } = await tab.run(embedHere, page.url, texts, {});
  assert.deepEqual([runtime, threads], processors > 1 ? ["reduced-threads", Math.min(4, processors)] : ["reduced", 1]);
  assertGolden(vectors);
  await tab.close();
});

for (const [name, where, options] of [
  ["asks for one thread", () => page, { threads: 1 }],
  ["is not isolated", () => alone, {}],
])
  test(`a page that ${name} gets the runtime without them`, async () => {
    asked = [];
    const { url } = where();
    const tab = await browser.page(url);
    const { vectors, runtime, threads } = await tab.run(embedHere, url, texts, options);
    assert.deepEqual([runtime, threads], ["reduced", 1]);
    assertGolden(vectors);
    assert.ok(!asked.some((path) => path.includes("threads")));
    await tab.close();
  });

test("a page that is not isolated is told what it takes", async () => {
  const tab = await browser.page(alone.url);
  await assert.rejects(tab.run(embedHere, alone.url, texts, { threads: 2 }), /cross-origin isolated/);
  await tab.close();
});

test("several threads in Node, and the program ends", async () => {
  const { load } = await import(pathToFileURL(join(bundle, "embed.mjs")).href);
  const one = await (await load(undefined, { threads: 1 })).embed(texts);
  for (const threads of [2, 4]) {
    const embedder = await load(undefined, { threads });
    assert.equal(embedder.loaded.runtime, "reduced-threads");
    const vectors = await embedder.embed(texts);
    vectors.forEach((vector, row) => assert.ok(vector.every((value, at) => Math.abs(value - one[row][at]) < 1e-6)));
    embedder.close();
  }
});
