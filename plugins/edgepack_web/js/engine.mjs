// What answers for a bundle: starts the runtime, tokenizes, and turns texts into vectors, batch by batch.

import { Assets, moduleAddress } from "./assets.mjs";
import { batchesOf } from "./batches.mjs";
import { inDeno } from "./platform.mjs";
import { Session, startRuntime } from "./session.mjs";
import { Generic, WordPiece } from "./tokenizer.mjs";
import { Unigram } from "./unigram.mjs";

/** Texts that are tokenized before the next message is looked at. */
const ENCODE_AT_ONCE = 64;
const LAYER_NORM_EPSILON = 1e-5;

/** Everything that answers for one bundle. */
export class Engine {
  static async start({ base, bundle, runtime, keep, direct, threads }, { signal, onProgress }) {
    const engine = new Engine();
    engine.model = { ...bundle.model, ...runtime.model };
    engine.gpu = runtime.gpu;
    const assets = new Assets(base, keep);
    const files = {};
    const into = (name) => (bytes) => (files[name] = bytes);
    const wanted = [
      { asset: runtime.wasm, into: into("wasm") },
      { asset: bundle.tokenizer.table, into: into("table") },
      ...engine.model.parts.map((asset, index) => ({ asset, into: into(`part${index}`) })),
    ];
    const glue = moduleAddress(assets, runtime.glue, { direct, signal });
    glue.catch(() => {});
    await assets.fetchAll(wanted, { signal, onProgress });
    const times = { downloaded: performance.now() };
    const { address, release } = await glue;
    const parts = engine.model.parts.map((_, index) => {
      const { [`part${index}`]: part } = files;
      delete files[`part${index}`];
      return part;
    });
    engine.session = await openSession(address, files.wasm, parts, { threads, times, gpu: runtime.gpu });
    // Threads that start later start from there.
    if (threads === 1) await release();
    times.session = performance.now();
    engine.tokenizer = await openTokenizer(assets, bundle.tokenizer, files.table, { direct, signal });
    times.tokenizer = performance.now();
    await assets.prune(bundle.assets.concat("bundle.json")).catch(() => {});
    return { engine, times };
  }

  /**
   * Vectors in the texts' order. Texts of like length go through the model together, so that little is padded.
   * @param {string[]} texts
   */
  async embed(texts, { dimension, stopped, onProgress }) {
    const { maxLength, vocabulary, batchDependent } = this.model;
    const encoded = [];
    for (const text of texts) {
      if (encoded.length % ENCODE_AT_ONCE === 0 && encoded.length) await breathe();
      if (stopped()) return undefined;
      encoded.push(this.tokenizer.encode(text, maxLength));
      checkIds(encoded.at(-1).ids, maxLength, vocabulary);
    }
    // A recipe whose vectors depend on their neighbours takes every text alone.
    const model = { longest: maxLength, alone: batchDependent, gpu: this.gpu };
    const vectors = new Array(texts.length);
    let done = 0;
    for (const batch of batchesOf(encoded.map(({ ids }) => ids.length), model)) {
      await breathe();
      if (stopped()) return undefined;
      const { data, width } = await this.#run(batch.map((index) => encoded[index]));
      batch.forEach((index, row) => (vectors[index] = this.#finish(data.slice(row * width, (row + 1) * width), dimension)));
      done += batch.length;
      onProgress?.({ done, total: texts.length });
    }
    return vectors;
  }

  async #run(rows) {
    const length = Math.max(...rows.map(({ ids }) => ids.length));
    const fill = (value, padding) => {
      const filled = new Int32Array(rows.length * length).fill(padding);
      rows.forEach((row, index) => filled.set(value(row), index * length));
      return filled;
    };
    const feeds = {
      input_ids: fill(({ ids }) => ids, this.tokenizer.pad),
      attention_mask: fill(({ ids }) => ids.map(() => 1), 0),
      token_type_ids: fill(({ types }) => types, 0),
    };
    return this.session.run(feeds, rows.length, length);
  }

  /** Shorter vectors where the model was trained for them, brought back to length 1. */
  #finish(vector, dimension) {
    if (!dimension || dimension === vector.length) return vector;
    const whole = this.model.matryoshka.layer_norm ? layerNorm(vector) : vector;
    const cut = whole.slice(0, dimension);
    const length = Math.hypot(...cut);
    return length > 0 ? cut.map((value) => value / length) : cut;
  }
}

/** The wasm of a bundle's own with the model in its memory. */
async function openSession(glue, wasm, parts, { threads, times, gpu }) {
  // Emscripten would take Deno for Node, whose `require` wants a file.
  if (inDeno) globalThis.process = undefined;
  const { default: factory } = await import(/* @vite-ignore */ /* webpackIgnore: true */ glue);
  const module = await startRuntime(factory, wasm, { threads, glue });
  times.runtime = performance.now();
  const size = sizeOf(parts);
  const at = Session.reserve(module, size);
  fill(parts, (part, place) => module.HEAPU8.set(part, at + place));
  return Session.open(module, at, size, { gpu });
}

const sizeOf = (parts) => parts.reduce((sum, part) => sum + part.length, 0);

/** Each part to where it belongs; `parts` is empty after that, so that no copy stays. */
function fill(parts, set) {
  for (let place = 0, part; (part = parts.shift()); place += part.length) set(part, place);
}

async function openTokenizer(assets, { kind, code }, table, options) {
  if (kind === "wordpiece") return new WordPiece(table);
  if (kind === "unigram") return new Unigram(table);
  const { address, release } = await moduleAddress(assets, code, options);
  const library = await import(/* @vite-ignore */ /* webpackIgnore: true */ address);
  await release();
  return new Generic(library, JSON.parse(new TextDecoder().decode(table)));
}

/** What a kernel would end the runtime for is refused before it gets there. */
function checkIds(ids, maxLength, vocabulary) {
  if (ids.length > maxLength) throw new RangeError(`a text has ${ids.length} tokens, the model takes ${maxLength}`);
  const wrong = ids.find((id) => !(id >= 0 && id < vocabulary));
  if (wrong !== undefined) throw new RangeError(`the tokenizer gave the id ${wrong}, the model has ${vocabulary} tokens`);
}

function layerNorm(vector) {
  const mean = vector.reduce((sum, value) => sum + value, 0) / vector.length;
  const variance = vector.reduce((sum, value) => sum + (value - mean) ** 2, 0) / vector.length;
  return vector.map((value) => (value - mean) / Math.sqrt(variance + LAYER_NORM_EPSILON));
}

/** Lets messages in: one may say that nobody waits for this any longer. A timer would wait for 4 ms in browsers. */
const channel = typeof setImmediate === "function" ? undefined : new MessageChannel();
function breathe() {
  return new Promise((resolve) => {
    if (!channel) return setImmediate(resolve);
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(0);
  });
}
