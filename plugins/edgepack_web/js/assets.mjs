// The bundle's files: fetched in parts, checked by their SHA-256, kept for visits without a network.

import { openKept } from "./kept.mjs";
import { addressOf, inNode } from "./platform.mjs";

const TRIES = 4;
const AT_ONCE = 3;
/** Milliseconds without a byte after which a connection counts as lost. */
const PATIENCE = 30_000;

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
 * @typedef {{bytes: Uint8Array, sums?: () => number[]}} Room  `sums`: of its first numbers (sums.mjs)
 * @typedef {(event: {loaded: number, total: number, cached: number}) => void} OnProgress
 */

/** The files of one bundle. */
export class Assets {
  #store;
  /** Endings of files that this host sends as they are: of those the compressed copies are asked for at once. */
  #plain = new Set();

  /**
   * @param {string} base  the bundle's folder, with a slash at its end
   * @param {boolean} keep
   * @param {{patience?: number}} [options]
   */
  constructor(base, keep, { patience = PATIENCE } = {}) {
    this.base = base;
    this.patience = patience;
    this.#store = keep ? openKept(base) : undefined;
  }

  url(path) {
    return new URL(path, this.base).href;
  }

  /**
   * Every asset into a place of its own.
   * @param {{asset: Asset, into: (bytes: Uint8Array) => void, room?: () => Promise<Room>}[]} wanted  what is
   *   kept is read into its room
   * @param {{signal?: AbortSignal, onProgress?: OnProgress}} options
   */
  async fetchAll(wanted, { signal, onProgress }) {
    const total = wanted.reduce((sum, { asset }) => sum + asset.size, 0);
    const stop = new AbortController();
    const { either, release } = eitherOf(signal, stop.signal);
    const counts = { loaded: 0, cached: 0 };
    const tell = (bytes, cached = false) => {
      counts.loaded += bytes;
      if (cached) counts.cached += bytes;
      onProgress?.({ ...counts, total });
    };
    const turn = turns(AT_ONCE);
    // Small files first: code and words are made ready while the model is still read.
    const order = [...wanted].sort((one, other) => one.asset.size - other.asset.size);
    try {
      // What is kept is asked for all at once.
      await Promise.all(order.map(async ({ asset, room, into }) =>
        into((await this.#kept(asset, tell, room)) ?? (await turn(() => this.fetchOne(asset, either, tell)))),
      ));
    } catch (error) {
      stop.abort();
      throw error;
    } finally {
      release();
    }
  }

  /** @param {Asset} asset @param {AbortSignal} [signal] @returns {Promise<Uint8Array>} */
  async fetchOne(asset, signal, tell = () => {}) {
    const kept = await this.#kept(asset, tell);
    if (kept) return kept;
    const store = await this.#store?.ready();
    const url = this.url(asset.path);
    // Of two tabs that open at the same time one fetches, and the other finds it kept.
    if (store && globalThis.navigator?.locks && !tell.alone) {
      const alone = Object.assign((...counts) => tell(...counts), { alone: true });
      return navigator.locks.request(url, { signal }, () => this.fetchOne(asset, signal, alone));
    }
    const bytes = await this.#fetchSound(asset, url, signal, tell);
    try {
      await store?.put(url, bytes, typeOf(asset.path));
    } catch {
      // No room: the page works, the next visit downloads again.
    }
    return bytes;
  }

  /** Nothing where there is none. What a browser's disk has made of one is no reason to fail: another is put in its place. */
  async #kept(asset, tell, room) {
    const url = this.url(asset.path);
    let kept = await this.#store?.file(url, asset.size, room);
    if (!kept) {
      kept = await this.#store?.cached(url);
      if (!kept || !(await isSound(kept, asset))) return undefined;
    }
    tell(kept.length, true);
    return kept;
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
        const bytes = await this.#receive(asset, url, signal, count, { packed: tried % 2 === 1, again: failure instanceof IntegrityError });
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

  /** One attempt; what has come of a file that broke off is dropped: parts are what a lost connection costs. */
  async #receive(asset, url, signal, count, { packed, again }) {
    const watch = patience(signal, this.patience);
    const ending = url.slice(url.lastIndexOf("."));
    const form = packed ? packedForm(asset) : undefined;
    const read = (response, encoding) => readAll(response, asset.size, encoding, (bytes) => (watch.wait(), count(bytes)));
    try {
      if (form && this.#plain.has(ending)) {
        const copy = await get(`${url}.${form.suffix}`, watch.signal, again);
        // A host without the copies.
        if (copy.ok) return await read(copy, encodingOf(copy) ? undefined : form.name);
        await copy.body?.cancel();
        this.#plain.delete(ending);
        return await read(requireOk(await get(url, watch.signal, again)));
      }
      const response = requireOk(await get(url, watch.signal, again));
      if (!form || !isPlain(response, asset)) return await read(response);
      const copy = await get(`${url}.${form.suffix}`, watch.signal, again).catch(() => undefined);
      if (!copy?.ok) return await read(response);
      await response.body?.cancel();
      this.#plain.add(ending);
      return await read(copy, encodingOf(copy) ? undefined : form.name);
    } finally {
      watch.end();
    }
  }
}

/** A service worker answers with what is in the cache, and a module must have its type there, too. */
const typeOf = (path) => (path.endsWith(".mjs") ? "text/javascript" : path.endsWith(".wasm") ? "application/wasm" : "application/octet-stream");

async function get(url, signal, revalidate) {
  if (inNode && url.startsWith("file:")) {
    const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
    return new Response(await readFile(new URL(url)));
  }
  return fetch(url, { signal, cache: revalidate ? "reload" : "default", credentials: "same-origin" });
}

function requireOk(response) {
  if (response.ok) return response;
  const { status, url } = response;
  const error = new DownloadError(`${url} could not be fetched: the server answers ${status}`);
  error.final = status < 500 && status !== 408 && status !== 429;
  throw error;
}

const encodingOf = (response) => response.headers.get("content-encoding");

/** Whether a host sent the file as it lies there: without Content-Encoding, at its whole length (which other origins may read, too). */
function isPlain(response, { size }) {
  return !response.url.startsWith("file:") && !encodingOf(response) && Number(response.headers.get("content-length")) === size;
}

/** The smallest compressed copy that can be unpacked here. Browsers know gzip, and few of them brotli. */
function packedForm({ brotli, gzip }) {
  for (const [name, suffix, size] of [["brotli", "br", brotli], ["gzip", "gz", gzip]]) {
    try {
      if (size && new DecompressionStream(name)) return { name, suffix };
    } catch {
      // The next one.
    }
  }
  return undefined;
}

/** All of a body, unpacked; `count` is told the bytes as they come. */
async function readAll(response, size, encoding, count) {
  const stream = encoding ? response.body.pipeThrough(new DecompressionStream(encoding)) : response.body;
  const bytes = new Uint8Array(size);
  let length = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (length + value.length > size) {
      reader.cancel().catch(() => {});
      throw new Error(`it has more than its ${size} bytes`);
    }
    bytes.set(value, length);
    length += value.length;
    count(value.length);
  }
  if (length !== size) throw new Error(`the connection ended after ${length} of ${size} bytes`);
  return bytes;
}

