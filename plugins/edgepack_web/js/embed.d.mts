// Types of embed.mjs.

/** Bytes of the bundle's files while they come; `cached` of the loaded ones needed no network. */
export interface DownloadProgress {
  loaded: number;
  total: number;
  cached: number;
}

export interface Restart {
  /** Which runtime takes over, and what it weighs before compression; it is fetched now. */
  runtime: string;
  size: number;
  reason: string;
}

export interface LoadOptions {
  /** Gives up; what nobody else waits for is no longer downloaded. */
  signal?: AbortSignal;
  onProgress?: (progress: DownloadProgress) => void;
  /** Told when another runtime takes over: this one lacked a function after all. Nothing is lost. */
  onRestart?: (restart: Restart) => void;
  /**
   * Threads of the runtime; more than one need a cross-origin isolated page and a bundle whose runtime has them. By default
   * one a processor, four at most, in such a page with such a bundle; 1 elsewhere, in Node and in Deno.
   */
  threads?: number;
  /** Keep files in the browser's storage, for visits without a network; true by default. */
  cache?: boolean;
  /**
   * One of the bundle's runtimes by name, e.g. "stock"; by default its first that can run here with as many threads as asked
   * for. "webgpu" is taken only where it is named, has a model of its own, and so vectors of its own: do not mix them with
   * the others' in one index. Where a browser has no GPU to give it is an UnsupportedError.
   */
  runtime?: string;
}

export interface EmbedOptions {
  /** What the model was trained to see before such a text: "query" or "passage", where it knows them. */
  prefix?: "query" | "passage" | (string & {});
  /** A shorter vector, where the model was trained for it. */
  dim?: number;
  signal?: AbortSignal;
  onProgress?: (progress: { done: number; total: number }) => void;
}

export interface BundleInfo {
  name: string;
  dimension: number;
  /** Tokens; longer texts are cut. */
  maxLength: number;
  prefixes: Record<string, string>;
  /** Shorter dimensions that `dim` takes. */
  dimensions: number[];
  runtime: string;
  /** Names that `load` takes for `runtime`. */
  runtimes: string[];
  /** Bytes of a first visit's assets: plain, and as the compressed copies beside them. */
  downloads: { size: number; gzip: number; brotli: number };
}

/** `name`: DownloadError, IntegrityError, BundleError, UnsupportedError, RangeError, ClosedError, RuntimeError, WorkerError. */
export class EmbedError extends Error {
  constructor(name: string, message: string, options?: ErrorOptions);
}

export class Embedder {
  private constructor();
  readonly info: BundleInfo;
  /** How loading went: milliseconds until each step was done, and bytes on the wire where the browser tells. */
  readonly loaded: {
    times: { downloaded: number; runtime: number; session: number; tokenizer: number };
    transferred: number;
    runtime: string;
    threads: number;
  };
  /** A vector for each text, in their order; of length 1 where the model normalises. */
  embed(texts: string | Iterable<string>, options?: EmbedOptions): Promise<Float32Array[]>;
  /** Whether the golden texts still get the vectors of the build. */
  selfTest(): Promise<{ passed: boolean; lowest: number }>;
  close(): void;
}

/** Opens the bundle in a folder, by default the one that embed.mjs lies in; the same bundle is opened once. */
export function load(url?: string | URL, options?: LoadOptions): Promise<Embedder>;

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number;
