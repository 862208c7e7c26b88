import type { EmbedOptions } from "./bundle/embed.mjs";

export type { EmbedOptions };

/** As in other places: a vector of one text, or one for each of several. */
export function encode(texts: string, options?: EmbedOptions): Promise<Float32Array>;
export function encode(texts: Iterable<string>, options?: EmbedOptions): Promise<Float32Array[]>;

/** Lets the model's memory go. */
export function close(): Promise<void>;

export class EmbedError extends Error {}
