// One model on ONNX Runtime's WebAssembly build, through the C API that the wasm exports (js/web/lib/wasm in upstream's
// tree calls the same functions; of it this page needs one input type, one output and no tensors of its own).

import { moduleAddress } from "./assets.mjs";
import { notTaken, RuntimeError, StoppedError } from "./failures.mjs";
import { inDeno } from "./platform.mjs";

const INT64 = 7;
const ON_CPU = 1;

/**
 * A session to be: the files that it wants, each with where it goes, and `open`, which makes it of them.
 * @param {import("./assets.mjs").Assets} assets
 */
export function sessionOf(assets, runtime, parts, { direct, signal, threads }) {
  const files = { parts: [] };
  const glue = moduleAddress(assets, runtime.glue, { direct, signal });
  glue.catch(() => {});
  return {
    wanted: [{ asset: runtime.wasm, into: (bytes) => (files.wasm = bytes) }, ...parts.map((asset, index) => ({ asset, into: (bytes) => (files.parts[index] = bytes) }))],
    async open(times) {
      const { address, release } = await glue;
      const session = await openSession(address, files, { threads, times, gpu: runtime.gpu });
      // Threads that start later start from there.
      if (threads === 1) await release();
      return session;
    },
  };
}

/** The wasm of a bundle's own with the model in its memory. */
async function openSession(glue, { wasm, parts }, { threads, times, gpu }) {
  // Emscripten would take Deno for Node, whose `require` wants a file.
  if (inDeno) globalThis.process = undefined;
  const { default: factory } = await import(/* @vite-ignore */ /* webpackIgnore: true */ glue);
  const module = await startRuntime(factory, wasm, { threads, glue });
  times.runtime = performance.now();
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const at = Session.reserve(module, size);
  // `parts` is empty after that, so that no copy stays.
  for (let place = at, part; (part = parts.shift()); place += part.length) module.HEAPU8.set(part, place);
  return Session.open(module, at, size, { gpu });
}

/**
 * @param {(options: object) => Promise<any>} factory  the default export of the Emscripten module
 * @param {Uint8Array} wasm
 * @param {{threads?: number, glue?: string}} [options]
 */
export async function startRuntime(factory, wasm, { threads = 1, glue } = {}) {
  let fail;
  const failed = new Promise((_, reject) => (fail = reject));
  failed.catch(() => {});
  const module = await Promise.race([
    failed,
    factory({
      // Not `wasmBinary`, which the module would hold on to.
      instantiateWasm: (imports, done) => {
        WebAssembly.instantiate(wasm, imports).then(({ instance, module }) => done(instance, module), (error) => fail(notTaken(error)));
        return {};
      },
      numThreads: threads,
      // What pthreads start from: the module's own address, also where it was loaded from a blob.
      ...(glue ? { mainScriptUrlOrBlob: glue } : {}),
      print: () => {},
      printErr: () => {},
      onAbort: (reason) => fail(new StoppedError(`ONNX Runtime stopped: ${reason}`)),
    }),
  ]);
  if (module._OrtInit(threads, 4) !== 0) throw new RuntimeError(lastError(module));
  return module;
}

export class Session {
  #module;
  #handle = 0;
  #names = [];
  #output = 0;
  #options = 0;

  /** Where the model's bytes go; the runtime reads them in place for as long as the session lives. */
  static reserve(module, size) {
    const at = module._malloc(size);
    if (at === 0) throw new RuntimeError(`not enough memory for a model of ${size} bytes`);
    return at;
  }

