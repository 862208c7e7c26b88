// Text embeddings in a browser, Node or Deno, by the bundle that this file lies in. Without a build step and without
// dependencies; everything heavy happens in a worker.
//
//     import { load } from "./embed.mjs";
//     const embedder = await load();                       // or load("https://cdn.example/all-MiniLM-L6-v2/")
//     const [vector] = await embedder.embed(["A man is eating food."]);

import { chooseRuntime, folderOf, parseBundle, readBundle, requireWasm, textOf, usualThreads, wholeRuntime } from "./document.mjs";
import { EmbedError } from "./errors.mjs";
import { openLink } from "./link.mjs";
import { abortable, inNode } from "./platform.mjs";

// Not in one expression: bundlers take `new URL("…", import.meta.url)` for a file that they are to copy.
const own = import.meta.url;
const shared = new Map();

/**
 * Open a bundle: its files are fetched (from the cache on later visits) and its worker starts. Asked for the same bundle
 * with the same options again, it gives the same embedder.
 * @param {string | URL} [url]  the bundle's folder; by default the one that this file lies in
 * @param {import("./embed.d.mts").LoadOptions} [options]
 * @returns {Promise<Embedder>}
 */
export async function load(url = new URL(".", own), options = {}) {
  const { signal, onProgress, onRestart, threads, cache = true, runtime } = options;
  signal?.throwIfAborted();
  const base = folderOf(url, own);
  const key = JSON.stringify([base, threads, cache, runtime]);
  const entry = shared.get(key) ?? begin(key, base, { threads, cache, runtime });
  if (onProgress) entry.progress.add(onProgress);
  if (onRestart) entry.restart.add(onRestart);
  entry.waiting++;
  try {
    const embedder = await abortable(entry.embedder, signal);
    entry.given = true;
    return embedder;
  } catch (error) {
    entry.restart.delete(onRestart);
    // The last one who gives up ends the download, too.
    if (signal?.aborted && entry.waiting === 1 && !entry.given) entry.abandon(signal.reason);
    throw error;
  } finally {
    entry.waiting--;
    entry.progress.delete(onProgress);
  }
}

/** Start loading what nobody has asked for yet. */
function begin(key, base, options) {
  const [progress, restart, stop] = [new Set(), new Set(), new AbortController()];
  const forget = () => shared.get(key) === entry && shared.delete(key);
  const tell = (listeners) => (event) => listeners.forEach((listener) => listener(event));
  // One that nobody was given makes room for another under the same key.
  const how = { ...options, signal: stop.signal, onProgress: tell(progress), onRestart: tell(restart), onClose: () => entry.given && forget() };
  const entry = { progress, restart, waiting: 0, given: false, embedder: open(base, how) };
  entry.embedder.catch(forget);
  entry.abandon = (reason) => {
    forget();
    stop.abort(reason);
    // It may have been there a moment before.
    entry.embedder.then((embedder) => embedder.close(), () => {});
  };
  shared.set(key, entry);
  return entry;
}

async function open(base, { signal, onProgress, ...asked }) {
  requireWasm();
  const { kept, newest, keep } = readBundle(base, { ...asked, signal });
  const made = async (text) => {
    const bundle = parseBundle(text, base);
    const options = { ...asked, threads: asked.threads ?? usualThreads(bundle, asked) };
    return new Embedder(base, bundle, options, await chooseRuntime(bundle, options));
  };
  // A host seldom has another than was kept, which starts while it is asked.
  const early = kept && (await made(kept).catch(() => {}));
  const begun = early?.begin({ signal, onProgress });
  begun?.catch(() => {});
  const text = await newest.catch((error) => {
    early?.close();
    throw error;
  });
  if (early && text === kept) {
    await begun;
    // A user can clear Cache Storage alone, which a visit without a network needs.
    keep(text);
    return early;
  }
  early?.close();
  const embedder = await made(text);
  await embedder.begin({ signal, onProgress });
  await keep(text);
  return embedder;
}

/** What turns texts into vectors; `load` makes one. */
export class Embedder {
  #base;
  #bundle;
  #options;
  #runtime;
  #link;
  /** Settled when a worker is there to be asked; nothing while there is none, so that the next question starts one. */
  #ready;
  #starting = false;
  /** What was asked and not answered yet, by number. */
  #jobs = new Map();
  #next = 1;
  #over = false;

  constructor(base, bundle, options, runtime) {
    this.#base = base;
    this.#bundle = bundle;
    this.#options = options;
    this.#runtime = runtime;
    /** @type {import("./embed.d.mts").Embedder["loaded"]} */
    this.loaded = undefined;
  }

