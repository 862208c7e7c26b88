// The bundle's files: fetched in parts, checked by their SHA-256, kept in Cache Storage for visits without a network.

const IN_NODE = typeof process === "object" && !!process.versions?.node && typeof Deno === "undefined";
const TRIES = 4;
const AT_ONCE = 3;

/** A file could not be fetched: no network, no such file, or one that broke off too often. */
export class DownloadError extends Error {
  name = "DownloadError";
}

/** A file is not the one that the bundle names. */
export class IntegrityError extends Error {
  name = "IntegrityError";
}

/**
 * @typedef {{path: string, size: number, integrity: string, gzip?: number, brotli?: number}} Asset
 * @typedef {(event: {loaded: number, total: number, cached: number}) => void} OnProgress
 */

/** The files of one bundle. */
export class Assets {
  #cache;

  /** @param {string} base  the bundle's folder, with a slash at its end @param {boolean} keep */
  constructor(base, keep) {
    this.base = base;
    this.#cache = keep ? openCache(`edgepack:${base}`) : undefined;
  }

  url(path) {
    return new URL(path, this.base).href;
  }

  /**
   * Every asset into a place of its own.
   * @param {{asset: Asset, into: (bytes: Uint8Array) => void}[]} wanted
   * @param {{signal?: AbortSignal, onProgress?: OnProgress}} options
   */
  async fetchAll(wanted, { signal, onProgress }) {
    const total = wanted.reduce((sum, { asset }) => sum + asset.size, 0);
    const stop = new AbortController();
    const both = signal ? anyOf([signal, stop.signal]) : stop.signal;
    const counts = { loaded: 0, cached: 0 };
    const tell = (bytes, cached = false) => {
      counts.loaded += bytes;
      if (cached) counts.cached += bytes;
      onProgress?.({ ...counts, total });
    };
    const queue = wanted.slice();
    const lane = async () => {
      for (let next; (next = queue.shift()); ) next.into(await this.fetchOne(next.asset, both, tell));
    };
    try {
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
    } catch (error) {
      stop.abort();
      throw error;
    }
  }

  /** @param {Asset} asset @param {AbortSignal} [signal] @returns {Promise<Uint8Array>} */
  async fetchOne(asset, signal, tell = () => {}) {
    const cache = await this.#cache;
    const url = this.url(asset.path);
    const kept = await cache?.match(url);
    if (kept) {
      const bytes = new Uint8Array(await kept.arrayBuffer());
      // What a browser's disk has made of it is no reason to fail: it is fetched again.
      if (await isSound(bytes, asset)) {
        tell(bytes.length, true);
        return bytes;
      }
      await cache.delete(url);
    }
    // Of two tabs that open at the same time one fetches, and the other finds it in the cache.
    if (cache && globalThis.navigator?.locks && !tell.alone) {
      const alone = Object.assign((...counts) => tell(...counts), { alone: true });
      return navigator.locks.request(url, { signal }, () => this.fetchOne(asset, signal, alone));
    }
    const bytes = await this.#fetchSound(asset, url, signal, tell);
    try {
      await cache?.put(url, new Response(bytes, { headers: { "content-type": typeOf(asset.path) } }));
    } catch {
      // No room: the page works, the next visit downloads again.
    }
    return bytes;
  }

  async #fetchSound(asset, url, signal, tell) {
    let failure;
    for (let tried = 1; ; tried++) {
      let loaded = 0;
      const count = (bytes) => {
        loaded += bytes;
        tell(bytes);
      };
      try {
        const bytes = await receive(asset, url, signal, count, { packed: tried % 2 === 1, again: failure instanceof IntegrityError });
        if (await isSound(bytes, asset)) return bytes;
        if (failure instanceof IntegrityError) failure.final = true;
        failure = Object.assign(new IntegrityError(`${url} is damaged, or of another version than bundle.json: its SHA-256 is not the one named there`), { final: failure?.final });
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        failure = error instanceof DownloadError ? error : new DownloadError(`${url} could not be fetched: ${error.message}`, { cause: error });
      }
      count(-loaded);
      if (tried === TRIES || failure.final) throw failure;
      await pause(250 * 2 ** tried, signal);
    }
  }

  /** Forget what an earlier version of the bundle left in the cache. */
  async prune(paths) {
    const cache = await this.#cache;
    const named = new Set(paths.map((path) => this.url(path)));
    for (const request of (await cache?.keys()) ?? []) if (!named.has(request.url)) await cache.delete(request);
  }
}

