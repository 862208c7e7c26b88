// As same_bits.cc, of the engine's module in Node, or in Chromium where CHROMIUM names one: `node same_bits.mjs PLAN IDS LEVEL BATCH THREADS`;
// LEVEL is the module's file, and it has one thread.
import { readFileSync, writeSync } from "node:fs";

import { openBrowser } from "../tests/js/browser.mjs";
import { openSite } from "../tests/js/site.mjs";

const SCRIPTS = new URL("../plugins/edgepack_web/js/", import.meta.url);
const [plan, ids, module, together] = process.argv.slice(2);
const texts = readFileSync(ids, "utf8").trimEnd().split("\n").map((line) => line.split(" ").map(Number));

/** A session for the vectors of texts, as bytes; it runs in a page, too, where each file has an address. */
async function sessionOf(script, bytesOf) {
  const { Plan } = await import(script);
  const bytes = await bytesOf("plan");
  const { instance } = await WebAssembly.instantiate(await bytesOf("module"));
  const session = new Plan(instance, bytes.length);
  session.put(bytes, 0);
  session.open();
  return async (rows) => {
    const { data } = await session.vectors(rows.map((row) => ({ ids: row, types: row.map(() => 0) })));
    return Array.from(new Uint8Array(data.buffer));
  };
}

async function inChromium(files) {
  const site = await openSite(SCRIPTS.pathname);
  site.meddle = (path, response) => files[path.slice(1)] && response.end(readFileSync(files[path.slice(1)]));
  const browser = await openBrowser(process.env.CHROMIUM);
  const page = await browser.page(`${site.url}demo.css`);
  const bytesOf = `async (name) => new Uint8Array(await (await fetch("${site.url}" + name)).arrayBuffer())`;
  await page.run(`async () => { globalThis.vectors = await (${sessionOf})("${site.url}plan.mjs", ${bytesOf}); }`);
  const close = () => browser.close().then(() => site.close());
  return { vectors: (rows) => page.run((given) => globalThis.vectors(given), rows), close };
}

const files = { plan, module };
const { vectors, close } = process.env.CHROMIUM
  ? await inChromium(files)
  : { vectors: await sessionOf(new URL("plan.mjs", SCRIPTS), (name) => readFileSync(files[name])), close: () => {} };
for (let first = 0; first < texts.length; first += Number(together)) {
  const made = Uint8Array.from(await vectors(texts.slice(first, first + Number(together))));
  for (let at = 0; at < made.length; ) at += writeSync(1, made, at);
}
await close();
