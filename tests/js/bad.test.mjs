// A bundle (its folder is in BUNDLE) in a real browser where something is not as it should be.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { cosine, embedHere, failureOf, keptOf, openSite, SHARED } from "./site.mjs";

const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const document_ = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
let browser;

before(async () => (browser = await openBrowser(process.env.CHROMIUM, { flags: ["--host-resolver-rules=MAP plain.test 127.0.0.1"] })));
after(() => browser?.close());

/** A page of a site of its own, and what is left of both when the action is done. */
async function onPage(headers, action, path = "golden.json") {
  const site = await openSite(bundle, headers);
  const page = await browser.page(`${site.url}${path}`);
  try {
    await action(page, site);
  } finally {
    await page.close();
    site.close();
  }
}

const requireRight = (vectors) => vectors.forEach((vector, at) => assert.ok(cosine(vector, golden.vectors[at]) >= golden.tolerance));

test("a browser without WebAssembly SIMD is told which ones have it", async () => {
  const old = await openBrowser(process.env.CHROMIUM, { flags: ["--js-flags=--no-enable-sse4-1 --no-enable-ssse3 --no-enable-avx"] });
  const site = await openSite(bundle);
  try {
    const page = await old.page(`${site.url}golden.json`);
    assert.match(await page.run(failureOf, site.url), /^UnsupportedError: .*no WebAssembly SIMD.*Chrome 91/);
    assert.deepEqual(site.asked.filter((path) => /assets/.test(path)), [], "before anything is downloaded");
  } finally {
    await old.close();
    site.close();
  }
});

test("a text of 10 MB is cut at the model's length while the page stays free, with and without white space", () =>
  onPage({}, async (page, { url }) => {
    const found = await page.run(async (url) => {
      const { load, cosine } = await import(`${url}embed.mjs`);
      const embedder = await load(url);
      const [words, one] = ["a long text about cats and dogs ".repeat(330_000), "unbroken".repeat(1_300_000)];
      let ticks = 0;
      const timer = setInterval(() => ticks++, 1);
      const [long, cut] = await embedder.embed([words, words.slice(0, 20_000)]);
      const [unbroken] = await embedder.embed(one);
      clearInterval(timer);
      return { like: cosine(long, cut), ticks, length: Math.hypot(...unbroken), passed: (await embedder.selfTest()).passed };
    }, url);
    assert.ok(found.like > 0.9999);
    assert.ok(found.ticks > 0, "timers of the page went on");
    assert.ok(Math.abs(found.length - 1) < 1e-3);
    assert.ok(found.passed);
  }));

test("where the browser gives no room, everything works and is downloaded again", () =>
  onPage({}, async (page, site) => {
    await page.send("Storage.overrideQuotaForOrigin", { origin: new URL(site.url).origin, quotaSize: 1000 });
    requireRight((await page.run(embedHere, site.url, golden.texts)).vectors);
    const kept = await page.run(keptOf, site.url);
    assert.ok(kept.length < document_.assets.length / 2, `${kept.length} files were kept`);
    site.asked = [];
    await page.reload();
    await page.until(() => document.readyState === "complete");
    requireRight((await page.run(embedHere, site.url, golden.texts)).vectors);
    assert.ok(site.asked.some((path) => /ort-.*wasm/.test(path)));
  }));

const loadedOnce = (page, site) => page.run(embedHere, site.url, golden.texts).then(({ vectors }) => requireRight(vectors));

/** Another visit: the page's modules are gone, what is kept is not. */
async function again(page) {
  await page.reload();
  await page.until(() => document.readyState === "complete");
}

test("a later visit starts what is kept while the host is still asked whether it has another", () =>
  onPage({}, async (page, site) => {
    await loadedOnce(page, site);
    await again(page);
    const worker = new Promise((resolve) => {
      site.meddle = (path, response) => {
        if (path === `/${document_.worker.path}`) resolve();
        // Answered when the worker was asked for, which it names.
        if (path === "/bundle.json") worker.then(() => response.writeHead(200).end(JSON.stringify(document_)));
        return path === "/bundle.json";
      };
    });
    await loadedOnce(page, site);
  }));