/** A signal that aborts when the other does, and when nobody called `wait` for too long. */
function patience(signal, milliseconds) {
  const stop = new AbortController();
  const give = () => stop.abort(signal.reason);
  let timer;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(new Error(`nothing came for ${milliseconds / 1000} seconds`)), milliseconds);
  };
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", give);
  };
  if (signal?.aborted) give();
  signal?.addEventListener("abort", give, { once: true });
  wait();
  return { signal: stop.signal, wait, end };
}

async function isSound(bytes, asset) {
  if (bytes.length !== asset.size) return false;
  // Without a secure context a browser has no SubtleCrypto; the size is then all that can be checked.
  if (!globalThis.crypto?.subtle) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `sha256-${btoa(String.fromCharCode(...digest))}` === asset.integrity;
}

/** What lets so many do their work at once, and has the others wait. */
function turns(free) {
  const waiting = [];
  return async (work) => {
    if (free === 0) await new Promise((resolve) => waiting.push(resolve));
    else free--;
    try {
      return await work();
    } finally {
      if (waiting.length) waiting.shift()();
      else free++;
    }
  };
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), milliseconds);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A signal that aborts with the first of two, and a function that lets go of both. */
function eitherOf(signal, other) {
  if (!signal) return { either: other, release: () => {} };
  const stop = new AbortController();
  const give = ({ target }) => stop.abort(target.reason);
  for (const each of [signal, other]) {
    if (each.aborted) give({ target: each });
    each.addEventListener("abort", give, { once: true });
  }
  return { either: stop.signal, release: () => [signal, other].forEach((each) => each.removeEventListener("abort", give)) };
}

/**
 * Where a module of the bundle can be imported from, checked first, and what forgets it again. That is its own address
 * where `direct`, as the policy of an extension wants it; else a blob, which other origins need no more than CORS for.
 * @returns {Promise<{address: string, release: () => void}>}
 */
export async function moduleAddress(assets, asset, { direct, signal }) {
  const bytes = await assets.fetchOne(asset, signal);
  const url = assets.url(asset.path);
  if (inNode && !url.startsWith("file:")) return localCopy(asset.path, bytes);
  if (direct) return { address: url, release: () => {} };
  return addressOf(new TextDecoder().decode(bytes));
}

/** Node imports files only. */
async function localCopy(path, bytes) {
  const { mkdtemp, rm, writeFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises");
  const { tmpdir } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:os");
  const { pathToFileURL } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:url");
  const folder = await mkdtemp(`${tmpdir()}/edgepack-`);
  const file = `${folder}/${path.split("/").pop()}`;
  await writeFile(file, bytes);
  return { address: pathToFileURL(file).href, release: () => rm(folder, { recursive: true, force: true }).catch(() => {}) };
}
