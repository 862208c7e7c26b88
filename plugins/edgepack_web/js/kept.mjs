// What a browser keeps of a bundle: bundle.json and scripts in Cache Storage, where a service worker finds them; model, tokenizer and
// WebAssembly in files of the origin's own, which a worker reads several times as fast.

const isScript = (url) => /\.(mjs|json)$/.test(url);
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

  /** What is kept of an address; nothing where the browser's disk fails. */
  async bytes(url) {
    try {
      const file = isScript(url) ? undefined : await this.#read(fileName(url));
      if (file) return file;
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

  async #read(name) {
    const folder = await this.#folder;
    return folder?.getFileHandle(name).then(readWhole, () => undefined);
  }

  async #write(name, bytes) {
    const folder = await this.#folder;
    try {
      const handle = await folder.getFileHandle(name, { create: true });
      const open = await handle.createSyncAccessHandle();
      try {
        await open.truncate(bytes.length);
        return open.write(bytes, { at: 0 }) === bytes.length;
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
    return open.read(bytes, { at: 0 }) === bytes.length ? bytes : undefined;
  } finally {
    await open.close();
  }
}
