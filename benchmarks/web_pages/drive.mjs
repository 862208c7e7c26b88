// Drives one Chromium after the other over the pages of benchmarks/web.py: a plan on standard input, figures on standard
// output, what is going on on standard error.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

import { openBrowser } from "../../tests/js/browser.mjs";

const plan = JSON.parse(readFileSync(0, "utf8"));
// Pages that are not in front are as quick as the one that is.
const flags = ["--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"];
const say = (text) => process.stderr.write(`${text}\n`);
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** A page that has made its first vector. */
async function visit(browser, url) {
  const page = await browser.page(url);
  return { page, first: await page.run(() => globalThis.first) };
}

/** What the page's host has sent since this was asked last: [path, status, bytes] each. */
const sent = async (peer) => (await fetch(`http://127.0.0.1:${plan.clerk}/${peer.name}`)).json();

/** Most memory that the page's process had, in bytes: the page's script, its workers and the runtime are in it. */
async function peakMemory(browser) {
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
  const peaks = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))[1]) * 1024);
  return Math.max(...peaks);
}

/** A cold visit with a new profile, visits after it, and one after the browser was started anew; added to `found`. */
async function loading(peer, found) {
  const profile = mkdtempSync(`${tmpdir()}/edgepack-web-`);
  try {
    let browser = await openBrowser(plan.chromium, { profile, flags });
    await sent(peer);
    const { page, first } = await visit(browser, peer.url);
    found.cold.push(first.time);
    found.bytes ??= await sent(peer);
    await page.run((texts) => globalThis.embed(texts).then(() => 1), plan.shapes.at(-1).texts);
    found.memory = Math.max(found.memory, await peakMemory(browser));
    found.vectors ??= await page.run(embedEach, plan.texts);
    await page.close();
    for (let count = 0; count < plan.visits; count++) {
      await sent(peer);
      const again = await visit(browser, peer.url);
      found.warm.push(again.first);
      found.warmBytes = await sent(peer);
      await again.page.close();
    }
    await browser.close();
    browser = await openBrowser(plan.chromium, { profile, flags });
    found.restarted.push((await visit(browser, peer.url)).first.time);
    await browser.close();
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
  say(`${peer.name}: cold ${Math.round(found.cold.at(-1))} ms, warm ${Math.round(median(found.warm.map(({ time }) => time)))} ms`);
}

async function embedEach(texts) {
  const all = [];
  for (const text of texts) all.push(Array.from((await globalThis.embed([text]))[0]));
  return all;
}

/** Sentences a second, shape by shape; the pages take turns, so that what else the machine does meets all alike. */
async function speed() {
  const profile = mkdtempSync(`${tmpdir()}/edgepack-web-`);
  const browser = await openBrowser(plan.chromium, { profile, flags });
  const rates = Object.fromEntries(plan.peers.map(({ name }) => [name, Object.fromEntries(plan.shapes.map((shape) => [shape.name, []]))]));
  try {
    const pages = new Map();
    for (const peer of plan.peers) pages.set(peer.name, (await visit(browser, peer.url)).page);
    for (let round = 0; round <= plan.rounds; round++)
      for (const shape of plan.shapes)
        for (const peer of turned(plan.peers, round)) {
          await pages.get(peer.name).send("Page.bringToFront", {});
          const rate = await pages.get(peer.name).run(runFor, shape.texts, plan.seconds);
          // The first round is for warming.
          if (round) rates[peer.name][shape.name].push(rate);
        }
  } finally {
    await browser.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
  return rates;
}

const turned = (list, by) => list.map((_, index) => list[(index + by) % list.length]);

async function runFor(texts, seconds) {
  const begin = performance.now();
  let count = 0;
  do {
    await globalThis.embed(texts);
    count += texts.length;
  } while (performance.now() - begin < 1000 * seconds);
  return (1000 * count) / (performance.now() - begin);
}

const figures = Object.fromEntries(plan.peers.map(({ name }) => [name, { cold: [], warm: [], restarted: [], memory: 0 }]));
for (let round = 0; round < plan.cold; round++)
  for (const peer of turned(plan.peers, round)) await loading(peer, figures[peer.name]);
say("speed, in turns");
const rates = plan.rounds ? await speed() : {};
for (const [name, found] of Object.entries(rates)) figures[name].rates = found;
process.stdout.write(JSON.stringify(figures));