test("where the host has another than was kept, nothing of that one is answered", () =>
  onPage({}, async (page, site) => {
    await loadedOnce(page, site);
    await again(page);
    const changed = { ...document_, name: "another", model: { ...document_.model, maxLength: 7 } };
    site.meddle = (path, response) => path === "/bundle.json" && (response.writeHead(200).end(JSON.stringify(changed)), true);
    const found = await page.run(async (url) => {
      const { load } = await import(`${url}embed.mjs`);
      const embedder = await load(url);
      const [cut, whole] = await embedder.embed(["one two three four five", "one two three four five six seven eight nine"]);
      return { info: embedder.info, same: (await load(url)) === embedder, cut: cut.join() === whole.join() };
    }, site.url);
    assert.deepEqual([found.info.name, found.info.maxLength, found.same, found.cut], ["another", 7, true, true]);
  }));

test("what the browser's disk has made of a piece is fetched again", () =>
  onPage({}, async (page, site) => {
    await loadedOnce(page, site);
    const piece = document_.model.parts[0].path.split("/").pop();
    for (const damage of [8, 0]) {
      await again(page);
      await page.run(async (url, name, length) => {
        const root = await navigator.storage.getDirectory();
        const folder = await root.getDirectoryHandle(`edgepack:${encodeURIComponent(url)}`);
        const file = await (await folder.getFileHandle(name)).createWritable({ keepExistingData: length > 0 });
        await file.write(new Uint8Array(length));
        await file.close();
      }, site.url, piece, damage);
      site.asked = [];
      await loadedOnce(page, site);
      assert.deepEqual([...new Set(site.asked.filter((path) => /model/.test(path)).map((path) => path.replace(/\.(br|gz)$/, "")))], [`/assets/${piece}`]);
    }
    site.asked = [];
    await again(page);
    await loadedOnce(page, site);
    assert.deepEqual(site.asked.filter((path) => /model/.test(path)), []);
  }));

test("on plain http, where there is no Cache Storage and nothing to check digests with, it works", () =>
  onPage({}, async (page, { url }) => {
    const plain = url.replace("127.0.0.1", "plain.test");
    const other = await browser.page(`${plain}golden.json`);
    assert.deepEqual(await other.run(() => [isSecureContext, typeof caches]), [false, "undefined"]);
    requireRight((await other.run(embedHere, plain, golden.texts)).vectors);
    await other.close();
  }));

test("in a frame that may keep nothing and is of no origin, it works", async () => {
  const site = await openSite(bundle, SHARED);
  site.meddle = (path, response) => path === "/frame.html" && (response.writeHead(200, { "content-type": "text/html" }).end('<!doctype html><meta charset="utf-8"><title>x</title>'), true);
  const page = await browser.page(`${site.url}golden.json`);
  const answer = await page.run(async (url, texts) => {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.srcdoc = `<script type="module">
      let kept;
      try { kept = await caches.open("x").then(() => "kept"); } catch (error) { kept = error.name; }
      const { load } = await import("${url}embed.mjs");
      const vectors = await load("${url}").then((embedder) => embedder.embed(${JSON.stringify(texts)}), (error) => error.name + ": " + error.message);
      parent.postMessage({ kept, origin, vectors }, "*");
    <` + "/script>";
    const answered = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data)));
    document.body.append(frame);
    const { kept, origin, vectors } = await answered;
    return { kept, origin, vectors: typeof vectors === "string" ? vectors : vectors.map((vector) => Array.from(vector)) };
  }, site.url, golden.texts.slice(0, 3));
  assert.deepEqual([answer.kept, answer.origin], ["SecurityError", "null"]);
  assert.equal(typeof answer.vectors, "object", answer.vectors);
  requireRight(answer.vectors);
  await page.close();
  site.close();
});

for (const [policy, said] of [
  ["script-src 'self' 'unsafe-inline'", /^UnsupportedError: .*script-src 'wasm-unsafe-eval'/],
  ["script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'", /^WorkerError: .*worker-src 'self'/],
])
  test(`a page whose policy is ${policy} is told what to allow`, () =>
    onPage({ "content-security-policy": policy }, async (page, { url }) => assert.match(await page.run(failureOf, url), said)));

