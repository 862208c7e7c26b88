// bundle.json: where it lies, what it says, and which of its runtimes this page can have.

import { EmbedError } from "./errors.mjs";
import { openKept } from "./kept.mjs";
import { inDeno, inNode } from "./platform.mjs";

const SCHEMA = 1;
const MOST_THREADS = 4;
// A module with one function that holds `i32.const 0; i8x16.splat; drop`.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];

/** The folder of a bundle, with a slash at its end, for an address of it or of a file in it. */
export function folderOf(url, own) {
  const here = globalThis.document?.baseURI ?? globalThis.location?.href ?? own;
  let absolute;
  try {
    absolute = new URL(url, inNode ? own : here);
  } catch (error) {
    throw new EmbedError("BundleError", `${url} is no address of a bundle`, { cause: error });
  }
  absolute.search = absolute.hash = "";
  const folder = absolute.href.replace(/\/(bundle\.json|embed\.mjs|index\.html)$/, "/");
  return folder.endsWith("/") ? folder : `${folder}/`;
}

/**
 * The texts of bundle.json: `kept`, as it was when everything that it names was fetched, and the promise `newest` of what the
 * host has, which without a network is the one that was kept. `keep` keeps one whose files are all there, and drops those of others.
 */
export function readBundle(base, { cache, signal }) {
  const url = new URL("bundle.json", base);
  const kept = cache ? remembered(base) : undefined;
  const newest = textOf(url, { signal }).catch(async (error) => {
    const before = cache && !signal?.aborted && error.name === "DownloadError" ? await openKept(base)?.cached(url.href) : undefined;
    if (before) return new TextDecoder().decode(before);
    throw error;
  });
  newest.catch(() => {});
  return { kept, newest, keep: (text) => (cache ? keep(base, url, text).catch(() => {}) : undefined) };
}

/** What it names stays; it is kept last, so that one that is kept is the only one that is there. */
async function keep(base, url, text) {
  const store = openKept(base);
  const before = await store?.cached(url.href);
  if (!before || new TextDecoder().decode(before) !== text) {
    await store?.retain(new Set(JSON.parse(text).assets.map((path) => new URL(path, url).href)));
    await store?.put(url.href, text, "application/json");
  }
  if (store && globalThis.document) localStorage.setItem(keyOf(base), text);
}

const keyOf = (base) => `edgepack:${base}`;

/** There at once, which Cache Storage is not; but for pages alone. */
function remembered(base) {
  try {
    return globalThis.document ? (localStorage.getItem(keyOf(base)) ?? undefined) : undefined;
  } catch {
    return undefined;
  }
}

/** A file of the bundle as text. Throws a DownloadError. */
export async function textOf(url, { signal, integrity } = {}) {
  try {
    if (inNode && url.protocol === "file:") return await (await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises")).readFile(url, "utf8");
    // What is named by its content never changes; the rest is asked for again.
    const ask = (cache) => fetch(url, { signal, integrity, cache });
    // A cache may hold for ever what a login page or a lost connection made of it.
    const response = await (integrity ? ask("default").catch(() => (signal?.throwIfAborted(), ask("reload"))) : ask("no-cache"));
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    return await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    throw new EmbedError("DownloadError", `${url} could not be fetched: ${error.message}`, { cause: error });
  }
}

/** Throws a BundleError. */
export function parseBundle(text, base) {
  let bundle;
  try {
    bundle = JSON.parse(text);
  } catch {
    throw new EmbedError("BundleError", `${base}bundle.json is not a bundle's: is this the folder that edgepack made?`);
  }
  if (bundle?.schema !== SCHEMA) throw new EmbedError("BundleError", `${base}bundle.json has schema ${bundle?.schema}, this embed.mjs reads schema ${SCHEMA}: take the one that lies beside it`);
  return bundle;
}

export function requireWasm() {
  if (typeof WebAssembly !== "object") throw new EmbedError("UnsupportedError", "this browser has no WebAssembly: it is too old, or was told not to");
  if (!WebAssembly.validate(new Uint8Array(SIMD))) throw new EmbedError("UnsupportedError", "this browser has no WebAssembly SIMD, which the model needs: Chrome 91, Firefox 89, Safari 16.4 and newer have it");
}

/**
 * Threads where none are asked for: one a processor, four at most, as the native runners have, in pages that may have several
 * and whose bundle has a runtime for them. For one that is there to take over from another nobody pays who did not ask.
 */
export function usualThreads({ runtimes }, { runtime }, { isolated, processors } = surroundings()) {
  const meant = runtimes.filter((each, index) => (runtime === undefined ? index === 0 || each.name !== "stock" : each.name === runtime));
  return isolated && meant.some(({ threads }) => threads) ? Math.min(MOST_THREADS, processors) : 1;
}

function surroundings() {
  const { crossOriginIsolated, navigator } = globalThis;
  return { isolated: !inNode && !inDeno && !!crossOriginIsolated, processors: navigator?.hardwareConcurrency || 1 };
}

/**
 * The first of a bundle's runtimes that is what was asked for and can run here; one on a GPU only by its name. Throws an
 * EmbedError that says what is missing.
 */
export async function chooseRuntime({ runtimes }, { threads, runtime }) {
  if (!Number.isInteger(threads) || threads < 1) throw new EmbedError("RangeError", `threads is ${threads}, expected a whole number from 1`);
  const named = runtimes.filter(({ name, gpu }) => (runtime === undefined ? !gpu : name === runtime));
  if (!named.length) throw new EmbedError("RangeError", `this bundle has no runtime ${runtime}: it has ${runtimes.map(({ name }) => name).join(", ")}`);
  const able = named.filter((each) => threads === 1 || each.threads);
  if (!able.length) throw new EmbedError("UnsupportedError", 'this bundle\'s runtime has one thread; one with threads = true, or with fallback = "stock", can have more');
  if (threads > 1 && inDeno) throw new EmbedError("UnsupportedError", "in Deno the runtime has one thread; in browsers and in Node it can have more");
  if (threads > 1 && !inNode && !globalThis.crossOriginIsolated)
    throw new EmbedError("UnsupportedError", "more than one thread needs a cross-origin isolated page: serve it with Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp (edgepack serve-web does), or ask for one thread");
  if (able[0].gpu) await requireGpu();
  return able[0];
}

async function requireGpu() {
  const other = "without runtime: \"webgpu\" it is computed in WebAssembly";
  const adapter = inNode || inDeno ? null : await globalThis.navigator?.gpu?.requestAdapter().catch(() => null);
  if (!adapter) throw new EmbedError("UnsupportedError", `no GPU can be had here: navigator.gpu gives no adapter, which browsers do in secure contexts and on drivers that they trust; ${other}`);
  if (!("Suspending" in WebAssembly)) throw new EmbedError("UnsupportedError", `this browser's WebAssembly cannot wait for a GPU (JSPI: Chrome and Edge 137 and newer); ${other}`);
}

/** What takes over from a runtime that lacks a function. */
export const wholeRuntime = ({ runtimes }, failed) => (failed.name === "stock" || failed.gpu ? undefined : runtimes.find(({ name }) => name === "stock"));
