// Text embeddings in a browser, Node or Deno, by the bundle that this file lies in. Without a build step and without
// dependencies; everything heavy happens in a worker.
//
//     import { load } from "./embed.mjs";
//     const embedder = await load();                       // or load("https://cdn.example/all-MiniLM-L6-v2/")
//     const [vector] = await embedder.embed(["A man is eating food."]);

const SCHEMA = 1;
// A module with one function that holds `i32.const 0; i8x16.splat; drop`.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];
const inNode = typeof process === "object" && !!process.versions?.node && typeof Deno === "undefined";
const shared = new Map();

/** Something that a user of the bundle can act on; `name` says which kind. */
export class EmbedError extends Error {
  constructor(name, message, options) {
    super(message, options);
    this.name = name;
  }
}

/**
 * Open a bundle: its files are fetched (from the cache on later visits) and its worker starts. Asked for the same bundle
 * with the same options again, it gives the same embedder.
 * @param {string | URL} [url]  the bundle's folder; by default the one that this file lies in
 * @param {import("./embed.d.mts").LoadOptions} [options]
 * @returns {Promise<Embedder>}
 */
export async function load(url = new URL(".", import.meta.url), options = {}) {
  const { signal, onProgress, threads = 1, cache = true, runtime } = options;
  signal?.throwIfAborted();
  const base = folderOf(url);
  const key = JSON.stringify([base, threads, cache, runtime]);
  let entry = shared.get(key);
  if (!entry) {
    const listeners = new Set();
    const tell = (progress) => listeners.forEach((listener) => listener(progress));
    const stop = new AbortController();
    entry = { listeners, stop, waiting: 0 };
    entry.embedder = open(base, { threads, cache, runtime, onProgress: tell, signal: stop.signal }, () => shared.delete(key));
    entry.embedder.catch(() => shared.delete(key));
    shared.set(key, entry);
  }
  if (onProgress) entry.listeners.add(onProgress);
  entry.waiting++;
  try {
    return await abortable(entry.embedder, signal);
  } catch (error) {
    // The last one who gives up ends the download, too.
    if (signal?.aborted && entry.waiting === 1) {
      shared.delete(key);
      entry.stop.abort(signal.reason);
    }
    throw error;
  } finally {
    entry.waiting--;
    entry.listeners.delete(onProgress);
  }
}

async function open(base, options, closed) {
  requireWasm();
  const { text, keep } = await bundleDocument(base, options);
  const bundle = parse(text, base);
  const embedder = new Embedder(base, bundle, options, closed);
  await embedder.ready;
  await keep();
  return embedder;
}

/** What turns texts into vectors; `load` makes one. */
export class Embedder {
  #base;
  #bundle;
  #options;
  #closed;
  #worker;
  #jobs = new Map();
  #next = 1;
  #runtime;
  #over = false;

  constructor(base, bundle, options, closed) {
    this.#base = base;
    this.#bundle = bundle;
    this.#options = options;
    this.#closed = closed;
    this.#runtime = chooseRuntime(bundle, options);
    /** @type {{times: Record<string, number>, transferred: number, runtime: string}} */
    this.loaded = undefined;
    this.ready = this.#start(options);
  }

