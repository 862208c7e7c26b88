// What a browser keeps of a bundle: bundle.json and scripts in Cache Storage, where a service worker finds them; model, tokenizer and
// WebAssembly in files of the origin's own, which a worker reads several times as fast. A file ends with a sum of its numbers: what
// was checked by SHA-256 when it came is looked at for what a disk has made of it, in a fifth of the time.

const isScript = (url) => /\.(mjs|json)$/.test(url);
const SUM = 8;
/** Milliseconds after which a file that was read is closed: a worker has to wait for the browser while it closes one. */
const LATER = 1000;
// A module with one function: from one address to another of the memory that it imports, it adds four numbers at a time to four sums,
// and these sums to four of places, and gives all eight. A browser runs a script's loop slowly at first, and this one at once.
const ADDING = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 14, 1, 96, 2, 127, 127, 8, 127, 127, 127, 127, 127, 127, 127, 127, 2, 6, 1, 0, 0, 2, 0, 1, 3, 2, 1, 0, 7, 4, 1, 0,
  0, 0, 10, 88, 1, 86, 1, 2, 123, 2, 64, 3, 64, 32, 0, 32, 1, 70, 13, 1, 32, 3, 32, 2, 32, 0, 253, 0, 2, 0, 253, 174, 1, 34, 2, 253, 174, 1, 33, 3,
  32, 0, 65, 16, 106, 33, 0, 12, 0, 11, 11, 32, 2, 253, 27, 0, 32, 2, 253, 27, 1, 32, 2, 253, 27, 2, 32, 2, 253, 27, 3, 32, 3, 253, 27, 0, 32, 3, 253, 27,
  1, 32, 3, 253, 27, 2, 32, 3, 253, 27, 3, 11,
];
const fileName = (url) => url.slice(url.lastIndexOf("/") + 1);

/** Nothing in Node, on plain http, and where a browser forbids it (then even asking throws). */
export function openKept(base) {
  try {
    return globalThis.caches && new Kept(base);
  } catch {
    return undefined;
  }
}

async function openFolder(base) {
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(`edgepack:${encodeURIComponent(base)}`, { create: true });
  } catch {
    return undefined;
  }
}

class Kept {
  #base;
  #openedCache;
  #openedFolder;

  constructor(base) {
    this.#base = base;
  }

  /** Opened when it is needed: that takes longer than to read what is in files. */
  get #cache() {
    return (this.#openedCache ??= caches.open(`edgepack:${this.#base}`));
  }

  /** Nothing where there is none. */
  get #folder() {
    return (this.#openedFolder ??= openFolder(this.#base));
  }

  /** This, or nothing where it keeps nothing. */
  ready() {
    return this.#cache.then(() => this, () => undefined);
  }

  /**
   * What a file has of an address, as it was put there, in `room`; nothing in Cache Storage alone, and where the browser's disk fails.
   * @param {string} url @param {number} size @param {() => Promise<import("./assets.mjs").Room>} [room]  its errors are thrown
   */
  async file(url, size, room) {
    const open = isScript(url) ? undefined : await openWhole(await this.#folder, fileName(url), size + SUM);
    if (!open) return undefined;
    let whole = false;
    try {
      const place = (await room?.()) ?? { bytes: new Uint8Array(size) };
      whole = isWhole(open, place);
      return whole ? place.bytes : undefined;
    } finally {
      if (whole) setTimeout(() => open.close(), LATER);
      else open.close();
    }
  }

  /** What Cache Storage has of an address. */
  async cached(url) {
    try {
      const found = await (await this.#cache).match(url);
      return found && new Uint8Array(await found.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  /** Throws where there is no room. */
  async put(url, body, type) {
    if (!isScript(url) && (await this.#write(fileName(url), body))) return;
    await (await this.#cache).put(url, new Response(body, { headers: { "content-type": type } }));
  }

  async #write(name, bytes) {
    const folder = await this.#folder;
    try {
      const handle = await folder.getFileHandle(name, { create: true });
      const open = await handle.createSyncAccessHandle();
      try {
        await open.truncate(0);
        return open.write(bytes, { at: 0 }) + open.write(sumOf(bytes), { at: bytes.length }) === bytes.length + SUM;
      } finally {
        await open.close();
      }
    } catch {
      await folder?.removeEntry(name).catch(() => {});
      return false;
    }
  }

  /** Drops all but these addresses. */
  async retain(urls) {
    const cache = await this.#cache;
    for (const request of await cache.keys()) if (!urls.has(request.url)) await cache.delete(request);
    const names = new Set([...urls].map(fileName));
    const folder = await this.#folder;
    for await (const name of folder?.keys() ?? []) if (!names.has(name)) await folder.removeEntry(name);
  }
}

/** A file of so many bytes, to be read; where a second reader is not let in, in a way that takes longer. */
async function openWhole(folder, name, size) {
  try {
    const handle = await folder.getFileHandle(name);
    const open = await handle.createSyncAccessHandle({ mode: "read-only" }).catch(async () => inMemory(await (await handle.getFile()).arrayBuffer()));
    if ((await open.getSize()) === size) return open;
    open.close();
  } catch {
    // There is none.
  }
  return undefined;
}

const inMemory = (buffer) => ({
  getSize: () => buffer.byteLength,
  read(into, { at }) {
    into.set(new Uint8Array(buffer, at, into.length));
    return into.length;
  },
  close() {},
});

/** Reads all of a file; whether it has its sum. */
function isWhole(open, { bytes, memory }) {
  const sum = new Uint8Array(SUM);
  try {
    return open.read(bytes, { at: 0 }) + open.read(sum, { at: bytes.length }) === bytes.length + SUM && sumOf(bytes, memory).every((byte, at) => byte === sum[at]);
  } catch {
    return false;
  }
}

/** Fletcher's sum of numbers of 32 bits: it knows them and their places. */
function sumOf(bytes, memory) {
  const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  let [at, sum, places] = memory ? quickSum(bytes, memory) : [0, bytes.length, 0];
  for (; at < numbers.length; at++) places = (places + (sum = (sum + numbers[at]) | 0)) | 0;
  for (at *= 4; at < bytes.length; at++) places = (places + (sum = (sum + bytes[at]) | 0)) | 0;
  return new Uint8Array(Int32Array.of(sum, places).buffer);
}

let adding;

/** Of the numbers in whole fours: how many they are, their sum, and that of their places. */
function quickSum({ byteOffset, length }, memory) {
  adding ??= new WebAssembly.Module(new Uint8Array(ADDING));
  const { exports } = new WebAssembly.Instance(adding, { "": { "": memory } });
  const count = (length >> 4) << 2;
  const [a, b, c, d, ...more] = exports[""](byteOffset, byteOffset + 4 * count);
  const places = Math.imul(count, length) + 4 * more.reduce((all, each) => all + each) - b - 2 * c - 3 * d;
  return [count, (length + a + b + c + d) | 0, places | 0];
}
