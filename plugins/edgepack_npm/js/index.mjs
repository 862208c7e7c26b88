// Texts into vectors, by the model that lies in this package.
//
//     import { encode } from "{{name}}";
//     const vector = await encode("A man is eating food.");

import { load } from "./bundle/embed.mjs";

export { cosine, Embedder, EmbedError, load } from "./bundle/embed.mjs";

let opened;

export async function encode(texts, options) {
  // One that did not open is tried again.
  opened ??= load().catch((error) => {
    opened = undefined;
    throw error;
  });
  const vectors = await (await opened).embed(texts, options);
  return typeof texts === "string" ? vectors[0] : vectors;
}

export async function close() {
  const closing = opened;
  opened = undefined;
  (await closing)?.close();
}
