// What a browser keeps of a bundle: bundle.json and scripts in Cache Storage, where a service worker finds them; model, tokenizer and
// WebAssembly in files of the origin's own, which a worker reads several times as fast. A file ends with a sum of its numbers: what
// was checked by SHA-256 when it came is looked at for what a disk has made of it, in a fifth of the time.

const isScript = (url) => /\.(mjs|json)$/.test(url);
const SUM = 8;
/** Milliseconds after which a file that was read is closed: a worker has to wait for the browser while it closes one. */
const LATER = 1000;
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
function isWhole(open, { bytes, sums }) {
  const sum = new Uint8Array(SUM);
  try {
    return open.read(bytes, { at: 0 }) + open.read(sum, { at: bytes.length }) === bytes.length + SUM && sumOf(bytes, sums?.()).every((byte, at) => byte === sum[at]);
  } catch {
    return false;
  }
}

/** Fletcher's sum of numbers of 32 bits: it knows them and their places. Those of the first numbers may be known. */
function sumOf(bytes, [at, sum, places] = [0, bytes.length, 0]) {
  const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  for (; at < numbers.length; at++) places = (places + (sum = (sum + numbers[at]) | 0)) | 0;
  for (at *= 4; at < bytes.length; at++) places = (places + (sum = (sum + bytes[at]) | 0)) | 0;
  return new Uint8Array(Int32Array.of(sum, places).buffer);
}
