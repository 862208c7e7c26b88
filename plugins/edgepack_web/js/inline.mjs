// A bundle's model in this very thread, for workerd: it has no workers and no files, and compiles no WebAssembly by itself.

import { Engine } from "./engine.mjs";
import { EmbedError } from "./errors.mjs";
import { Session } from "./session.mjs";
import { WordPiece } from "./tokenizer.mjs";

/**
 * @param {{model: object, factory: Function, wasm: WebAssembly.Module, parts: ArrayBuffer[], table: ArrayBuffer}} bundle
 *   `model` as bundle.json has it; the others are the files that it names
 * @returns {Promise<(texts: string[], options?: object) => Promise<Float32Array[]>>}
 */
export async function openInline({ model, factory, wasm, parts, table }) {
  const module = await startCompiled(factory, wasm);
  const size = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const at = Session.reserve(module, size);
  let place = at;
  for (const part of parts) {
    module.HEAPU8.set(new Uint8Array(part), place);
    place += part.byteLength;
  }
  const engine = new Engine();
  engine.model = model;
  engine.session = await Session.open(module, at, size);
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

async function startCompiled(factory, wasm) {
  const { process } = globalThis;
  // Emscripten would take it for Node; it looks before it first waits.
  globalThis.process = undefined;
  try {
    const starting = factory({
      instantiateWasm: (imports, done) => {
        WebAssembly.instantiate(wasm, imports).then((instance) => done(instance, wasm));
        return {};
      },
      locateFile: (path) => path,
      numThreads: 1,
      print: () => {},
      printErr: () => {},
    });
    globalThis.process = process;
    const module = await starting;
    if (module._OrtInit(1, 4) !== 0) throw new EmbedError("RuntimeError", "ONNX Runtime does not start");
    return module;
  } finally {
    globalThis.process = process;
  }
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
