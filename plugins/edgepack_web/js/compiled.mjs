// A model on ONNX Runtime's WebAssembly that was compiled by others, for workerd: it compiles none by itself.

import { EmbedError } from "./errors.mjs";
import { Session } from "./session.mjs";

/** @param {{factory: Function, wasm: WebAssembly.Module, parts: ArrayBuffer[]}} files */
export async function openCompiled({ factory, wasm, parts }) {
  const module = await startCompiled(factory, wasm);
  const size = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const at = Session.reserve(module, size);
  let place = at;
  for (const part of parts) {
    module.HEAPU8.set(new Uint8Array(part), place);
    place += part.byteLength;
  }
  return Session.open(module, at, size);
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
