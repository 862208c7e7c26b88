// What answers for a bundle: starts the runtime, tokenizes, and turns texts into vectors, batch by batch.

import { Assets, moduleAddress } from "./assets.mjs";
import { batchesOf } from "./batches.mjs";
import { sessionOf } from "./session.mjs";
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
    const session = sessionOf(assets, runtime, engine.model.parts, { direct, signal, threads });
    // Read from its table while the model is still checked.
    let tokenizer;
    const open = (table) => {
      tokenizer = openTokenizer(assets, bundle.tokenizer, table, { direct, signal });
      tokenizer.catch(() => {});
    };
    await assets.fetchAll([...session.wanted, { asset: bundle.tokenizer.table, into: open }], { signal, onProgress });
    const times = { downloaded: performance.now() };
    engine.session = await session.open(times);
    times.session = performance.now();
    engine.tokenizer = await tokenizer;
    times.tokenizer = performance.now();
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
      const { data, width } = await this.session.vectors(batch.map((index) => encoded[index]), this.tokenizer.pad);
      batch.forEach((index, row) => (vectors[index] = this.#finish(data.slice(row * width, (row + 1) * width), dimension)));
      done += batch.length;
      onProgress?.({ done, total: texts.length });
    }
    return vectors;
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
