// A real bundle (its folder is in BUNDLE) in a real browser (CHROMIUM), from servers that behave and that do not.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";

const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript", css: "text/css", wasm: "application/wasm", json: "application/json" };
const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const texts = process.env.TEXTS ? JSON.parse(readFileSync(process.env.TEXTS, "utf8")) : golden.texts;
let browser;
let host;
let other;
let meddle = () => false;
let asked = [];

/** A host that neither compresses nor knows ranges; `meddle` may answer in its place. */
function serve(headers) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://x").pathname).replace(/^\/$/, "/index.html");
    asked.push(path);
    if (meddle(path, response)) return;
    const file = join(bundle, path);
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    const body = readFileSync(file);
    const type = TYPES[path.split(".").pop()] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-length": body.length, "cache-control": "no-store", ...headers }).end(body);
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, url: `http://127.0.0.1:${server.address().port}/` })));
}

before(async () => {
  host = await serve({});
  other = await serve({ "access-control-allow-origin": "*" });
  browser = await openBrowser(process.env.CHROMIUM);
});
after(async () => {
  await browser?.close();
  for (const each of [host, other]) {
    each?.server.closeAllConnections();
    each?.server.close();
  }
});

const embedHere = async (url, list) => {
  const { load } = await import(`${url}embed.mjs`);
  const embedder = await load(url);
  const vectors = await embedder.embed(list);
  return { vectors: vectors.map((vector) => Array.from(vector)), loaded: embedder.loaded };
};

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, at) => sum + value * y[at], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

test("the page loads, searches and asks nobody else for anything", async () => {
  const page = await browser.page(host.url);
  await page.until(() => document.getElementById("results").children.length === 5);
  const [first, origins] = await page.run(() => [
    document.querySelector("#results li span").textContent,
    [...new Set(performance.getEntriesByType("resource").map(({ name }) => new URL(name).origin))],
  ]);
  assert.match(first, /factory settings/);
  assert.deepEqual(origins, [new URL(host.url).origin]);
  assert.match(await page.run(() => document.getElementById("state").textContent), /^ready/);
  await page.close();
});

test("vectors are those of the build, from a host that does not compress: the gzipped copies are asked for", async () => {
  const page = await browser.page(`${host.url}golden.json`);
  const { vectors } = await page.run(embedHere, host.url, texts);
  if (!process.env.TEXTS) for (const [index, vector] of vectors.entries()) assert.ok(cosine(vector, golden.vectors[index]) >= golden.tolerance);
  assert.equal(vectors.length, texts.length);
  if (process.env.VECTORS) (await import("node:fs")).writeFileSync(process.env.VECTORS, JSON.stringify(vectors));
  assert.ok(asked.some((path) => /model-1.*\.(gz|br)$/.test(path)), "a compressed copy was asked for");
  await page.close();
});

test("the second visit needs none of the model's files, and without a network the page still opens", async () => {
  const page = await browser.page(host.url);
  await page.until(() => /^ready/.test(document.getElementById("state").textContent));
  await page.until(async () => (await navigator.serviceWorker.ready).active?.state === "activated");
  asked = [];
  await page.send("Page.reload", {});
  await page.until(() => /^ready/.test(document.getElementById("state")?.textContent));
  assert.deepEqual(asked.filter((path) => /model|\.wasm|tokenizer/.test(path)), []);
  meddle = (path, response) => (response.destroy(), true);
  await page.send("Page.reload", {});
  await page.until(() => /^ready/.test(document.getElementById("state")?.textContent) && document.getElementById("results").children.length === 5);
  meddle = () => false;
  await page.close();
});

test("a page of another origin needs nothing but CORS", { skip: "not seen to pass yet" }, async () => {
  const page = await browser.page(`${host.url}golden.json`);
  const { vectors } = await page.run(embedHere, other.url, golden.texts.slice(0, 2));
  assert.ok(cosine(vectors[0], golden.vectors[0]) >= golden.tolerance);
  await page.close();
});

test("two tabs at once download everything once", async () => {
  const fresh = await serve({});
  asked = [];
  const pages = [await browser.page(`${fresh.url}golden.json`), await browser.page(`${fresh.url}golden.json`)];
  const both = await Promise.all(pages.map((page) => page.run(embedHere, fresh.url, ["a cat"])));
  assert.deepEqual(both[0].vectors, both[1].vectors);
  const models = asked.filter((path) => /model-1\..*\.(gz|br)$/.test(path));
  assert.equal(models.length, 1);
  await Promise.all(pages.map((page) => page.close()));
  fresh.server.closeAllConnections();
  fresh.server.close();
});

