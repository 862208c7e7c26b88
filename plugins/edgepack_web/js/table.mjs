// Tables of a tokenizer, as src/edgepack/runner/tokenizer writes them for this page and for the native program.

const LIMIT = 0x110000;

/** Sections of a table file by name (src/edgepack/runner/tokenizer/sections.py). */
export function sectionsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const ascii = (at, count) => String.fromCharCode(...bytes.subarray(at, at + count));
  if (bytes.length < 32 || ascii(0, 8) !== "EDGETOK1") throw new Error("the tokenizer's table is not one");
  const sections = {};
  for (let index = 0; index < view.getUint32(24, true); index++) {
    const entry = 32 + 24 * index;
    const at = view.getUint32(entry + 8, true);
    // Copied, so that every section begins where its numbers may.
    sections[ascii(entry, 8).replace(/\0+$/, "")] = bytes.slice(at, at + view.getUint32(entry + 16, true));
  }
  return sections;
}

export const u32 = (bytes, at = 0) => new Uint32Array(bytes.buffer, at, (bytes.length - at) >> 2);

/** A table by code point, in two stages of 128. */
export function byCodePoint(bytes, Numbers) {
  const stages = LIMIT >> 7;
  const stage = new Uint16Array(bytes.buffer, 8, stages);
  const blocks = new Numbers(bytes.buffer, 8 + 2 * stages);
  return (point) => blocks[(stage[point >> 7] << 7) | (point & 127)];
}
