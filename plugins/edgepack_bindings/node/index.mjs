// Texts to vectors, with the model of a bundle that edgepack made and its own library, lib/libembed.so.
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const native = createRequire(import.meta.url)("./edgepack.node");
const OWN = fileURLToPath(new URL("./bundle", import.meta.url));

const NUMBERS = ["batchSize", "maxLength", "dimension", "threads"];

function checked(text, at = "the text") {
  if (typeof text !== "string") throw new TypeError(`${at} is of type ${typeof text}, not string`);
  return text;
}

/** An open bundle. Vectors are made on Node's own threads, as many at once as it has. */
export class Bundle {
  #handle;
  #running = new Set();

  constructor(handle) {
    this.#handle = handle;
    this.dimension = native.dimension(handle);
  }

  /** Opens a bundle's folder, by default that of this package. The library stays loaded when the bundle is closed. */
  static open(folder = OWN, options = {}) {
    // Each is read once, wherever the options have it from: a class, or defaults.
    const { library, prefix, publicKey } = options;
    const numbers = NUMBERS.map((name) => options[name] ?? 0);
    for (const number of numbers)
      if (!Number.isInteger(number) || number < 0 || number > 0x7fffffff) throw new RangeError(`${number} is no number of anything`);
    // A Buffer, or a variable that was never set, is not "no key".
    if ("prefix" in options) checked(prefix, "prefix");
    if ("publicKey" in options) checked(publicKey, "publicKey");
    return new Bundle(native.open(library ?? join(folder, "lib", "libembed.so"), folder, prefix, publicKey, ...numbers));
  }

  /** Of a text its vector, a Float32Array; of an array of texts an array of them. */
  async embed(texts) {
    if (typeof texts === "string") return (await this.embed([texts]))[0];
    const given = Array.from(texts, (text, at) => checked(text, `texts[${at}]`));
    const numbers = await this.#use(() => native.embed(this.#handle, given));
    return given.map((_, row) => numbers.slice(row * this.dimension, (row + 1) * this.dimension));
  }

  /** The ids of a text's tokens, as the model takes them: a Uint32Array. */
  tokens(text) {
    this.#requireOpen();
    return native.tokens(this.#handle, checked(text));
  }

  /** The cosine of the angle between the vectors of two texts. */
  async similarity(first, second) {
    const given = [checked(first), checked(second)];
    return this.#use(() => native.similarity(this.#handle, given));
  }

  /** Waits for what is being computed, and closes the bundle. A second time does nothing. */
  async close() {
    const handle = this.#handle;
    this.#handle = undefined;
    await Promise.allSettled(this.#running);
    if (handle) native.close(handle);
  }

  #requireOpen() {
    if (!this.#handle) throw new Error("the bundle is closed");
  }

  async #use(start) {
    this.#requireOpen();
    const made = start();
    this.#running.add(made);
    try {
      return await made;
    } finally {
      this.#running.delete(made);
    }
  }
}
