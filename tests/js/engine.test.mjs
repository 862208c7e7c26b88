// A bundle on edgepack's engine (its folder is in BUNDLE) in a real browser (BROWSER); the golden texts' vectors are written to VECTORS.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { embedHere, failureOf, openSite } from "./site.mjs";

const bundle = process.env.BUNDLE;
const { texts } = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
let browser;
let host;

before(async () => {
  host = await openSite(bundle);
  browser = await openBrowser(process.env.BROWSER);
});
after(async () => {
  await browser?.close();
  host?.close();
});

test("the demonstration searches", async () => {
  const page = await browser.page(host.url);
  await page.until(() => document.getElementById("results").children.length === 5);
  await page.close();
});

test("a second visit has the same vectors, of files that are kept", async () => {
  const found = [];
  for (let visit = 0; visit < 2; visit++) {
    host.asked = [];
    const page = await browser.page(`${host.url}golden.json`);
    const { vectors, loaded } = await page.run(embedHere, host.url, texts);
    assert.equal(loaded.runtime, "engine");
    found.push(vectors);
    await page.close();
  }
  assert.deepEqual(host.asked.filter((path) => /model|\.wasm|\.table/.test(path)), []);
  assert.deepEqual(found[0], found[1]);
  writeFileSync(process.env.VECTORS, JSON.stringify(found[0]));
});

test("what it has not is refused by name", async () => {
  const page = await browser.page(`${host.url}golden.json`);
  assert.match(await page.run(failureOf, host.url, { runtime: "webgpu" }), /^RangeError: this bundle has no runtime webgpu: it has engine/);
  assert.match(await page.run(failureOf, host.url, { threads: 2 }), /^UnsupportedError: this bundle's runtime has one thread/);
  await page.close();
});
