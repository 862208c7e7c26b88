import type { EmbedOptions } from "./bundle/embed.mjs";

export * from "./bundle/embed.mjs";

/**
 * One text's vector, or a vector for each of several texts, in their order; of length 1 where the model normalises. The
 * model is opened by the first call and stays open.
 */
export function encode(texts: string, options?: EmbedOptions): Promise<Float32Array>;
export function encode(texts: Iterable<string>, options?: EmbedOptions): Promise<Float32Array[]>;

/** Gives the model's memory back; Deno ends only after that. The next `encode` opens it again. */
export function close(): Promise<void>;
