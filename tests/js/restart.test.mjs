// A real bundle (its folder is in BUNDLE) whose first runtime traps on texts of more than three tokens, with the whole one beside it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { openBrowser } from "./browser.mjs";
import { cosine, openSite } from "./site.mjs";

const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const whole = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8")).runtimes.at(-1);
const KNOWN = process.env.KNOWN ?? "cat";
let browser;

before(async () => (browser = await openBrowser(process.env.CHROMIUM)));
after(() => browser?.close());

const right = (vectors, places) => places.every((place, at) => cosine(vectors[at], golden.vectors[place]) >= golden.tolerance);

/** Several questions at once, of which one does not trap, one is given up, and others trap. */
const askALot = async (url, known, texts) => {
  const { load } = await import(`${url}embed.mjs`);
  const restarts = [];
  const embedder = await load(url, { onRestart: (restart) => restarts.push(restart) });
  await embedder.embed(known);
  const before = embedder.loaded.runtime;
  const stop = new AbortController();
  const jobs = [embedder.embed(texts.slice(0, 5)), embedder.embed(known), embedder.embed(texts.slice(5)), embedder.embed("given up", { signal: stop.signal })];
  stop.abort(new Error("given up"));
  const answers = await Promise.allSettled(jobs);
  const { passed } = await embedder.selfTest();
  return { before, after: embedder.loaded.runtime, restarts, passed, answers: answers.map(({ value, reason }) => (value ? value.map((vector) => Array.from(vector)) : String(reason))) };
};

function requireAllAnswered({ before, after, restarts, passed, answers }) {
  assert.notEqual(before, "stock");
  assert.equal(after, "stock");
  assert.equal(restarts.length, 1);
  assert.deepEqual([restarts[0].runtime, restarts[0].size], ["stock", whole.wasm.size]);
  assert.ok(passed);
  assert.equal(answers[3], "Error: given up");
  assert.ok(right(answers[0], [0, 1, 2, 3, 4]), "the questions that trapped are answered");
  assert.ok(right(answers[2], golden.texts.map((_, place) => place).slice(5)), "and those that waited behind them");
  assert.equal(answers[1].length, 1);
}

test("in Chromium a trapped function restarts on the whole runtime, and nothing that was asked is lost", async () => {
  const site = await openSite(bundle);
  const page = await browser.page(`${site.url}golden.json`);
  await page.run(async (url, known) => {
    const { load } = await import(`${url}embed.mjs`);
    const embedder = await load(url);
    await embedder.embed(known);
    embedder.close();
  }, site.url, KNOWN);
  assert.ok(!site.asked.some((path) => path.startsWith(`/${whole.wasm.path}`)), "what is not needed is not fetched");
  requireAllAnswered(await page.run(askALot, site.url, KNOWN, golden.texts));
  assert.ok(site.asked.some((path) => path.startsWith(`/${whole.wasm.path}`)));
  await page.close();
  site.close();
});

const all = { skip: process.env.ALL ? false : "only with ALL in the environment, as with --web" };

test("in Node, too", all, async () => {
  requireAllAnswered(await askALot(pathToFileURL(`${bundle}/`).href, KNOWN, golden.texts));
});

test("the page answers, and says that the whole runtime took over", async () => {
  const site = await openSite(bundle);
  const page = await browser.page(site.url);
  await page.until(() => document.getElementById("results").children.length === 5);
  assert.match(await page.run(() => document.getElementById("state").textContent), /small runtime leaves out: the whole one \(stock, 12\.7 MB\) took over\.$/);
  assert.match(await page.run(() => document.getElementById("cost").textContent), /runtimestock/);
  await page.close();
  site.close();
});

test("where the whole runtime cannot be fetched, every question is answered with that, and the next one tries again", all, async () => {
  const site = await openSite(bundle);
  site.meddle = (path, response) => path.startsWith(`/${whole.wasm.path}`) && (response.writeHead(404).end(), true);
  const page = await browser.page(`${site.url}golden.json`);
  const said = await page.run(async (url, known, texts) => {
    const { load } = await import(`${url}embed.mjs`);
    globalThis.embedder = await load(url);
    const answers = await Promise.allSettled([embedder.embed(texts), embedder.embed(texts)]);
    return answers.map(({ reason }) => `${reason?.name}: ${reason?.message}`);
  }, site.url, KNOWN, golden.texts);
  for (const answer of said) assert.match(answer, /^DownloadError: .*ort-stock.*answers 404/);
  site.meddle = () => false;
  assert.ok(right(await page.run(async (texts) => (await embedder.embed(texts)).map((vector) => Array.from(vector)), golden.texts.slice(0, 2)), [0, 1]));
  await page.close();
  site.close();
});

test("without the whole runtime the question that trapped fails in words, and the others are answered", async () => {
  const document = JSON.parse(readFileSync(join(bundle, "bundle.json"), "utf8"));
  document.runtimes = document.runtimes.slice(0, 1);
  const site = await openSite(bundle);
  site.meddle = (path, response) => path === "/bundle.json" && (response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(document)), true);
  const page = await browser.page(`${site.url}golden.json`);
  const said = await page.run(async (url, known, texts) => {
    const { load } = await import(`${url}embed.mjs`);
    const embedder = await load(url);
    const answers = await Promise.allSettled([embedder.embed(known), embedder.embed(texts), embedder.embed(known)]);
    return answers.map(({ value, reason }) => value?.length ?? `${reason.name}: ${reason.message}`);
  }, site.url, KNOWN, golden.texts);
  assert.match(said[1], /^RuntimeError: this bundle's runtime \(\w+\) stopped: .*--set fallback=stock/);
  assert.deepEqual([said[0], said[2]], [1, 1]);
  await page.close();
  site.close();
});