test("a connection lost in the middle, a damaged file, and a changed model", async () => {
  const fresh = await serve({});
  const failed = async (url) => {
    const { load } = await import(`${url}embed.mjs`);
    return load(url).then(() => "loaded", (error) => `${error.name}: ${error.message}`);
  };
  let lost = 0;
  meddle = (path, response) => {
    if (!/model-2\./.test(path) || lost++ > 0) return false;
    response.writeHead(200, { "content-length": 4_000_000 });
    response.write(Buffer.alloc(100_000), () => setTimeout(() => response.destroy(), 50));
    return true;
  };
  let page = await browser.page(`${fresh.url}golden.json`);
  assert.equal(await page.run(failed, fresh.url), "loaded");
  assert.ok(lost > 1);
  await page.close();

  // Another version is on the host, and one of its files is damaged: it is named, and what was there before is still whole.
  const changed = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
  const piece = changed.model.parts[0];
  const moved = piece.path.replace("model-1.", "model-1.new");
  changed.assets = changed.assets.map((path) => (path === piece.path ? moved : path));
  changed.model.parts[0] = { ...piece, path: moved };
  const answers = { damaged: true };
  meddle = (path, response) => {
    if (path === "/bundle.json") return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(changed)), true;
    if (!path.startsWith(`/${moved}`)) return false;
    const body = Buffer.from(readFileSync(join(bundle, piece.path)));
    if (answers.damaged) body[1000] ^= 1;
    return response.writeHead(path === `/${moved}` ? 200 : 404, { "content-length": body.length }).end(body), true;
  };
  changed.model.parts[0].gzip = changed.model.parts[0].brotli = undefined;
  page = await browser.page(`${fresh.url}golden.json`);
  assert.match(await page.run(failed, fresh.url), /^IntegrityError: .*model-1\.new.* is damaged/);
  answers.damaged = false;
  asked = [];
  assert.equal(await page.run(failed, fresh.url), "loaded");
  assert.deepEqual(asked.filter((path) => /model/.test(path)), [`/${moved}`], "only what has changed was fetched");
  const kept = await page.run(async (url) => (await (await caches.open(`edgepack:${url}`)).keys()).map((request) => request.url), fresh.url);
  assert.ok(kept.some((url) => url.includes(moved)) && !kept.some((url) => url.endsWith(piece.path)), "the old version has left the cache");
  meddle = () => false;
  await page.close();
  fresh.server.closeAllConnections();
  fresh.server.close();
});

test("a trapped function restarts the worker on the whole runtime, and the question is answered", async (context) => {
  const document = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
  const whole = document.runtimes.find(({ name }) => name === "stock");
  const glue = readFileSync(join(bundle, whole.glue.path), "utf8");
  // A runtime that traps when it is to run: the whole one with one function of the C API exchanged.
  const trap = `const made = ${glue.match(/export default (\w+)/)[1]};\nexport default async (options) => Object.assign(await made(options), { _OrtRun: () => new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,5,1,1,102,0,0,10,5,1,3,0,0,11]))).exports.f() });\n`;
  const content = Buffer.from(glue.replace(/export default \w+;/, trap));
  const { createHash } = await import("node:crypto");
  const broken = { path: "assets/broken.mjs", size: content.length, integrity: `sha256-${createHash("sha256").update(content).digest("base64")}` };
  document.runtimes = [{ ...whole, name: "stub", glue: broken }, whole];
  const fresh = await serve({});
  meddle = (path, response) => {
    const body = path === "/bundle.json" ? JSON.stringify(document) : path === "/assets/broken.mjs" ? content : undefined;
    if (body === undefined) return false;
    return response.writeHead(200, { "content-type": path.endsWith("json") ? "application/json" : "text/javascript" }).end(body), true;
  };
  const page = await browser.page(`${fresh.url}golden.json`);
  const { vectors, loaded } = await page.run(embedHere, fresh.url, golden.texts.slice(0, 2));
  assert.equal(loaded.runtime, "stock");
  assert.ok(cosine(vectors[1], golden.vectors[1]) >= golden.tolerance);
  meddle = () => false;
  await page.close();
  fresh.server.closeAllConnections();
  fresh.server.close();
});

test("threads without isolation are refused in words", async () => {
  const page = await browser.page(`${host.url}golden.json`);
  const said = await page.run(async (url) => {
    const { load } = await import(`${url}embed.mjs`);
    return load(url, { threads: 2 }).then(() => "loaded", (error) => error.message);
  }, host.url);
  assert.match(said, /cross-origin isolated page.*Cross-Origin-Opener-Policy/);
  await page.close();
});
