// The demonstration page of a real bundle (its folder is in BUNDLE) in a real browser (CHROMIUM), as a visitor uses it.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "./browser.mjs";

const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript", css: "text/css", wasm: "application/wasm", json: "application/json" };
let [browser, server, url] = [];
let missing = "";

before(async () => {
  server = createServer((request, response) => {
    const path = new URL(request.url, "http://x").pathname.replace(/\/$/, "/index.html");
    const file = join(process.env.BUNDLE, path);
    if (path === missing || !statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[path.split(".").pop()] ?? "application/octet-stream" }).end(readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${server.address().port}/`;
  browser = await openBrowser(process.env.CHROMIUM);
});
after(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

async function opened(width = 1200) {
  const page = await browser.page("about:blank");
  await page.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 });
  await page.send("Page.enable", {});
  await page.send("Page.addScriptToEvaluateOnNewDocument", {
    source: "globalThis.shifted = 0; new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => (shifted += value))).observe({ type: 'layout-shift', buffered: true })",
  });
  await page.send("Page.navigate", { url });
  return page;
}
const ready = (page) => page.until(() => document.querySelectorAll("#results li").length === 5);
const type = (page, id, text) =>
  page.run((where, value) => {
    const field = document.getElementById(where);
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, id, text);

test("at each width nothing is wider than the page, and nothing moves while the model loads", async () => {
  for (const width of [320, 390, 1200]) {
    const page = await opened(width);
    await ready(page);
    const { wide, moved } = await page.run(() => ({ wide: document.documentElement.scrollWidth - innerWidth, moved: shifted }));
    assert.ok(wide <= 0, `${width}: ${wide} pixels too wide`);
    // 0.1 is what Core Web Vitals call good.
    assert.ok(moved < 0.1, `${width}: layout shift ${moved}`);
    await page.close();
  }
});

test("a question finds its answer, by key and by example", async () => {
  const page = await opened();
  await ready(page);
  const best = () => page.run(() => document.querySelector("#results span").textContent);
  await page.run(() => document.querySelectorAll(".examples button")[1].click());
  await page.until(() => /refund/.test(document.querySelector("#results span").textContent));
  await page.run(() => document.activeElement.blur());
  await page.send("Input.dispatchKeyEvent", { type: "keyDown", key: "/", text: "/" });
  assert.equal(await page.run(() => document.activeElement.id), "query");
  await type(page, "query", "a concert in the evening");
  await page.until(() => /orchestra/.test(document.querySelector("#results span").textContent));
  await page.until(() => /orchestra/.test(document.getElementById("best").textContent));
  assert.match(await best(), /orchestra/);
  await page.close();
});

test("the matrix is walked with the arrow keys", async () => {
  const page = await opened();
  await ready(page);
  const pair = () => page.run(() => [...document.querySelectorAll("#pair p")].map((line) => line.textContent));
  const [score, one, other] = await pair();
  assert.ok(Number(score) < 1 && one !== other, "at first the nearest two");
  await page.run(() => document.getElementById("matrix").focus());
  await page.send("Input.dispatchKeyEvent", { type: "keyDown", key: "ArrowDown", code: "ArrowDown", windowsVirtualKeyCode: 40 });
  await page.until((before) => document.querySelectorAll("#pair p")[1].textContent !== before, one);
  assert.equal((await pair())[2], other);
  await page.close();
});

test("ten thousand lines: a question is answered meanwhile, and it can be stopped", async () => {
  const page = await opened();
  await ready(page);
  const lines = Array.from({ length: 10_000 }, (_, index) => `number ${index} of ten thousand`);
  await type(page, "texts", ["A", ...lines].join("\n"));
  await page.until(() => /of 10,001$/.test(document.getElementById("count").textContent));
  await type(page, "query", "the first letter");
  await page.until(() => document.querySelector("#results span").textContent === "A");
  await page.run(() => document.getElementById("stop").click());
  await page.until(() => /^stopped after/.test(document.getElementById("count").textContent));
  await type(page, "texts", lines.slice(0, 20).join("\n"));
  await page.until(() => document.getElementById("count").textContent === "20 texts");
  await page.close();
});

test("what went wrong is said, with a way to try again", async () => {
  const page = await opened();
  await ready(page);
  await page.run(async () => {
    for (const name of await caches.keys()) await caches.delete(name);
    for (const worker of await navigator.serviceWorker.getRegistrations()) await worker.unregister();
  });
  missing = "/bundle.json";
  await page.send("Page.reload", { ignoreCache: true });
  await page.until(() => document.querySelector(".state.failed"));
  assert.match(await page.run(() => document.getElementById("state").textContent), /^This did not work.*bundle\.json.*404/);
  missing = "";
  await page.run(() => document.getElementById("again").click());
  await ready(page);
  await page.close();
});
