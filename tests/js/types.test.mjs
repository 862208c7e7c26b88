// embed.d.mts against the module that it describes, and against what its users write, by TypeScript (from TOOLS).
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const source = join(import.meta.dirname, "../../plugins/edgepack_web/js");
const root = mkdtempSync(join(tmpdir(), "edgepack-types-"));
after(() => rmSync(root, { recursive: true, force: true }));

function tsc(...args) {
  try {
    return execFileSync(join(process.env.TOOLS, "node_modules/.bin/tsc"), ["--target", "es2022", "--module", "nodenext", "--strict", "--lib", "es2022,dom,dom.iterable", "--types", "", ...args], { cwd: root, encoding: "utf8" });
  } catch (error) {
    return error.stdout;
  }
}

const USE = `import { cosine, Embedder, EmbedError, load, type LoadOptions, type Restart } from "./said/embed.mjs";
const options: LoadOptions = { threads: 2, onProgress: ({ loaded, total, cached }) => void (loaded + total + cached), onRestart: ({ runtime, size }: Restart) => void (runtime + size), signal: AbortSignal.timeout(5) };
const embedder: Embedder = await load(new URL("https://example.com/"), options);
const [vector]: Float32Array[] = await embedder.embed(new Set(["a"]), { prefix: "query", dim: 64 });
const near: number = cosine(vector!, [1, 2]);
const { passed, lowest }: { passed: boolean; lowest: number } = await embedder.selfTest();
const time: number = embedder.loaded.times.session + embedder.loaded.transferred;
throw new EmbedError("RangeError", String([near, passed, lowest, time, embedder.info.downloads.brotli]));
`;
// What the module's own code is inferred to be must do for what the types say.
const SAME = `import * as said from "./said/embed.mjs";
import * as code from "./code/embed.mjs";
type Open<T> = { [K in keyof T]: T[K] };
declare const made: Open<code.Embedder>;
export const embedder: Open<Omit<said.Embedder, "info">> = made;
export const info: Open<said.BundleInfo> = made.info;
export const cosine: typeof said.cosine = code.cosine;
export const error: Error & { name: string } = new code.EmbedError("a", "b", { cause: 1 }) satisfies said.EmbedError;
export const parameters: Parameters<typeof code.load> = [] as unknown as Parameters<typeof said.load>;
export const names: Exclude<keyof typeof said, keyof typeof code> extends never ? true : false = true;
`;

test("the types are sound, and say what the module does", () => {
  cpSync(join(source, "embed.d.mts"), join(root, "said/embed.d.mts"));
  cpSync(source, join(root, "js"), { recursive: true });
  tsc("--allowJs", "--declaration", "--emitDeclarationOnly", "--outDir", "code", "js/embed.mjs");
  // The code's own comments name the types that lie beside it.
  const inferred = join(root, "code/embed.d.mts");
  writeFileSync(inferred, readFileSync(inferred, "utf8").replaceAll('"./embed.d.mts"', '"../said/embed.mjs"'));
  writeFileSync(join(root, "use.mts"), USE);
  writeFileSync(join(root, "same.mts"), SAME);
  assert.equal(tsc("--noEmit", "use.mts", "same.mts"), "");
});

test("a wrong use is found", () => {
  cpSync(join(source, "embed.d.mts"), join(root, "said/embed.d.mts"));
  writeFileSync(join(root, "wrong.mts"), 'import { Embedder, load } from "./said/embed.mjs";\nawait load("/", { thread: 2 });\nnew Embedder();\n');
  const said = tsc("--noEmit", "wrong.mts");
  assert.match(said, /wrong\.mts\(2,\d+\): error .*thread/);
  assert.match(said, /wrong\.mts\(3,\d+\): error .*private/);
});