/** One attempt; what has come of a file that broke off is dropped: parts are what a lost connection costs. */
async function receive(asset, url, signal, count, { packed, again }) {
  let response = await get(url, signal, again);
  const form = packed && packedForm(response, asset);
  if (form) {
    await response.body?.cancel();
    response = await get(`${url}.${form.suffix}`, signal, again);
  }
  return read(response, asset.size, form?.name, count);
}

/** A service worker answers with what is in the cache, and a module must have its type there, too. */
const typeOf = (path) => (path.endsWith(".mjs") ? "text/javascript" : path.endsWith(".wasm") ? "application/wasm" : "application/octet-stream");

/** Cache Storage where there is any: not in Node, not on plain http, not where a browser forbids it. */
async function openCache(name) {
  try {
    return await globalThis.caches?.open(name);
  } catch {
    return undefined;
  }
}

async function get(url, signal, revalidate) {
  if (IN_NODE && url.startsWith("file:")) {
    const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
    return new Response(await readFile(new URL(url)));
  }
  const response = await fetch(url, { signal, cache: revalidate ? "reload" : "default", credentials: "same-origin" });
  if (response.ok) return response;
  const error = new DownloadError(`${url} could not be fetched: the server answers ${response.status}`);
  error.final = response.status < 500 && response.status !== 408 && response.status !== 429;
  throw error;
}

/**
 * A smaller form to ask for where the host sent the plain file: it has then no Content-Encoding, and the whole length
 * (which other origins may read, too).
 */
function packedForm(response, asset) {
  if (!asset.gzip || response.url.startsWith("file:") || response.headers.get("content-encoding")) return undefined;
  if (Number(response.headers.get("content-length")) !== asset.size) return undefined;
  for (const [name, suffix, size] of [["brotli", "br", asset.brotli], ["gzip", "gz", asset.gzip]]) {
    try {
      if (size && new DecompressionStream(name)) return { name, suffix };
    } catch {
      // Browsers know gzip, and few of them brotli.
    }
  }
  return undefined;
}

/** All of a body, unpacked; `count` is told the bytes as they come. */
async function read(response, size, encoding, count) {
  const stream = encoding ? response.body.pipeThrough(new DecompressionStream(encoding)) : response.body;
  const bytes = new Uint8Array(size);
  let length = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (length + value.length > size) throw new Error(`it has more than its ${size} bytes`);
    bytes.set(value, length);
    length += value.length;
    count(value.length);
  }
  if (length !== size) throw new Error(`the connection ended after ${length} of ${size} bytes`);
  return bytes;
}

async function isSound(bytes, asset) {
  if (bytes.length !== asset.size) return false;
  // Without a secure context a browser has no SubtleCrypto; the size is then all that can be checked.
  if (!globalThis.crypto?.subtle) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `sha256-${btoa(String.fromCharCode(...digest))}` === asset.integrity;
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

function anyOf(signals) {
  const stop = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) stop.abort(signal.reason);
    signal.addEventListener("abort", () => stop.abort(signal.reason), { once: true });
  }
  return stop.signal;
}

/**
 * Where a module of the bundle can be imported from, checked first. That is its own address where `direct`, as the policy
 * of an extension wants it; else a blob, which other origins need no more than CORS for.
 */
export async function moduleAddress(assets, asset, { direct, signal }) {
  const bytes = await assets.fetchOne(asset, signal);
  const url = assets.url(asset.path);
  if (IN_NODE) return url.startsWith("file:") ? url : localCopy(asset.path, bytes);
  return direct ? url : URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
}

/** Node imports files only. */
async function localCopy(path, bytes) {
  const { mkdtemp, writeFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
  const { tmpdir } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:os");
  const { pathToFileURL } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:url");
  const file = `${await mkdtemp(`${tmpdir()}/edgepack-`)}/${path.split("/").pop()}`;
  await writeFile(file, bytes);
  return pathToFileURL(file).href;
}
