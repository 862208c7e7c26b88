// A bundle (its folder is in BUNDLE) inside a browser extension, under the strictest policy that such may have.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { openBrowser } from "./browser.mjs";
import { cosine } from "./site.mjs";

const bundle = process.env.BUNDLE;
const golden = JSON.parse(readFileSync(join(bundle, "golden.json"), "utf8"));
const root = mkdtempSync(join(tmpdir(), "edgepack-extension-"));
after(() => rmSync(root, { recursive: true, force: true }));

const extension = (name, policy) => {
  const folder = join(root, name);
  mkdirSync(folder);
  cpSync(bundle, join(folder, "model"), { recursive: true });
  const manifest = { manifest_version: 3, name, version: "1", content_security_policy: { extension_pages: policy } };
  writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "page.html"), '<!doctype html><title>x</title><script type="module" src="page.mjs"></script>');
  writeFileSync(join(folder, "page.mjs"), `import { load } from "./model/embed.mjs";
globalThis.answer = load().then(async (embedder) => (await embedder.embed(${JSON.stringify(golden.texts.slice(0, 3))})).map((vector) => Array.from(vector)), (error) => \`\${error.name}: \${error.message}\`);
`);
  return folder;
};

test("an extension whose policy is script-src 'self' 'wasm-unsafe-eval', and one that forgot the second", async () => {
  const browser = await openBrowser(process.env.CHROMIUM, { flags: ["--enable-unsafe-extension-debugging"] });
  try {
    const answer = async (folder) => {
      const { id } = await browser.send("Extensions.loadUnpacked", { path: folder });
      const page = await browser.page(`chrome-extension://${id}/page.html`);
      const found = await page.until(() => globalThis.answer);
      await page.close();
      return found;
    };
    const vectors = await answer(extension("allowed", "script-src 'self' 'wasm-unsafe-eval'"));
    assert.equal(typeof vectors, "object", vectors);
    for (const [at, vector] of vectors.entries()) assert.ok(cosine(vector, golden.vectors[at]) >= golden.tolerance);
    assert.match(await answer(extension("forbidden", "script-src 'self'")), /^UnsupportedError: .*'wasm-unsafe-eval'/);
  } finally {
    await browser.close();
  }
});
