// Unigram models (XLM-RoBERTa, multilingual E5 and their like), id for id as Hugging Face's tokenizers makes them, with the tables
// of the native program (src/edgepack/runner/tokenizer/web_tables.py writes them; csrc/tokenizer/unigram.cc does the same).
import { ByCodePoint, Compose } from "./normal.mjs";
import { byCodePoint, sectionsOf, u32 } from "./table.mjs";
import { WHITE, finder, frameOf, framed, split, wellFormed } from "./tokenizer.mjs";

const AT_SPACES = 1, META = 2, META_SPLITS = 4, PREPEND = 8, PREPEND_FIRST = 16, DOUBLES = 32;
const BY_CODE_POINT = 1, PRECOMPILED = 2, SQUEEZE = 3, STRIP_LEFT = 4, STRIP_RIGHT = 5, STRIP_BOTH = 6, COMPOSE = 7, SPACES = 8;
const UNCHANGED = 0, ONE_SPACE = 4, FIRST_OF_FORMS = 8;
const CR = 1, LF = 2, CONTROL = 3, EXTEND = 4, LINKER = 5, JOINER = 7, REGION = 8, PREPENDED = 9, SPACING = 10;
const HANGUL_L = 11, HANGUL_V = 12, HANGUL_T = 13, HANGUL_LV = 14, HANGUL_LVT = 15, PICTURE = 16, CONSONANT = 17;
const NORMALIZED_FIRST = 8;
const NONE = -1;
const utf8 = new TextEncoder();
const START_SPACE = new RegExp(`^${WHITE}+`);
const END_SPACE = new RegExp(`${WHITE}+$`);
const ANY_SPACE = new RegExp(WHITE);

/** Byte strings with numbers, walked a byte at a time (src/edgepack/runner/tokenizer/trie.py). */
class Trie {
  constructor(bytes) {
    const [nodes, count] = u32(bytes);
    const words = (nodes >> 6) + 1;
    let at = 8;
    const take = (Numbers, length) => {
      const part = new Numbers(bytes.buffer, at, length);
      at += Math.ceil(part.byteLength / 8) * 8;
      return part;
    };
    this.bits = take(Uint32Array, 2 * words);
    this.base = take(Uint32Array, (nodes >> 6) + 1);
    this.ranks = take(Uint32Array, words);
    this.numbers = take(Uint32Array, count);
    this.offsets = take(Uint16Array, nodes + 1);
    this.labels = take(Uint8Array, nodes);
  }

  #first(node) {
    return this.base[node >> 6] + this.offsets[node];
  }

  step(node, label) {
    const end = this.#first(node + 1);
    for (let child = this.#first(node); child < end; child++) if (this.labels[child] === label) return child;
    return NONE;
  }

  value(node) {
    const half = node >> 5;
    const bit = 1 << (node & 31);
    if (!(this.bits[half] & bit)) return NONE;
    const before = ones(this.bits[half] & (bit - 1)) + (half & 1 ? ones(this.bits[half - 1]) : 0);
    return this.numbers[this.ranks[node >> 6] + before];
  }
}

