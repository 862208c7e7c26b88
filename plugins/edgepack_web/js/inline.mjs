// A bundle's model in this very thread, for workerd: it has no workers and no files, and compiles no WebAssembly by itself.

import { openCompiled } from "./compiled.mjs";
import { Engine } from "./engine.mjs";
import { EmbedError } from "./errors.mjs";
import { WordPiece } from "./tokenizer.mjs";

/**
 * @param {{model: object, factory?: Function, wasm: WebAssembly.Module, parts: ArrayBuffer[], table: ArrayBuffer}} bundle
 *   `model` as bundle.json has it; the others are the files that it names
 * @returns {Promise<(texts: string[], options?: object) => Promise<Float32Array[]>>}
 */
export async function openInline({ model, factory, wasm, parts, table }) {
  const engine = new Engine();
  engine.model = model;
  engine.session = await openCompiled({ factory, wasm, parts });
  engine.tokenizer = new WordPiece(new Uint8Array(table));
  // One thing at a time: the runtime has one thread of control.
  let line = Promise.resolve();
  return (texts, options = {}) => {
    const asked = wished(model, texts, options);
    const mine = line.then(() => engine.embed(asked, { dimension: options.dim, stopped: () => !!options.signal?.aborted, onProgress: options.onProgress }));
    line = mine.catch(() => {});
    return mine.then((vectors) => vectors ?? Promise.reject(options.signal.reason));
  };
}

function wished({ prefixes, matryoshka, dimension }, texts, { prefix, dim, signal }) {
  signal?.throwIfAborted();
  const wrong = texts.findIndex((text) => typeof text !== "string");
  if (wrong >= 0) throw new TypeError(`text ${wrong} is not a string`);
  if (prefix !== undefined && !Object.hasOwn(prefixes, prefix)) throw new EmbedError("RangeError", `this model has no prefix ${prefix}`);
  if (dim !== undefined && dim !== dimension && !matryoshka?.dimensions.includes(dim)) throw new EmbedError("RangeError", `this model gives no vectors of ${dim} numbers`);
  return prefix === undefined ? texts : texts.map((text) => prefixes[prefix] + text);
}

export { EmbedError };
