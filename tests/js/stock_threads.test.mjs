// A real bundle (its folder is in BUNDLE) with more threads than one, where that can be had and where it cannot.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { openBrowser } from "./browser.mjs";
import { cosine, embedHere, failureOf, ISOLATED, openSite, SHARED } from "./site.mjs";

const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const { runtimes } = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
const [first, whole] = [runtimes[0], runtimes.at(-1)];
let browser;

before(async () => (browser = await openBrowser(process.env.CHROMIUM)));
after(() => browser?.close());

function requireAlike(found, expected) {
  assert.equal(found.length, expected.length);
  for (const [index, vector] of found.entries()) assert.ok(cosine(vector, expected[index]) > 0.9999, golden.texts[index]);
}

test("two threads in an isolated page give the vectors of one, from the page's own host and from another", async () => {
  const [own, other] = [await openSite(bundle, ISOLATED), await openSite(bundle, SHARED)];
  const page = await browser.page(`${own.url}golden.json`);
  assert.equal(await page.run(() => crossOriginIsolated), true);
  const glueAsked = () => own.asked.filter((path) => path === `/${whole.glue.path}`).length;
  const one = await page.run(embedHere, own.url, golden.texts, { runtime: "stock", threads: 1, cache: false });
  const single = glueAsked();
  const two = await page.run(embedHere, own.url, golden.texts, { threads: 2, cache: false });
  assert.equal(glueAsked() - single, single + 1, "the second thread is a worker of its own, which asks for its code");
  const far = await page.run(embedHere, other.url, golden.texts, { threads: 2 });
  for (const { vectors, loaded } of [two, far]) {
    assert.equal(loaded.runtime, "stock");
    requireAlike(vectors, one.vectors);
  }
  await page.close();
  own.close();
  other.close();
});

test("by default an isolated page has one a processor, where that takes no other runtime than the first", async () => {
  const site = await openSite(bundle, ISOLATED);
  const page = await browser.page(`${site.url}golden.json`);
  const processors = await page.run(() => navigator.hardwareConcurrency);
  const { loaded } = await page.run(embedHere, site.url, golden.texts.slice(0, 8), { cache: false });
  assert.deepEqual([loaded.runtime, loaded.threads], [first.name, first.threads ? Math.min(4, processors) : 1]);
  await page.close();
  site.close();
});

test("without isolation they are refused in words", async () => {
  const site = await openSite(bundle);
  const page = await browser.page(`${site.url}golden.json`);
  assert.match(await page.run(failureOf, site.url, { threads: 2 }), /^UnsupportedError: .*cross-origin isolated page.*Cross-Origin-Opener-Policy/);
  await page.close();
  site.close();
});

test("in Node two threads give the vectors of one, from a folder and from an address", async () => {
  const site = await openSite(bundle);
  const folder = pathToFileURL(`${bundle}/`).href;
  const { load } = await import(`${folder}embed.mjs`);
  // The system's threads: those for files are all there once one embedder has read its own.
  const tasks = () => (process.platform === "linux" ? readdirSync("/proc/self/task").length : 0);
  const open = [await load(folder, { runtime: "stock" })];
  try {
    const expected = await open[0].embed(golden.texts);
    for (const url of [folder, site.url]) {
      const before = tasks();
      const two = await load(url, { threads: 2 });
      open.push(two);
      assert.ok(process.platform !== "linux" || tasks() >= before + 2, "the worker, and one more");
      requireAlike(await two.embed(golden.texts), expected);
    }
  } finally {
    open.forEach((each) => each.close());
    site.close();
  }
});
