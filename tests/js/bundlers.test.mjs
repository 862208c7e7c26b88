// embed.mjs in pages that Vite and webpack make (from TOOLS), without configuration: copied from the bundle (its folder is
// in BUNDLE) and bundled, or imported from the address of another host.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { openBrowser } from "./browser.mjs";
import { cosine, openSite, SHARED } from "./site.mjs";

const { BUNDLE: bundle, CHROMIUM, TOOLS } = process.env;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const tools = createRequire(join(TOOLS, "package.json"));
const root = mkdtempSync(join(tmpdir(), "edgepack-bundlers-"));
let browser;
let cdn;

before(async () => {
  browser = await openBrowser(CHROMIUM);
  cdn = await openSite(bundle, SHARED);
});
after(async () => {
  await browser?.close();
  cdn?.close();
  rmSync(root, { recursive: true, force: true });
});

const SHOWN = `globalThis.answer = (async () => {
  const vectors = await (await load(BUNDLE)).embed(${JSON.stringify(golden.texts.slice(0, 3))});
  return vectors.map((vector) => Array.from(vector));
})().catch((error) => String(error));
`;
const COPIED = `import { load } from "./embed.mjs";\n${SHOWN.replace("BUNDLE", '"/model/"')}`;
const FROM_CDN = (address, ignore) => `const { load } = await import(${ignore}"${address}embed.mjs");\n${SHOWN.replace("BUNDLE", "")}`;

/** A project with one page; the bundle lies among its static files. */
function project(name, files) {
  const folder = join(root, name);
  mkdirSync(join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, "public"));
  symlinkSync(bundle, join(folder, "public/model"));
  cpSync(join(bundle, "embed.mjs"), join(folder, "src/embed.mjs"));
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  return folder;
}

async function requireAnswer(address) {
  const page = await browser.page(address);
  const vectors = await page.until(() => globalThis.answer);
  assert.equal(typeof vectors, "object", vectors);
  for (const [at, vector] of vectors.entries()) assert.ok(cosine(vector, golden.vectors[at]) >= golden.tolerance);
  await page.close();
}

async function requireAnswerOf(folder) {
  const site = await openSite(folder);
  await requireAnswer(site.url);
  site.close();
}

const PAGE = '<!doctype html><title>x</title><script type="module" src="/src/index.js"></script>';
const vite = () => import(pathToFileURL(join(TOOLS, "node_modules/vite/dist/node/index.js")));

// webpack wants to be told what is not its own; Vite sees that by itself.
for (const [how, source] of [["copied", () => COPIED], ["from a CDN", (ignore = "") => FROM_CDN(cdn.url, ignore)]]) {
  test(`Vite: built, ${how}`, async () => {
    const folder = project(`vite-${how.at(0)}`, { "index.html": PAGE, "src/index.js": source() });
    await (await vite()).build({ root: folder, configFile: false, logLevel: "error" });
    await requireAnswerOf(join(folder, "dist"));
  });

  test(`Vite: its development server, ${how}`, async () => {
    const folder = project(`dev-${how.at(0)}`, { "index.html": PAGE, "src/index.js": source() });
    const server = await (await vite()).createServer({ root: folder, configFile: false, logLevel: "error", server: { port: 0, host: "127.0.0.1", strictPort: false, fs: { strict: false } } });
    await server.listen();
    await requireAnswer(`http://127.0.0.1:${server.httpServer.address().port}/`);
    await server.close();
  });

  test(`webpack 5: built, ${how}`, async () => {
    const folder = project(`webpack-${how.at(0)}`, { "src/index.js": source("/* webpackIgnore: true */ ") });
    // As its command does where there is no configuration: ./src/index.js to ./dist/main.js.
    process.chdir(folder);
    const compiler = tools("webpack")({ mode: "production" });
    const stats = await new Promise((resolve, reject) => compiler.run((error, made) => (error ? reject(error) : resolve(made))));
    await new Promise((resolve) => compiler.close(resolve));
    assert.deepEqual(stats.toJson({ all: false, errors: true, warnings: true }), { errors: [], warnings: [] });
    writeFileSync(join(folder, "dist/index.html"), '<!doctype html><meta charset="utf-8"><title>x</title><script src="main.js"></script>');
    symlinkSync(bundle, join(folder, "dist/model"));
    await requireAnswerOf(join(folder, "dist"));
  });
}
