// A plan on edgepack's engine: a WebAssembly module that imports nothing (plugins/edgepack_engine/csrc/wasm/module.cc has its functions).
// Stands in the place of session.mjs and compiled.mjs, which are for ONNX Runtime, in bundles with the engine.

import { EmbedError } from "./errors.mjs";
import { notTaken, RuntimeError } from "./failures.mjs";
import { sumsOf } from "./sums.mjs";

// A module with one function that holds `i16x8.relaxed_dot_i8x16_i7x16_s` of zeros.
const RELAXED = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 16, 1, 14, 0, 65, 0, 253, 15, 65, 0, 253, 15, 253, 146, 2, 26, 11];

/** The form of the module that is the fastest here; all give the same bits. */
export const formOf = ({ wasm, relaxed }) => (relaxed && WebAssembly.validate(new Uint8Array(RELAXED)) ? relaxed : wasm);

export class Plan {
  #exports;
  #at;

  /** An instance with room for a plan of so many bytes, which `put` fills. */
  constructor({ exports }, size) {
    this.#exports = exports;
    this.#at = exports.reserve(size);
    if (this.#at === 0) throw new RuntimeError(`not enough memory for a model of ${size} bytes`);
  }

  /** Where a part of the plan goes. */
  room(place, size) {
    const bytes = this.#view(Uint8Array, this.#at + place, size);
    return { bytes, sums: () => sumsOf(bytes, this.#exports.memory) };
  }

  /** What was read into its room lies there already. */
  put(bytes, place) {
    if (bytes.buffer !== this.#exports.memory.buffer) this.room(place, bytes.length).bytes.set(bytes);
  }

  open() {
    if (this.#exports.open() === 0) throw new EmbedError("BundleError", this.#message());
  }

  /**
   * @param {{ids: number[], types: number[]}[]} rows
   * @returns {Promise<{data: Float32Array, width: number}>}  float32 [rows, width]
   */
  async vectors(rows) {
    const tokens = rows.reduce((sum, { ids }) => sum + ids.length, 0);
    let at = this.#exports.batch(rows.length, tokens);
    const batch = this.#view(Uint32Array, at, rows.length + 2 * tokens);
    batch.set(rows.map(({ ids }) => ids.length));
    at = rows.length;
    for (const { ids, types } of rows) {
      batch.set(ids, at);
      batch.set(types, at + tokens);
      at += ids.length;
    }
    const made = this.#exports.embed();
    if (made === 0) throw new RuntimeError(this.#message());
    const width = this.#exports.dimension();
    return { data: this.#view(Float32Array, made, rows.length * width).slice(), width };
  }

  #message() {
    const bytes = this.#view(Uint8Array, this.#exports.message());
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  /** Made anew each time: memory that grew is another buffer. Addresses above 2 GB come as negative numbers. */
  #view(Numbers, at, count) {
    return new Numbers(this.#exports.memory.buffer, at >>> 0, count);
  }
}

/** As in session.mjs; the module is compiled and filled while other files are still read. */
export function sessionOf(_, runtime, parts) {
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  let begin;
  const plan = new Promise((resolve) => (begin = resolve));
  const filled = [];
  let end = 0;
  const part = (asset) => {
    const place = (end += asset.size) - asset.size;
    const room = () => plan.then((made) => made.room(place, asset.size));
    return { asset, room, into: (bytes) => filled.push(quiet(plan.then((made) => made.put(bytes, place)))) };
  };
  return {
    wanted: [{ asset: formOf(runtime), into: (wasm) => begin(quiet(compiled(wasm, size))) }, ...parts.map(part)],
    async open(times) {
      const made = await plan;
      times.runtime = performance.now();
      await Promise.all(filled);
      made.open();
      return made;
    },
  };
}

const compiled = (wasm, size) =>
  WebAssembly.instantiate(wasm).then(
    ({ instance }) => new Plan(instance, size),
    (error) => Promise.reject(notTaken(error)),
  );

/** One that is waited for later: until then nobody is told that it failed. */
function quiet(promise) {
  promise.catch(() => {});
  return promise;
}

/** As in compiled.mjs. */
export async function openCompiled({ wasm, parts }) {
  const plan = new Plan(await WebAssembly.instantiate(wasm), parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let place = 0;
  for (const part of parts) {
    plan.put(new Uint8Array(part), place);
    place += part.byteLength;
  }
  plan.open();
  return plan;
}
