// A real bundle with a WebGPU runtime (its folder is in BUNDLE), in a browser whose GPU is a program (SwiftShader), and in one
// that has none. What the processor makes of the same model is in golden-webgpu.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { cosine, embedHere, failureOf, openSite } from "./site.mjs";

const bundle = process.env.BUNDLE;
const { runtimes } = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
const gpu = runtimes.at(-1);
const golden = JSON.parse(readFileSync(join(bundle, gpu.golden.path), "utf8"));
const ALIKE = 0.99999;
let site;
let browser;
let without;

before(async () => {
  site = await openSite(bundle);
  browser = await openBrowser(process.env.CHROMIUM, { flags: ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"] });
  without = await openBrowser(process.env.CHROMIUM, { flags: ["--disable-features=WebGPU"] });
});
after(async () => {
  await browser?.close();
  await without?.close();
  site?.close();
});

test("a GPU gives each text, alone and among others, the vector that the processor gives it", async () => {
  const page = await browser.page(`${site.url}golden.json`);
  const { vectors, loaded } = await page.run(embedHere, site.url, golden.texts, { runtime: "webgpu" });
  assert.equal(loaded.runtime, "webgpu");
  vectors.forEach((vector, index) => assert.ok(cosine(vector, golden.vectors[index]) >= ALIKE, `${index}: ${cosine(vector, golden.vectors[index])}`));
  const alone = await page.run(
    async (url, texts) => {
      const { load } = await import(`${url}embed.mjs`);
      const embedder = await load(url, { runtime: "webgpu" });
      const vectors = [];
      for (const text of texts) vectors.push(Array.from((await embedder.embed(text))[0]));
      return { vectors, test: await embedder.selfTest(), info: embedder.info };
    },
    site.url,
    golden.texts.slice(0, 4),
  );
  alone.vectors.forEach((vector, index) => assert.ok(cosine(vector, golden.vectors[index]) >= ALIKE, `alone ${index}`));
  assert.ok(alone.test.passed && alone.test.lowest >= ALIKE, `self-test ${alone.test.lowest}`);
  assert.deepEqual(alone.info.runtimes, runtimes.map(({ name }) => name));
  assert.deepEqual(alone.info.downloads, gpu.downloads);
  await page.close();
});

test("nothing of it is fetched by who does not name it", async () => {
  site.asked = [];
  const page = await browser.page(`${site.url}golden.json`);
  const { loaded } = await page.run(embedHere, site.url, ["a"], { cache: false });
  assert.equal(loaded.runtime, runtimes[0].name);
  assert.deepEqual(site.asked.filter((path) => path.includes("webgpu")), []);
  await page.close();
});

test("the demonstration computes with it where its address says so, and leads there", async () => {
  const page = await browser.page(site.url);
  const hidden = () => (/^ready/.test(document.getElementById("state").textContent) ? String(document.getElementById("gpu").hidden) : undefined);
  assert.equal(await page.until(hidden), "false");
  await page.close();
  const other = await browser.page(`${site.url}?runtime=webgpu`);
  assert.equal(await other.until(hidden), "true");
  await other.until(() => document.getElementById("results").children.length === 5);
  assert.match(await other.run(() => document.getElementById("cost").textContent), /runtimewebgpu/);
  await other.close();
});

test("without a GPU it is refused in words, and the demonstration says that it goes on in WebAssembly", async () => {
  const page = await without.page(`${site.url}golden.json`);
  assert.match(await page.run(failureOf, site.url, { runtime: "webgpu" }), /^UnsupportedError: no GPU can be had here/);
  await page.close();
  const shown = await without.page(`${site.url}?runtime=webgpu`);
  await shown.until(() => document.getElementById("results").children.length === 5);
  const said = await shown.run(() => document.getElementById("state").textContent);
  assert.match(said, /no GPU can be had here.*The runtime is /);
  assert.equal(await shown.run(() => document.getElementById("gpu").hidden), true);
  await shown.close();
});