function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return (((word + (word >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

/** Where what readers see as one character ends (csrc/tokenizer/graphemes.cc). */
function clusterEnd(text, at, kindOf) {
  const extending = (kind) => kind >= EXTEND && kind <= JOINER;
  const control = (kind) => kind >= CR && kind <= CONTROL;
  const width = (point) => (point > 0xffff ? 2 : 1);
  let point = text.codePointAt(at);
  let end = at + width(point);
  let past = kindOf(point);
  let picture = past === PICTURE, consonant = past === CONSONANT, linked = false, regions = past === REGION ? 1 : 0;
  const joins = (kind) => {
    if (past === CR) return kind === LF;
    if (control(past) || control(kind)) return false;
    if (past === HANGUL_L && [HANGUL_L, HANGUL_V, HANGUL_LV, HANGUL_LVT].includes(kind)) return true;
    if ((past === HANGUL_LV || past === HANGUL_V) && (kind === HANGUL_V || kind === HANGUL_T)) return true;
    if ((past === HANGUL_LVT || past === HANGUL_T) && kind === HANGUL_T) return true;
    if (extending(kind) || kind === SPACING || past === PREPENDED) return true;
    if (consonant && linked && kind === CONSONANT) return true;
    if (picture && past === JOINER && kind === PICTURE) return true;
    return past === REGION && kind === REGION && regions % 2 === 1;
  };
  while (end < text.length) {
    point = text.codePointAt(end);
    const kind = kindOf(point);
    if (!joins(kind)) break;
    picture = kind === PICTURE || (picture && extending(kind) && past !== JOINER);
    if (kind === CONSONANT) [consonant, linked] = [true, false];
    else if (kind === LINKER) linked = consonant;
    else if (kind !== EXTEND && kind !== JOINER) consonant = linked = false;
    regions = kind === REGION ? regions + 1 : 0;
    past = kind;
    end += width(point);
  }
  return end;
}

/** SentencePiece's map of characters. */
class CharacterMap {
  constructor(sections) {
    this.form = byCodePoint(sections.pcforms, Uint16Array);
    const texts = u32(sections.pctext);
    this.offsets = texts.subarray(2, 3 + texts[0]);
    this.points = texts.subarray(3 + texts[0]);
    this.clusters = new Trie(sections.clusters);
    this.kind = byCodePoint(sections.graphem, Uint8Array);
  }

  apply(text) {
    let made = "";
    for (let at = 0; at < text.length; ) {
      const letter = text.charCodeAt(at);
      const plain = letter < 0x80 && letter !== 13 && (at + 1 === text.length || text.charCodeAt(at + 1) < 0x80);
      const end = plain ? at + 1 : clusterEnd(text, at, this.kind);
      made += this.#cluster(text.slice(at, end));
      at = end;
    }
    return made;
  }

  #cluster(text) {
    const first = text.codePointAt(0);
    if (text.length > (first > 0xffff ? 2 : 1)) {
      const bytes = utf8.encode(text);
      if (bytes.length < 6) {
        if (this.form(first) !== UNCHANGED) return this.#written(this.form(first));
        let node = 0;
        for (const byte of bytes) {
          if ((node = this.clusters.step(node, byte)) === NONE) break;
          const form = this.clusters.value(node);
          if (form !== NONE) return this.#written(form);
        }
      }
    }
    let made = "";
    for (const letter of text) {
      const form = this.form(letter.codePointAt(0));
      made += form === UNCHANGED ? letter : this.#written(form);
    }
    return made;
  }

  #written(form) {
    if (form === ONE_SPACE) return " ";
    if (form < FIRST_OF_FORMS) return "";
    return String.fromCodePoint(...this.points.subarray(this.offsets[form - FIRST_OF_FORMS], this.offsets[form - FIRST_OF_FORMS + 1]));
  }
}

export class Unigram {
  #known = new Map();

  /** @param {Uint8Array} table */
  constructor(table) {
    const sections = sectionsOf(table);
    const text = (name) => new TextDecoder().decode(sections[name] ?? new Uint8Array());
    [this.splits, this.unknown, this.pad] = u32(sections.model, 8);
    [this.unknownScore] = new Float64Array(sections.model.buffer, 24, 1);
    this.scores = new (this.splits & DOUBLES ? Float64Array : Float32Array)(sections.scores.buffer);
    this.vocabulary = new Trie(sections.vocab);
    this.meta = text("meta");
    this.frame = frameOf(u32(sections.template));
    this.inWord = sections.words ? byCodePoint(sections.words, Uint8Array) : () => 0;
    const added = JSON.parse(text("added"));
    this.raw = finder(added.filter(([, , flags]) => !(flags & NORMALIZED_FIRST)));
    this.normalized = finder(added.filter(([, , flags]) => flags & NORMALIZED_FIRST));
    this.steps = Array.from(sections.steps ? u32(sections.steps) : [], (code) => this.#step(code, sections, text));
  }

  #step(code, sections, text) {
    const Own = { [BY_CODE_POINT]: ByCodePoint, [PRECOMPILED]: CharacterMap, [COMPOSE]: Compose }[code];
    if (Own) {
      const own = new Own(sections);
      return (given) => own.apply(given);
    }
    if (code === SQUEEZE) return (given) => given.replace(/ {2,}/g, () => text("squeeze"));
    if (code === SPACES) return (given) => given.replaceAll(" ", () => text("spaces"));
    if (code === STRIP_LEFT) return (given) => given.replace(START_SPACE, "");
    if (code === STRIP_RIGHT) return (given) => given.replace(END_SPACE, "");
    if (code === STRIP_BOTH) return (given) => given.replace(START_SPACE, "").replace(END_SPACE, "");
    throw new Error(`the tokenizer's table has a step ${code}, which is not known`);
  }

  /** @param {string} text @param {number} maxLength  special tokens included */
  encode(text, maxLength) {
    const ids = [];
    const limit = Math.max(maxLength - this.frame.before.length - this.frame.after.length, 0);
    const full = () => ids.length >= limit;
    const add = (id) => ids.push(id);
    const plain = (part, start) => {
      for (const step of this.steps) part = step(part);
      const words = (piece, at) => this.#words(piece, start === 0 && at === 0, ids, full);
      split(part, this.normalized, this.inWord, add, words, full);
    };
    if (limit) split(wellFormed(text), this.raw, this.inWord, add, plain, full);
    return framed(ids.slice(0, limit), this.frame, this.pad);
  }

  #words(text, first, ids, full) {
    if (!(this.splits & AT_SPACES)) return this.#marked(text, first, ids, full);
    for (const word of text.split(ANY_SPACE)) {
      if (full()) return;
      if (word) this.#marked(word, first, ids, full);
    }
  }

  /** A mark for each space, and one before the text. */
  #marked(text, first, ids, full) {
    if (!(this.splits & META)) return this.#piece(text, ids);
    const has = text.startsWith(" ") || text.startsWith(this.meta);
    const before = !has && (this.splits & PREPEND || (this.splits & PREPEND_FIRST && first)) ? this.meta : "";
    const marked = before + text.replaceAll(" ", () => this.meta);
    if (!(this.splits & META_SPLITS)) return this.#piece(marked, ids);
    for (let start = 0; start < marked.length && !full(); ) {
      const next = marked.indexOf(this.meta, start + 1);
      const end = next < 0 ? marked.length : next;
      this.#piece(marked.slice(start, end), ids);
      start = end;
    }
  }

  #piece(text, ids) {
    let known = this.#known.get(text);
    if (!known) {
      known = this.#likeliest(utf8.encode(text));
      if (this.#known.size > 50_000) this.#known.clear();
      if (text.length < 64) this.#known.set(text, known);
    }
    for (const id of known) ids.push(id);
  }

  /** Of all ways to put the bytes together from the vocabulary the likeliest (Viterbi). */
  #likeliest(bytes) {
    const best = new Float64Array(bytes.length + 1);
    const from = new Int32Array(bytes.length + 1).fill(NONE);
    const token = new Uint32Array(bytes.length + 1);
    const offer = (start, end, id, score) => {
      if (from[end] !== NONE && !(score > best[end])) return;
      [best[end], from[end], token[end]] = [score, start, id];
    };
    for (let start = 0; start < bytes.length; ) {
      const head = bytes[start];
      const next = start + (head < 0x80 ? 1 : head < 0xe0 ? 2 : head < 0xf0 ? 3 : 4);
      let whole = false;
      let node = 0;
      for (let at = start; at < bytes.length; ) {
        if ((node = this.vocabulary.step(node, bytes[at++])) === NONE) break;
        const id = this.vocabulary.value(node);
        if (id === NONE) continue;
        offer(start, at, id, this.scores[id] + best[start]);
        whole ||= at === next;
      }
      if (!whole) offer(start, next, this.unknown, this.unknownScore + best[start]);
      start = next;
    }
    const found = [];
    let fused = false;
    for (let end = bytes.length; end > 0; end = from[end]) {
      // What is unknown and stands together is one token.
      if (token[end] !== this.unknown || !fused) found.push(token[end]);
      fused = token[end] === this.unknown;
    }
    return found.reverse();
  }
}
