// A real bundle (its folder is in BUNDLE) in a real browser (BROWSER), from servers that behave and that do not.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { cosine, embedHere, failureOf, keptOf, openSite, SHARED } from "./site.mjs";

const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const texts = process.env.TEXTS ? JSON.parse(readFileSync(process.env.TEXTS, "utf8")) : golden.texts;
let browser;
let host;
let other;

before(async () => {
  host = await openSite(bundle);
  other = await openSite(bundle, SHARED);
  browser = await openBrowser(process.env.BROWSER);
});
after(async () => {
  await browser?.close();
  host?.close();
  other?.close();
});

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
  assert.ok(host.asked.some((path) => /model-1.*\.(gz|br)$/.test(path)), "a compressed copy was asked for");
  await page.close();
});

test("the second visit needs none of the model's files, and without a network the page still opens", async () => {
  const page = await browser.page(host.url);
  await page.until(() => /^ready/.test(document.getElementById("state").textContent));
  await page.until(async () => (await navigator.serviceWorker.ready).active?.state === "activated");
  host.asked = [];
  await page.reload();
  await page.until(() => /^ready/.test(document.getElementById("state")?.textContent));
  assert.deepEqual(host.asked.filter((path) => /model|\.wasm|tokenizer/.test(path)), []);
  // Cache Storage can be cleared alone; the next visit keeps again what one without a network needs.
  await page.run(() => caches.delete(`edgepack:${location.href}`));
  await page.reload();
  await page.until(async () => !!(await caches.match(new URL("bundle.json", location.href))));
  host.meddle = (path, response) => (response.destroy(), true);
  await page.reload();
  await page.until(() => /^ready/.test(document.getElementById("state")?.textContent) && document.getElementById("results").children.length === 5);
  host.meddle = () => false;
  await page.close();
});

test("a page of another origin needs nothing but CORS", async () => {
  const page = await browser.page(`${host.url}golden.json`);
  const { vectors } = await page.run(embedHere, other.url, golden.texts.slice(0, 2));
  assert.ok(cosine(vectors[0], golden.vectors[0]) >= golden.tolerance);
  await page.close();
});

test("two tabs at once download everything once", async () => {
  const fresh = await openSite(bundle);
  const pages = [await browser.page(`${fresh.url}golden.json`), await browser.page(`${fresh.url}golden.json`)];
  const both = await Promise.all(pages.map((page) => page.run(embedHere, fresh.url, ["a cat"])));
  assert.deepEqual(both[0].vectors, both[1].vectors);
  const models = fresh.asked.filter((path) => /model-1\..*\.(gz|br)$/.test(path));
  assert.equal(models.length, 1);
  await Promise.all(pages.map((page) => page.close()));
  fresh.close();
});

// Of what a WebKit under WebDriver keeps, large files go with the page: there is nothing that a change could leave alone.
const skip = /WebKit/.test(process.env.BROWSER);
test("a connection lost in the middle, a damaged file, and a changed model", { skip }, async () => {
  const fresh = await openSite(bundle);
  let lost = 0;
  fresh.meddle = (path, response) => {
    if (!/model-2\./.test(path) || lost++ > 0) return false;
    response.writeHead(200, { "content-length": 4_000_000 });
    response.write(Buffer.alloc(100_000), () => setTimeout(() => response.destroy(), 50));
    return true;
  };
  let page = await browser.page(`${fresh.url}golden.json`);
  assert.equal(await page.run(failureOf, fresh.url), "loaded");
  assert.ok(lost > 1);
  await page.close();

  // Another version is on the host, and one of its files is damaged: it is named, and what was there before is still whole.
  const changed = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
  const piece = changed.model.parts[0];
  const moved = piece.path.replace("model-1.", "model-1.new");
  changed.assets = changed.assets.map((path) => (path === piece.path ? moved : path));
  changed.model.parts[0] = { ...piece, path: moved };
  const answers = { damaged: true };
  fresh.meddle = (path, response) => {
    if (path === "/bundle.json") return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(changed)), true;
    if (!path.startsWith(`/${moved}`)) return false;
    const body = Buffer.from(readFileSync(join(bundle, piece.path)));
    if (answers.damaged) body[1000] ^= 1;
    return response.writeHead(path === `/${moved}` ? 200 : 404, { "content-length": body.length }).end(body), true;
  };
  changed.model.parts[0].gzip = changed.model.parts[0].brotli = undefined;
  page = await browser.page(`${fresh.url}golden.json`);
  assert.match(await page.run(failureOf, fresh.url), /^IntegrityError: .*model-1\.new.* is damaged/);
  answers.damaged = false;
  fresh.asked = [];
  assert.equal(await page.run(failureOf, fresh.url), "loaded");
  assert.deepEqual(fresh.asked.filter((path) => /model/.test(path)), [`/${moved}`], "only what has changed was fetched");
  const kept = await page.run(keptOf, fresh.url);
  const name = (path) => path.split("/").pop();
  assert.ok(kept.includes(name(moved)) && !kept.includes(name(piece.path)), "the old version is kept no longer");
  await page.close();
  fresh.close();
});
