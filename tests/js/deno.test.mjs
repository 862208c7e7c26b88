// The module of a bundle (its folder is in BUNDLE) in Deno (from TOOLS), and in a Node that has nothing of the bundle but its address.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { cosine, openSite } from "./site.mjs";

const { BUNDLE: bundle, TOOLS } = process.env;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const root = mkdtempSync(join(tmpdir(), "edgepack-deno-"));
const script = join(root, "ask.mjs");
const run = promisify(execFile);
let site;

before(async () => {
  site = await openSite(bundle);
  // Where the module comes from, where the bundle is, and what is left when the work is done: nothing that keeps the program.
  writeFileSync(script, `const [module, folder] = (typeof Deno === "undefined" ? process.argv.slice(2) : Deno.args);
const { load } = await import(module);
const embedder = await load(folder);
const vectors = await embedder.embed(${JSON.stringify(golden.texts.slice(0, 4))});
console.log(JSON.stringify({ vectors: vectors.map((vector) => Array.from(vector)), passed: (await embedder.selfTest()).passed }));
if (typeof Deno !== "undefined") embedder.close();
`);
});
after(() => {
  site?.close();
  rmSync(root, { recursive: true, force: true });
});

function requireRight(output) {
  const { vectors, passed } = JSON.parse(output);
  assert.ok(passed);
  for (const [at, vector] of vectors.entries()) assert.ok(cosine(vector, golden.vectors[at]) >= golden.tolerance);
}

const folder = pathToFileURL(`${bundle}/`).href;
const deno = (args, values) => run(join(TOOLS, "node_modules/.bin/deno"), ["run", "--no-prompt", ...args, script, ...values], { env: { ...process.env, DENO_DIR: join(root, "deno") }, timeout: 100_000 });

test("Deno opens a folder, and may do no more than read it", async () => {
  requireRight((await deno([`--allow-read=${bundle},${root}`], [`${folder}embed.mjs`, folder])).stdout);
});

test("Deno opens an address, and may do no more than fetch from it", async () => {
  const { host } = new URL(site.url);
  requireRight((await deno([`--allow-net=${host}`, `--allow-import=${host}`], [`${site.url}embed.mjs`, site.url])).stdout);
});

test("Node opens an address, ends by itself, and leaves no file behind", async () => {
  const temporary = mkdtempSync(join(root, "tmp-"));
  const done = await run(process.execPath, [script, `${folder}embed.mjs`, site.url], { env: { ...process.env, TMPDIR: temporary }, timeout: 100_000 });
  requireRight(done.stdout);
  assert.deepEqual(readdirSync(temporary), []);
});