  /** What this bundle is: name, dimension, longest text in tokens, prefixes, shorter dimensions. */
  get info() {
    const { name, model, downloads } = this.#bundle;
    const { dimension, maxLength, prefixes, matryoshka } = model;
    return { name, dimension, maxLength, prefixes, dimensions: matryoshka?.dimensions ?? [], runtime: this.#runtime.name, downloads };
  }

  /**
   * @param {string | string[]} texts
   * @param {import("./embed.d.mts").EmbedOptions} [options]
   * @returns {Promise<Float32Array[]>}  a vector for each text, in their order
   */
  async embed(texts, { prefix, dim, signal, onProgress } = {}) {
    signal?.throwIfAborted();
    const list = typeof texts === "string" ? [texts] : Array.from(texts);
    list.forEach(requireText);
    const { prefixes = {}, matryoshka, dimension } = this.#bundle.model;
    if (prefix !== undefined && prefixes[prefix] === undefined) throw new EmbedError("RangeError", noPrefix(prefix, prefixes));
    const shorter = matryoshka?.dimensions ?? [];
    if (dim !== undefined && dim !== dimension && !shorter.includes(dim)) throw new EmbedError("RangeError", noDimension(dim, dimension, shorter));
    if (this.#over) throw new EmbedError("ClosedError", "this embedder was closed; load() opens another");
    if (!list.length) return [];
    const before = prefix === undefined ? "" : prefixes[prefix];
    await this.ready;
    return this.#ask({ task: "embed", texts: before ? list.map((text) => before + text) : list, dimension: dim }, { signal, onProgress });
  }

  /** Whether the bundle makes the vectors that it made when it was built: the lowest cosine of the golden texts. */
  async selfTest() {
    const golden = JSON.parse(await textOf(new URL("golden.json", this.#base), {}));
    const vectors = await this.embed(golden.texts);
    const lowest = Math.min(...vectors.map((vector, index) => cosine(vector, golden.vectors[index])));
    return { passed: lowest >= golden.tolerance, lowest };
  }

  /** Ends the worker and gives its memory back. */
  close() {
    this.#over = true;
    this.#closed();
    this.#worker?.terminate();
    for (const { reject } of this.#jobs.values()) reject(new EmbedError("ClosedError", "this embedder was closed"));
    this.#jobs.clear();
  }

  async #start({ signal, onProgress }) {
    const { threads, cache } = this.#options;
    const direct = inNode || !globalThis.location || new URL(this.#base).origin === globalThis.location.origin;
    this.#worker = await spawn(this.#base, this.#bundle.worker, direct, (message) => this.#receive(message), (error) => this.#fail(error));
    const begun = { task: "start", base: this.#base, bundle: this.#bundle, runtime: this.#runtime, keep: cache, direct, threads };
    try {
      const result = await this.#ask(begun, { signal, onProgress });
      this.loaded = { ...result, runtime: this.#runtime.name };
    } catch (error) {
      if (!this.#over && !this.#fallBack(error)) {
        this.#worker?.terminate();
        throw error;
      }
      await this.#start({ signal, onProgress });
    }
  }

  #ask(message, { signal, onProgress }) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#worker.postMessage({ task: "stop", id });
        this.#jobs.delete(id);
        reject(signal.reason);
      };
      signal?.addEventListener("abort", stop, { once: true });
      const done = (settle) => (value) => {
        signal?.removeEventListener("abort", stop);
        settle(value);
      };
      // In Node a worker that nobody waits for does not keep the program from ending.
      this.#worker.ref?.();
      this.#jobs.set(id, { message: { ...message, id }, resolve: done(resolve), reject: done(reject), onProgress });
      this.#worker.postMessage({ ...message, id });
    });
  }

  #receive({ id, result, error, progress }) {
    const job = this.#jobs.get(id);
    if (!job) return;
    if (progress) return job.onProgress?.(progress);
    if (error && error.trap && job.message.task === "embed") return this.#restart(error);
    this.#jobs.delete(id);
    if (error) job.reject(Object.assign(new EmbedError(error.name, error.message), { trap: error.trap }));
    else job.resolve(result);
    if (!this.#jobs.size) this.#worker.unref?.();
  }

  /** A function that this bundle's runtime left out was called after all: the whole runtime takes over. */
  #fallBack(error) {
    const whole = this.#bundle.runtimes.find(({ name }) => name === "stock");
    if (!error.trap || !whole || this.#runtime === whole) return false;
    this.#worker?.terminate();
    this.#runtime = whole;
    return true;
  }

  #restart(error) {
    const failed = Object.assign(new EmbedError(error.name, error.message), { trap: true });
    const jobs = [...this.#jobs.values()];
    this.#jobs.clear();
    const again = this.#fallBack(failed);
    if (!again) {
      this.#worker?.terminate();
      // The runtime's memory is not to be trusted any more; what asks next gets a new one.
      for (const job of jobs) job.reject(failed);
    }
    this.ready = this.#start({});
    this.ready.catch(() => {});
    if (again) this.ready.then(
      () => jobs.forEach((job) => this.#ask(job.message, job).then(job.resolve, job.reject)),
      (reason) => jobs.forEach((job) => job.reject(reason)),
    );
  }

  #fail(error) {
    for (const { reject } of this.#jobs.values()) reject(new EmbedError("WorkerError", `the worker ended: ${error?.message ?? error}`));
    this.#jobs.clear();
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

function folderOf(url) {
  const here = globalThis.document?.baseURI ?? globalThis.location?.href ?? import.meta.url;
  const absolute = new URL(url, inNode ? import.meta.url : here);
  absolute.search = absolute.hash = "";
  const folder = absolute.href.replace(/\/(bundle\.json|embed\.mjs|index\.html)$/, "/");
  return folder.endsWith("/") ? folder : `${folder}/`;
}

function requireWasm() {
  if (typeof WebAssembly !== "object") throw new EmbedError("UnsupportedError", "this browser has no WebAssembly, or the page's Content-Security-Policy forbids it (script-src 'wasm-unsafe-eval' allows it)");
  if (!WebAssembly.validate(new Uint8Array(SIMD))) throw new EmbedError("UnsupportedError", "this browser has no WebAssembly SIMD, which the model needs: Chrome 91, Firefox 89, Safari 16.4 and newer have it");
}

function chooseRuntime(bundle, { threads, runtime }) {
  if (!Number.isInteger(threads) || threads < 1) throw new EmbedError("RangeError", `threads is ${threads}, expected a whole number from 1`);
  const named = runtime === undefined ? bundle.runtimes : bundle.runtimes.filter(({ name }) => name === runtime);
  const able = named.find((each) => threads === 1 || each.threads);
  if (!named.length) throw new EmbedError("RangeError", `this bundle has no runtime ${runtime}: it has ${bundle.runtimes.map(({ name }) => name).join(", ")}`);
  if (!able) throw new EmbedError("UnsupportedError", 'this bundle\'s runtime has one thread; one with threads = true, or with fallback = "stock", can have more');
  if (threads > 1 && !inNode && !globalThis.crossOriginIsolated)
    throw new EmbedError("UnsupportedError", "more than one thread needs a cross-origin isolated page: serve it with Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp (edgepack serve-web does), or ask for one thread");
  return able;
}

async function textOf(url, { signal }) {
  if (inNode && url.protocol === "file:") return (await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:fs/promises")).readFile(url, "utf8");
  const response = await fetch(url, { signal, cache: "no-cache" });
  if (!response.ok) throw new EmbedError("DownloadError", `${url} could not be fetched: the server answers ${response.status}`);
  return response.text();
}

/** bundle.json from the network; without one, as it was when everything that it names was fetched. */
async function bundleDocument(base, { cache, signal }) {
  const url = new URL("bundle.json", base);
  const store = cache ? await Promise.resolve(globalThis.caches?.open(`edgepack:${base}`)).catch(() => undefined) : undefined;
  try {
    const text = await textOf(url, { signal });
    return { text, keep: () => store?.put(url.href, new Response(text)).catch(() => {}) };
  } catch (error) {
    signal?.throwIfAborted();
    const kept = await store?.match(url.href);
    if (kept) return { text: await kept.text(), keep: () => {} };
    throw error instanceof EmbedError ? error : new EmbedError("DownloadError", `${url} could not be fetched: ${error.message}`, { cause: error });
  }
}

function parse(text, base) {
  let bundle;
  try {
    bundle = JSON.parse(text);
  } catch {
    throw new EmbedError("BundleError", `${base}bundle.json is not a bundle's: is this the folder that edgepack made?`);
  }
  if (bundle?.schema !== SCHEMA) throw new EmbedError("BundleError", `${base}bundle.json has schema ${bundle?.schema}, this embed.mjs reads schema ${SCHEMA}: take the one that lies beside it`);
  return bundle;
}

/** A worker of the bundle's own code. From another origin it starts from a blob, which is why that needs CORS. */
async function spawn(base, asset, direct, onMessage, onError) {
  const url = new URL(asset.path, base);
  if (inNode) {
    const { Worker: NodeWorker } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:worker_threads");
    const code = url.protocol === "file:" ? url : new URL(`data:text/javascript,${encodeURIComponent(await verifiedText(url, asset))}`);
    const worker = new NodeWorker(code);
    worker.on("message", onMessage);
    worker.on("error", onError);
    return worker;
  }
  let address = url.href;
  if (!direct) address = URL.createObjectURL(new Blob([await verifiedText(url, asset)], { type: "text/javascript" }));
  const worker = new Worker(address, { type: "module", name: "edgepack" });
  worker.onmessage = ({ data }) => onMessage(data);
  worker.onerror = (event) => {
    event.preventDefault?.();
    onError(new Error(event.message ?? `${url} does not start`));
  };
  return worker;
}

async function verifiedText(url, asset) {
  const response = await fetch(url, { integrity: asset.integrity });
  if (!response.ok) throw new EmbedError("DownloadError", `${url} could not be fetched: the server answers ${response.status}`);
  return response.text();
}

function abortable(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

function requireText(text, index) {
  if (typeof text !== "string") throw new TypeError(`text ${index} is ${text === null ? "null" : `a ${typeof text}`}, not a string`);
}

function noPrefix(prefix, prefixes) {
  const known = Object.keys(prefixes);
  return known.length ? `this model has no prefix ${prefix}: it has ${known.join(", ")}` : "this model wants no prefix before its texts";
}

function noDimension(dim, dimension, shorter) {
  const why = shorter.length ? `it gives ${[...shorter, dimension].join(", ")}` : `it was not trained for shorter vectors than ${dimension}`;
  return `this model gives no vectors of ${dim} numbers: ${why}`;
}