test("an abort in the middle of the download ends it, and what is asked after that loads", () =>
  onPage({}, async (page, site) => {
    let ended;
    const gone = new Promise((resolve) => (ended = resolve));
    site.meddle = (path, response) => {
      if (!path.startsWith(`/${document_.runtimes[0].wasm.path}`)) return false;
      response.writeHead(200, { "content-length": document_.runtimes[0].wasm.size }).write(Buffer.alloc(100_000));
      response.on("close", ended);
      return true;
    };
    const said = await page.run(async (url) => {
      const { load } = await import(`${url}embed.mjs`);
      const [mine, other] = [new AbortController(), new AbortController()];
      const onProgress = ({ loaded }) => loaded > 90_000 && (other.abort(new Error("the other")), mine.abort(new Error("enough")));
      const both = await Promise.allSettled([load(url, { signal: mine.signal, onProgress }), load(url, { signal: other.signal })]);
      return both.map(({ reason }) => reason?.message);
    }, site.url);
    assert.deepEqual(said, ["enough", "the other"]);
    await gone;
    site.meddle = () => false;
    requireRight((await page.run(embedHere, site.url, golden.texts)).vectors);
  }));

test("one who gives up does not end the download of another", () =>
  onPage({}, async (page, { url }) => {
    const found = await page.run(async (url, texts) => {
      const { load } = await import(`${url}embed.mjs`);
      const stop = new AbortController();
      const loads = [load(url, { signal: stop.signal, onProgress: () => stop.abort(new Error("enough")) }), load(url)];
      const [first, second] = await Promise.allSettled(loads);
      return { first: first.reason?.message, vectors: (await second.value.embed(texts)).map((vector) => Array.from(vector)), same: (await load(url)) === second.value };
    }, url, golden.texts);
    assert.equal(found.first, "enough");
    assert.ok(found.same);
    requireRight(found.vectors);
  }));

test("close() answers all that was still asked, and load() opens another", () =>
  onPage({}, async (page, { url }) => {
    const found = await page.run(async (url, texts) => {
      const { load } = await import(`${url}embed.mjs`);
      const embedder = await load(url);
      const jobs = Promise.allSettled([embedder.embed(texts), embedder.embed(texts), embedder.selfTest()]);
      embedder.close();
      embedder.close();
      const names = (await jobs).map(({ reason }) => reason?.name);
      const other = await load(url);
      return { names, other: other !== embedder, vectors: (await other.embed(texts)).map((vector) => Array.from(vector)) };
    }, url, golden.texts);
    assert.deepEqual(found.names, ["ClosedError", "ClosedError", "ClosedError"]);
    assert.ok(found.other);
    requireRight(found.vectors);
  }));

test("a folder that is no bundle, one of another version, and an address that is none", () =>
  onPage({}, async (page, site) => {
    const said = (address) => page.run(async (url, address) => {
      const { load } = await import(`${url}embed.mjs`);
      return load(address).then(() => "loaded", (error) => `${error.name}: ${error.message}`);
    }, site.url, address);
    assert.match(await said(`${site.url}assets/`), /^DownloadError: .*assets\/bundle\.json could not be fetched: the server answers 404/);
    assert.match(await said("http://"), /^BundleError: http:\/\/ is no address/);
    for (const [text, wanted] of [["<!doctype html>", /^BundleError: .*is this the folder/], ['{"schema": 99}', /^BundleError: .*schema 99/], ["null", /^BundleError: .*schema undefined/]]) {
      site.meddle = (path, response) => path === "/bundle.json" && (response.writeHead(200).end(text), true);
      assert.match(await said(site.url), wanted);
    }
    site.meddle = (path, response) => path === "/golden.json" && (response.writeHead(200).end('{"texts": []}'), true);
    const test = await page.run(async (url) => {
      const { load } = await import(`${url}embed.mjs`);
      return (await load(url)).selfTest().catch((error) => `${error.name}: ${error.message}`);
    }, site.url);
    assert.match(test, /^BundleError: .*golden\.json does not hold/);
  }));

test("a worker that dies is named, and the next question starts another", () =>
  onPage({}, async (page, { url }) => {
    const found = await page.run(async (url, texts) => {
      const { load } = await import(`${url}embed.mjs`);
      const Real = Worker;
      const made = [];
      globalThis.Worker = class extends Real {
        constructor(...values) {
          super(...values);
          made.push(this);
        }
      };
      const embedder = await load(url);
      const asked = embedder.embed(texts).catch((error) => `${error.name}: ${error.message}`);
      await new Promise((resolve) => setTimeout(resolve));
      // As a browser does that runs out of memory.
      made[0].dispatchEvent(new ErrorEvent("error", { message: "out of memory" }));
      return { said: await asked, vectors: (await embedder.embed(texts)).map((vector) => Array.from(vector)), workers: made.length };
    }, url, golden.texts);
    assert.equal(found.said, "WorkerError: the worker ended: out of memory");
    assert.equal(found.workers, 2);
    requireRight(found.vectors);
  }));
