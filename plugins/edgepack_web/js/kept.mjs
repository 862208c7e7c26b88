// What a browser keeps of a bundle: bundle.json and scripts in Cache Storage, where a service worker finds them; model, tokenizer and
// WebAssembly in files of the origin's own, which a worker reads several times as fast. A file ends with a sum of its numbers: what
// was checked by SHA-256 when it came is looked at for what a disk has made of it, in a fifth of the time.

const isScript = (url) => /\.(mjs|json)$/.test(url);
const SUM = 8;
const fileName = (url) => url.slice(url.lastIndexOf("/") + 1);

/** Nothing in Node, on plain http, and where a browser forbids it (then even asking throws). */
export async function openKept(base) {
  try {
    const cache = await globalThis.caches?.open(`edgepack:${base}`);
    return cache && new Kept(cache, base);
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
  #cache;
  #base;
  #opened;

  constructor(cache, base) {
    this.#cache = cache;
    this.#base = base;
  }

  /** Nothing where there is none. */
  get #folder() {
    return (this.#opened ??= openFolder(this.#base));
  }

  /** What a file has of an address, as it was put there; nothing in Cache Storage alone, and where the browser's disk fails. */
  async file(url) {
    try {
      const folder = isScript(url) ? undefined : await this.#folder;
      const bytes = await readWhole(await folder?.getFileHandle(fileName(url)));
      const content = bytes.subarray(0, bytes.length - SUM);
      return sumOf(content).every((byte, at) => byte === bytes[content.length + at]) ? content : undefined;
    } catch {
      return undefined;
    }
  }

  /** What Cache Storage has of an address. */
  async cached(url) {
    try {
      const found = await this.#cache.match(url);
      return found && new Uint8Array(await found.arrayBuffer());
    } catch {
      return undefined;
    }
  }

  /** Throws where there is no room. */
  async put(url, body, type) {
    if (!isScript(url) && (await this.#write(fileName(url), body))) return;
    await this.#cache.put(url, new Response(body, { headers: { "content-type": type } }));
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
    for (const request of await this.#cache.keys()) if (!urls.has(request.url)) await this.#cache.delete(request);
    const names = new Set([...urls].map(fileName));
    const folder = await this.#folder;
    for await (const name of folder?.keys() ?? []) if (!names.has(name)) await folder.removeEntry(name);
  }
}

/** Where a second reader is not let in, in a way that takes longer. */
async function readWhole(handle) {
  let open;
  try {
    open = await handle.createSyncAccessHandle({ mode: "read-only" });
  } catch {
    return new Uint8Array(await (await handle.getFile()).arrayBuffer());
  }
  try {
    const bytes = new Uint8Array(await open.getSize());
    open.read(bytes, { at: 0 });
    return bytes;
  } finally {
    await open.close();
  }
}

/** Fletcher's sum of numbers of 32 bits: it knows them and their places. */
function sumOf(bytes) {
  const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  let sum = bytes.length;
  let places = 0;
  for (let at = 0; at < numbers.length; at++) places = (places + (sum = (sum + numbers[at]) | 0)) | 0;
  for (let at = 4 * numbers.length; at < bytes.length; at++) places = (places + (sum = (sum + bytes[at]) | 0)) | 0;
  return new Uint8Array(Int32Array.of(sum, places).buffer);
}