  /** What this bundle is: name, dimension, longest text in tokens, prefixes, shorter dimensions. */
  get info() {
    const { name, model, runtimes } = this.#bundle;
    const { downloads = this.#bundle.downloads } = this.#runtime;
    const { dimension, maxLength, prefixes, matryoshka } = model;
    return { name, dimension, maxLength, prefixes, dimensions: matryoshka?.dimensions ?? [], runtime: this.#runtime.name, runtimes: runtimes.map((each) => each.name), downloads };
  }

  /**
   * @param {string | Iterable<string>} texts
   * @param {import("./embed.d.mts").EmbedOptions} [options]
   * @returns {Promise<Float32Array[]>}  a vector for each text, in their order
   */
  async embed(texts, { prefix, dim, signal, onProgress } = {}) {
    signal?.throwIfAborted();
    if (typeof texts !== "string") requireTexts(texts);
    const list = typeof texts === "string" ? [texts] : Array.from(texts);
    list.forEach(requireText);
    const { prefixes = {}, matryoshka, dimension } = this.#bundle.model;
    if (prefix !== undefined && !Object.hasOwn(prefixes, prefix)) throw new EmbedError("RangeError", noPrefix(prefix, prefixes));
    const shorter = matryoshka?.dimensions ?? [];
    if (dim !== undefined && dim !== dimension && !shorter.includes(dim)) throw new EmbedError("RangeError", noDimension(dim, dimension, shorter));
    this.#requireOpen();
    if (!list.length) return [];
    const before = prefix === undefined ? "" : prefixes[prefix];
    await abortable(this.begin(), signal);
    return this.#ask({ task: "embed", texts: before ? list.map((text) => before + text) : list, dimension: dim }, { signal, onProgress });
  }

  /** Whether the bundle makes the vectors that it made when it was built: the lowest cosine of the golden texts. */
  async selfTest() {
    // A runtime with a model of its own has vectors of its own.
    const { path = "golden.json", integrity } = this.#runtime.golden ?? {};
    const url = new URL(path, this.#base);
    const golden = readGolden(await textOf(url, { integrity }), url, this.#bundle.model.dimension);
    const vectors = await this.embed(golden.texts);
    const lowest = Math.min(...vectors.map((vector, index) => cosine(vector, golden.vectors[index])));
    return { passed: lowest >= golden.tolerance, lowest };
  }

  /** Ends the worker and gives its memory back. */
  close() {
    if (this.#over) return;
    this.#over = true;
    this.#options.onClose();
    this.#end();
    this.#rejectAll(closed());
  }

  /** A worker that is ready; of several who ask at once all wait for the same one. For `load`. */
  begin(how = {}) {
    if (!this.#ready) {
      this.#starting = true;
      const failed = (error) => {
        this.#ready = undefined;
        throw error;
      };
      this.#ready = this.#start(how).catch(failed).finally(() => (this.#starting = false));
    }
    return this.#ready;
  }

  async #start({ signal, onProgress }) {
    for (;;) {
      await this.#connect(signal);
      const { threads, cache } = this.#options;
      const message = { task: "start", base: this.#base, bundle: this.#bundle, runtime: this.#runtime, keep: cache, direct: this.#isDirect(), threads };
      try {
        const result = await this.#ask(message, { signal, onProgress });
        this.loaded = { ...result, runtime: this.#runtime.name, threads };
        return;
      } catch (error) {
        this.#end();
        if (this.#over || signal?.aborted || !this.#fallBack(error)) throw error;
      }
    }
  }

  async #connect(signal) {
    this.#requireOpen();
    let link;
    const mine = (action) => (...values) => link && link === this.#link && action(...values);
    const listeners = { onMessage: mine((message) => this.#receive(message)), onError: mine((error) => this.#fail(error)) };
    link = await openLink(this.#base, this.#bundle.worker, { direct: this.#isDirect(), signal, ...listeners });
    if (this.#over || signal?.aborted) {
      link.end();
      throw this.#over ? closed() : signal.reason;
    }
    this.#link = link;
  }

  #end() {
    this.#link?.end();
    this.#link = undefined;
  }

  /** Whether workers and modules can be named by their own address: those of other origins cannot. */
  #isDirect() {
    const { location, origin } = globalThis;
    const { protocol, host } = new URL(this.#base);
    if (inNode || !location) return protocol === "file:";
    // A sandboxed frame has an address, but is of no origin.
    return origin !== "null" && protocol === location.protocol && host === location.host;
  }

  #ask(message, { signal, onProgress }) {
    this.#requireOpen();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#link?.post({ task: "stop", id });
        this.#settle(id, "reject", signal.reason);
      };
      const quiet = () => signal?.removeEventListener("abort", stop);
      this.#jobs.set(id, { message: { ...message, id }, resolve, reject, onProgress, quiet });
      if (signal?.aborted) return stop();
      signal?.addEventListener("abort", stop, { once: true });
      this.#link.hold(true);
      this.#link.post({ ...message, id });
    });
  }

  #settle(id, how, value) {
    const job = this.#jobs.get(id);
    this.#jobs.delete(id);
    job.quiet();
    job[how](value);
    if (!this.#jobs.size) this.#link?.hold(false);
  }

  #rejectAll(error) {
    for (const id of [...this.#jobs.keys()]) this.#settle(id, "reject", error);
  }

  #receive({ id, result, error, progress }) {
    const job = this.#jobs.get(id);
    if (!job) return;
    if (progress) return job.onProgress?.(progress);
    if (!error) return this.#settle(id, "resolve", result);
    const failure = Object.assign(new EmbedError(error.name, error.message), { trap: error.trap });
    if (error.trap && job.message.task === "embed") this.#restart(id, failure);
    else this.#settle(id, "reject", failure);
  }

  /** Whether another runtime takes over from one that lacks a function after all. */
  #fallBack(error) {
    const whole = wholeRuntime(this.#bundle, this.#runtime);
    if (!whole || !error.trap) return false;
    this.#runtime = whole;
    this.#options.onRestart({ runtime: whole.name, size: whole.wasm.size, reason: error.message });
    return true;
  }

  /**
   * A runtime that trapped is not to be trusted any more: a new one answers what is still open. Where there is no other
   * than the same again, the question that it trapped on is not asked twice.
   */
  #restart(culprit, failure) {
    this.#end();
    this.#ready = undefined;
    if (!this.#fallBack(failure)) this.#settle(culprit, "reject", stopped(this.#runtime, failure));
    if (!this.#jobs.size) return;
    const waiting = [...this.#jobs.keys()];
    this.begin().then(
      () => waiting.forEach((id) => this.#jobs.has(id) && this.#link.post(this.#jobs.get(id).message)),
      (reason) => waiting.forEach((id) => this.#jobs.has(id) && this.#settle(id, "reject", reason)),
    );
  }

  /** The worker is gone; what is asked next starts another. */
  #fail(error) {
    this.#end();
    // While one is starting, that attempt itself says that it failed.
    if (!this.#starting) this.#ready = undefined;
    this.#rejectAll(new EmbedError("WorkerError", `the worker ended: ${error?.message ?? error}`));
  }

  #requireOpen() {
    if (this.#over) throw closed();
  }
}

/** Cosine of two vectors of any length; of vectors of length 1 their product. */
export function cosine(a, b) {
  let [product, left, right] = [0, 0, 0];
  for (let at = 0; at < a.length; at++) {
    product += a[at] * b[at];
    left += a[at] * a[at];
    right += b[at] * b[at];
  }
  return product / (Math.sqrt(left * right) || 1);
}

function readGolden(text, url, dimension) {
  try {
    const golden = JSON.parse(text);
    const whole = golden.vectors.length === golden.texts.length && golden.vectors.every(({ length }) => length === dimension);
    if (whole && golden.texts.length > 0 && golden.tolerance > 0) return golden;
  } catch {
    // Said below.
  }
  throw new EmbedError("BundleError", `${url} does not hold this bundle's golden texts`);
}

const closed = () => new EmbedError("ClosedError", "this embedder was closed; load() opens another");

function stopped({ name, gpu }, { message }) {
  const lean = gpu || name === "stock" || name === "engine" ? "" : "; it may lack a function that this text needs: --set fallback=stock puts the whole runtime beside it";
  return new EmbedError("RuntimeError", `this bundle's runtime (${name}) stopped: ${message}${lean}`);
}

function requireText(text, index) {
  if (typeof text !== "string") throw new TypeError(`text ${index} is ${kindOf(text)}, not a string`);
}

/** `Array.from` makes an empty array of a number. */
function requireTexts(texts) {
  if (typeof texts?.[Symbol.iterator] !== "function") throw new TypeError(`embed takes a string or several; this is ${kindOf(texts)}`);
}

function kindOf(value) {
  return value === null || value === undefined ? String(value) : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
}

function noPrefix(prefix, prefixes) {
  const known = Object.keys(prefixes);
  return known.length ? `this model has no prefix ${prefix}: it has ${known.join(", ")}` : "this model wants no prefix before its texts";
}

function noDimension(dim, dimension, shorter) {
  const why = shorter.length ? `it gives ${[...shorter, dimension].join(", ")}` : `it was not trained for shorter vectors than ${dimension}`;
  return `this model gives no vectors of ${dim} numbers: ${why}`;
}

export { EmbedError };