  /** @param {any} module @param {number} at @param {number} size @param {{gpu?: boolean}} [how] */
  static async open(module, at, size, { gpu = false } = {}) {
    const session = new Session();
    session.#module = module;
    const text = strings(module);
    const options = gpu ? plainOptions(module, text) : fixedOptions(module, text);
    try {
      if (gpu) await session.#onGpu(options, text);
      session.#handle = await module._OrtCreateSession(at, size, options);
    } finally {
      module._OrtReleaseSessionOptions(options);
      text.free();
    }
    if (session.#handle === 0) throw new RuntimeError(lastError(module));
    if (gpu) {
      module.webgpuOnCreateSession(session.#handle);
      // An .onnx file is copied while it is opened.
      module._free(at);
    }
    session.#readNames();
    session.#options = module._OrtCreateRunOptions(4, 0, 0, 0);
    return session;
  }

  /** The execution provider, and its promise that another session does not start meanwhile. */
  async #onGpu(options, text) {
    const module = this.#module;
    module.webgpuInit(() => {});
    module.webgpuRegisterDevice();
    check(module, await module._OrtAppendExecutionProvider(options, text("WebGPU"), 0, 0, 0));
  }

  #readNames() {
    const module = this.#module;
    const stack = module.stackSave();
    const counts = module.stackAlloc(8);
    check(module, module._OrtGetInputOutputCount(this.#handle, counts, counts + 4));
    const inputs = module.getValue(counts, "i32");
    module.stackRestore(stack);
    for (let index = 0; index < inputs; index++) {
      const at = this.#nameOf(index, "_OrtGetInputName", index);
      this.#names.push({ at, name: module.UTF8ToString(at) });
    }
    this.#output = this.#nameOf(0, "_OrtGetOutputName", inputs);
  }

  /** Later versions number outputs after the inputs, and tell their shapes with their names. */
  #nameOf(index, named, place) {
    const module = this.#module;
    if (module[named]) return module[named](this.#handle, index);
    const stack = module.stackSave();
    const found = module.stackAlloc(8);
    check(module, module._OrtGetInputOutputMetadata(this.#handle, place, found, found + 4));
    const [name, shape] = [found, found + 4].map((at) => module.getValue(at, "*"));
    module._OrtFree(shape);
    module.stackRestore(stack);
    return name;
  }

  get inputs() {
    return this.#names.map(({ name }) => name);
  }

  /**
   * @param {{ids: number[], types: number[]}[]} rows  padded here to the longest, with `pad`
   * @returns {Promise<{data: Float32Array, width: number}>}  float32 [rows, width]
   */
  vectors(rows, pad) {
    const length = Math.max(...rows.map(({ ids }) => ids.length));
    const fill = (value, padding) => {
      const filled = new Int32Array(rows.length * length).fill(padding);
      rows.forEach((row, index) => filled.set(value(row), index * length));
      return filled;
    };
    const feeds = {
      input_ids: fill(({ ids }) => ids, pad),
      attention_mask: fill(({ ids }) => ids.map(() => 1), 0),
      token_type_ids: fill(({ types }) => types, 0),
    };
    return this.run(feeds, rows.length, length);
  }

  /**
   * @param {Record<string, Int32Array>} feeds  [batch, sequence] each; widened to int64 here
   * @param {number} batch @param {number} sequence
   * @returns {Promise<{data: Float32Array, width: number}>}  float32 [batch, width]
   */
  async run(feeds, batch, sequence) {
    const module = this.#module;
    const count = batch * sequence;
    const stack = module.stackSave();
    const bytes = 8 * count;
    const memory = module._malloc(bytes * this.#names.length);
    if (memory === 0) throw new RuntimeError(`not enough memory for ${batch} texts of ${sequence} tokens`);
    const tensors = [];
    let result = 0;
    try {
      const dims = module.stackAlloc(8);
      module.setValue(dims, batch, "i32");
      module.setValue(dims + 4, sequence, "i32");
      const [names, values, outNames, outValues] = [this.#names.length, this.#names.length, 1, 1].map((n) => module.stackAlloc(4 * n));
      this.#names.forEach(({ at, name }, index) => {
        const place = memory + index * bytes;
        // Looked up after malloc, which may have moved the memory.
        const low = new Int32Array(module.HEAPU8.buffer, place, 2 * count);
        const feed = feeds[name];
        for (let i = 0; i < count; i++) {
          low[2 * i] = feed[i];
          low[2 * i + 1] = 0;
        }
        const tensor = module._OrtCreateTensor(INT64, place, bytes, dims, 2, ON_CPU);
        if (tensor === 0) throw new RuntimeError(lastError(module));
        tensors.push(tensor);
        module.setValue(names + 4 * index, at, "*");
        module.setValue(values + 4 * index, tensor, "*");
      });
      module.setValue(outNames, this.#output, "*");
      module.setValue(outValues, 0, "*");
      check(module, await module._OrtRun(this.#handle, names, values, this.#names.length, outNames, 1, outValues, this.#options));
      result = module.getValue(outValues, "*");
      return this.#read(result);
    } finally {
      if (result) module._OrtReleaseTensor(result);
      for (const tensor of tensors) module._OrtReleaseTensor(tensor);
      module._free(memory);
      module.stackRestore(stack);
    }
  }

  #read(tensor) {
    const module = this.#module;
    const at = module.stackAlloc(16);
    check(module, module._OrtGetTensorData(tensor, at, at + 4, at + 8, at + 12));
    const [data, dims, rank] = [4, 8, 12].map((offset) => module.getValue(at + offset, "i32"));
    const [rows, width] = [0, 1].map((axis) => module.getValue(dims + 4 * axis, "i32"));
    module._OrtFree(dims);
    if (rank !== 2) throw new RuntimeError(`the model gave ${rank} dimensions instead of two`);
    return { data: new Float32Array(module.HEAPU8.buffer, data, rows * width).slice(), width };
  }
}

/** For a file with all optimizations baked in, read where it lies; no arena, whose blocks would never go back; no spinning. */
function fixedOptions(module, text) {
  const options = module._OrtCreateSessionOptions(0, 1, 1, 0, 0, 0, text(""), 4, 0, 0);
  if (options === 0) throw new RuntimeError(lastError(module));
  for (const key of ["use_ort_model_bytes_directly", "use_ort_model_bytes_for_initializers"])
    check(module, module._OrtAddSessionConfigEntry(options, text(`session.${key}`), text("1")));
  return options;
}

/** For an .onnx file, whose optimizations are the provider's: all; without memory patterns, as upstream does on a GPU. */
function plainOptions(module, text) {
  const options = module._OrtCreateSessionOptions(99, 1, 0, 0, 0, 0, text(""), 4, 0, 0);
  if (options === 0) throw new RuntimeError(lastError(module));
  return options;
}

function check(module, code) {
  if (code !== 0) throw new RuntimeError(lastError(module));
}

function lastError(module) {
  const stack = module.stackSave();
  const at = module.stackAlloc(8);
  module._OrtGetLastError(at, at + 4);
  const message = module.getValue(at + 4, "*");
  const text = message ? module.UTF8ToString(message) : "an error without a message";
  module.stackRestore(stack);
  return text;
}

/** Strings in the runtime's memory, all given back together. */
function strings(module) {
  const all = [];
  const text = (value) => {
    const size = module.lengthBytesUTF8(value) + 1;
    const at = module._malloc(size);
    module.stringToUTF8(value, at, size);
    all.push(at);
    return at;
  };
  text.free = () => all.forEach((at) => module._free(at));
  return text;
}
