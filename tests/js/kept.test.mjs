// What is kept in files of the origin's: a folder in memory stands in their place.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, test } from "node:test";

import { openKept } from "../../plugins/edgepack_web/js/kept.mjs";
import { sumsOf } from "../../plugins/edgepack_web/js/sums.mjs";

const BASE = "https://host.example/b/";
const URL_OF = `${BASE}assets/model-1.bin`;
let files;

class Handle {
  constructor(name) {
    this.name = name;
  }
  async createSyncAccessHandle() {
    const { name } = this;
    return {
      getSize: () => files[name].length,
      truncate: (size) => (files[name] = files[name].slice(0, size)),
      write(bytes, { at }) {
        const whole = new Uint8Array(Math.max(files[name].length, at + bytes.length));
        whole.set(files[name]);
        whole.set(bytes, at);
        files[name] = whole;
        return bytes.length;
      },
      read(into, { at }) {
        const part = files[name].subarray(at, at + into.length);
        into.set(part);
        return part.length;
      },
      close() {},
    };
  }
}

const folder = {
  async getFileHandle(name, { create } = {}) {
    if (!(name in files) && !create) throw new Error("there is none");
    files[name] ??= new Uint8Array(0);
    return new Handle(name);
  },
};

before(() => {
  const storage = { getDirectory: async () => ({ getDirectoryHandle: async () => folder }) };
  Object.defineProperty(globalThis, "navigator", { value: { storage }, configurable: true });
  globalThis.caches = {};
  files = {};
});

/** Room in a memory, at a place that is a multiple of 4. */
function room(size) {
  const memory = new WebAssembly.Memory({ initial: 2 });
  const bytes = new Uint8Array(memory.buffer, 64, size);
  return async () => ({ bytes, sums: () => sumsOf(bytes, memory) });
}

for (const size of [0, 1, 3, 4, 15, 16, 17, 63, 64, 1000, 65_536])
  test(`${size} bytes are read as they were written, with and without room in a memory`, async () => {
    const content = new Uint8Array(randomBytes(size));
    await openKept(BASE).put(URL_OF, content, "");
    assert.deepEqual(await openKept(BASE).file(URL_OF, size), content);
    assert.deepEqual(await openKept(BASE).file(URL_OF, size, room(size)), content);
  });

const damages = {
  "a bit": (bytes) => (bytes[5] ^= 1),
  "the last byte": (bytes) => (bytes[66] ^= 128),
  "two numbers in each other's place": (bytes) => bytes.set([...bytes.slice(20, 24), ...bytes.slice(16, 20)], 16),
  "zeros at the end": (bytes) => bytes.fill(0, 40),
  "another length": () => (files["model-1.bin"] = files["model-1.bin"].slice(1)),
  "nothing": () => delete files["model-1.bin"],
};
for (const [name, damage] of Object.entries(damages))
  test(`of a file with ${name} nothing is given`, async () => {
    const size = 67;
    await openKept(BASE).put(URL_OF, new Uint8Array(randomBytes(size)), "");
    damage(files["model-1.bin"]);
    assert.equal(await openKept(BASE).file(URL_OF, size), undefined);
    assert.equal(await openKept(BASE).file(URL_OF, size, room(size)), undefined);
  });

test("an error of what gives room is told", async () => {
  await openKept(BASE).put(URL_OF, new Uint8Array(8), "");
  await assert.rejects(openKept(BASE).file(URL_OF, 8, () => Promise.reject(new Error("no memory"))), /no memory/);
});
