// ONNX Runtime's WebAssembly functions (onnxruntime/wasm/api.h) for Node: one model, batches of token ids.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const INT64 = 7;
const CPU = 1;

/** Load the JavaScript module of a runtime with its WebAssembly; `_OrtInit` has to be told the number of threads, too. */
export async function loadRuntime(glue, wasm, threads = 1) {
  const { default: factory } = await import(pathToFileURL(glue).href);
  return factory({ wasmBinary: readFileSync(wasm), numThreads: threads });
}

function withStrings(m, texts, use) {
  const pointers = texts.map((text) => {
    const size = m.lengthBytesUTF8(text) + 1;
    const pointer = m._malloc(size);
    m.stringToUTF8(text, pointer, size);
    return pointer;
  });
  try {
    return use(...pointers);
  } finally {
    pointers.forEach((pointer) => m._free(pointer));
  }
}

function lastError(m) {
  const stack = m.stackSave();
  const place = m.stackAlloc(8);
  m._OrtGetLastError(place, place + 4);
  const message = m.getValue(place + 4, '*');
  const text = message ? m.UTF8ToString(message) : '';
  m.stackRestore(stack);
  return text;
}

function check(m, ok) {
  if (!ok) throw new Error(lastError(m) || 'ONNX Runtime gave no message');
}

/** One session; `run` takes batches of rows of token ids of the same length, `mask` likewise. */
export class Session {
  constructor(m, model, config = { 'session.use_ort_model_bytes_directly': '1' }) {
    this.m = m;
    this.options = withStrings(m, ['edgepack'], (id) => m._OrtCreateSessionOptions(99, 1, 1, 0, 0, 0, id, 4, 0, 0));
    check(m, this.options);
    for (const [key, value] of Object.entries(config)) {
      check(m, withStrings(m, [key, value], (k, v) => m._OrtAddSessionConfigEntry(this.options, k, v)) === 0);
    }
    this.model = m._malloc(model.length);
    m.HEAPU8.set(model, this.model);
    this.handle = m._OrtCreateSession(this.model, model.length, this.options);
    check(m, this.handle);
    this.inputs = this.names('_OrtGetInputName', 0);
    this.outputs = this.names('_OrtGetOutputName', 1);
  }

  /** Names that stay where they are in memory, for `run`. */
  names(ask, which) {
    const m = this.m;
    const stack = m.stackSave();
    const place = m.stackAlloc(8);
    check(m, m._OrtGetInputOutputCount(this.handle, place, place + 4) === 0);
    const count = m.getValue(place + 4 * which, '*');
    m.stackRestore(stack);
    return Array.from({ length: count }, (_, index) => {
      const pointer = m[ask](this.handle, index);
      check(m, pointer);
      return { name: m.UTF8ToString(pointer), pointer };
    });
  }

  tensor(rows, held) {
    const m = this.m;
    const shape = [rows.length, rows[0]?.length ?? 0];
    const flat = BigInt64Array.from(rows.flat(), BigInt);
    const data = m._malloc(flat.byteLength || 8);
    held.push(data);
    m.HEAPU8.set(new Uint8Array(flat.buffer), data);
    const dims = m.stackAlloc(4 * shape.length);
    shape.forEach((size, index) => m.setValue(dims + 4 * index, size, '*'));
    const tensor = m._OrtCreateTensor(INT64, data, flat.byteLength, dims, shape.length, CPU);
    check(m, tensor);
    return tensor;
  }

  /** float32 vectors, one a row. */
  run(ids, mask) {
    const m = this.m;
    const stack = m.stackSave();
    const held = [];
    const given = { input_ids: ids, attention_mask: mask };
    const count = this.inputs.length;
    let tensors = [];
    const [names, values, outName, outValue] = [4 * count, 4 * count, 4, 4].map((size) => m.stackAlloc(size));
    try {
      this.inputs.forEach(({ name, pointer }, index) => {
        tensors.push(this.tensor(given[name] ?? ids.map((row) => row.map(() => 0)), held));
        m.setValue(names + 4 * index, pointer, '*');
        m.setValue(values + 4 * index, tensors[index], '*');
      });
      m.setValue(outName, this.outputs[0].pointer, '*');
      m.setValue(outValue, 0, '*');
      check(m, m._OrtRun(this.handle, names, values, count, outName, 1, outValue, 0) === 0);
      const out = m.getValue(outValue, '*');
      tensors.push(out);
      return this.vectors(out, ids.length);
    } finally {
      tensors.forEach((tensor) => m._OrtReleaseTensor(tensor));
      held.forEach((pointer) => m._free(pointer));
      m.stackRestore(stack);
    }
  }

  vectors(tensor, rows) {
    const m = this.m;
    const place = m.stackAlloc(16);
    check(m, m._OrtGetTensorData(tensor, place, place + 4, place + 8, place + 12) === 0);
    const data = m.getValue(place + 4, '*');
    const dims = m.getValue(place + 8, '*');
    const width = m.getValue(dims + 4 * (m.getValue(place + 12, '*') - 1), '*');
    m._OrtFree(dims);
    const all = new Float32Array(m.HEAPU8.buffer.slice(data, data + 4 * rows * width));
    return Array.from({ length: rows }, (_, row) => all.slice(row * width, (row + 1) * width));
  }

  release() {
    const m = this.m;
    [...this.inputs, ...this.outputs].forEach(({ pointer }) => m._OrtFree(pointer));
    m._OrtReleaseSession(this.handle);
    m._OrtReleaseSessionOptions(this.options);
    m._free(this.model);
  }
}
