export interface Options {
  /** Texts at once. */
  batchSize?: number;
  /** Tokens that count of a text, special ones included. */
  maxLength?: number;
  /** Only the first so many numbers, for models that were trained for it. */
  dimension?: number;
  /** Threads of the processor. */
  threads?: number;
  /** What the model wants before such a text. */
  prefix?: "query" | "passage";
  /** ECDSA P-256 in PEM: the bundle has to be signed with it. */
  publicKey?: string;
  /** Another file than lib/libembed.so in the bundle's folder, for a bundle that is one file. */
  library?: string;
}

/** What the library refuses is an Error whose code is as the program's exit codes. */
export class Bundle {
  private constructor(handle: unknown);
  static open(folder?: string, options?: Options): Bundle;
  readonly dimension: number;
  embed(text: string): Promise<Float32Array>;
  embed(texts: Iterable<string>): Promise<Float32Array[]>;
  tokens(text: string): Uint32Array;
  similarity(first: string, second: string): Promise<number>;
  close(): Promise<void>;
}
