// Texts to token ids, id for id as Hugging Face's tokenizers makes them. BERT's WordPiece is done here with tables that were
// read off the real tokenizer when the bundle was made (src/edgepack/runner/tokenizer/web_tables.py writes them), Unigram in
// unigram.mjs; everything else goes through @huggingface/tokenizers. Either was compared with the real one before the bundle was written.
import { ByCodePoint, eachPoint } from "./normal.mjs";
import { byCodePoint, sectionsOf, u32 } from "./table.mjs";

const LETTER = 0, ALONE = 2;
const LEFT = 1, RIGHT = 2, SINGLE = 4, NORMALIZED = 8;
// Characters: a long text's first try (as many a token), where a place to cut is looked for, and the end of the longest text.
const CHARACTERS_A_TOKEN = 16, FIRST = 4096, WINDOW = 8192, MOST = 0x40000;
/** Tokens that are looked for in the list. */
const LOOKED_FOR = 32;
// White space as Unicode has it, which is not what JavaScript's \s is.
export const WHITE = "[\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const WHITE_END = new RegExp(`${WHITE}+$`);
const WHITE_START = new RegExp(`^${WHITE}+`);

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The added tokens as one pattern, of two that begin alike the longer first. */
export function finder(tokens) {
  if (!tokens.length) return undefined;
  const contents = tokens.map((token) => token[0]).sort((a, b) => b.length - a.length);
  return { pattern: new RegExp(contents.map(escaped).join("|"), "g"), by: new Map(tokens.map((token) => [token[0], token])) };
}

/** The text between added tokens, and where it begins, to `plain`, their ids to `add`, in their order; ends when `full()`. */
export function split(text, found, inWord, add, plain, full) {
  let start = 0;
  if (found) {
    found.pattern.lastIndex = 0;
    for (let match; !full() && (match = found.pattern.exec(text)); ) {
      const [, id, flags] = found.by.get(match[0]);
      let from = match.index;
      let to = from + match[0].length;
      if (flags & SINGLE && (inWord(before(text, from)) || inWord(text.codePointAt(to)))) continue;
      // The search goes on behind the match itself, as the library's does.
      if (flags & LEFT) from = Math.max(from - (WHITE_END.exec(text.slice(start, from))?.[0].length ?? 0), start);
      if (flags & RIGHT) to += WHITE_START.exec(text.slice(to))?.[0].length ?? 0;
      if (start < from) plain(text.slice(start, from), start);
      if (!full()) add(id);
      start = to;
    }
  }
  if (start < text.length && !full()) plain(text.slice(start), start);
}

/** The code point that ends at a place. */
function before(text, at) {
  const low = text.charCodeAt(at - 1);
  return at > 1 && low >= 0xdc00 && low < 0xe000 ? text.codePointAt(at - 2) : low;
}

/** Ids of tokens. The few of a first text are looked for in their list, in less time than a Map of all takes to be made. */
class Vocabulary {
  #lines;
  #prefix;
  #asked = 0;
  #ids;

  /** @param {string} list  a token a line; a tab stands for the prefix of what continues a word */
  constructor(list, prefix) {
    this.#lines = `\n${list}\n`;
    this.#prefix = prefix;
  }

  get(token) {
    if (this.#asked++ < LOOKED_FOR) return this.#find(token);
    return (this.#ids ??= this.#map()).get(token);
  }

  #find(token) {
    if (/[\t\n]/.test(token)) return undefined;
    const continues = this.#prefix && token.startsWith(this.#prefix);
    const at = this.#lines.indexOf(`\n${continues ? `\t${token.slice(this.#prefix.length)}` : token}\n`);
    return at < 0 ? undefined : this.#lines.slice(0, at).split("\n").length - 1;
  }

  #map() {
    const ids = new Map();
    const lines = this.#lines.split("\n");
    for (let at = 1; at < lines.length; at++) if (lines[at]) ids.set(lines[at][0] === "\t" ? this.#prefix + lines[at].slice(1) : lines[at], at - 1);
    this.#lines = "";
    return ids;
  }
}

export class WordPiece {
  #vocabulary;
  #words = new Map();
  #buffer = [];

  /** @param {Uint8Array} table */
  constructor(table) {
    const sections = sectionsOf(table);
    const text = (name) => new TextDecoder().decode(sections[name]);
    [this.unknown, this.longest, this.pad] = u32(sections.model, 8);
    this.prefix = text("prefix");
    this.#vocabulary = new Vocabulary(text("vocab"), this.prefix);
    this.normalizer = new ByCodePoint(sections);
    this.kind = byCodePoint(sections.pieces, Uint8Array);
    this.inWord = sections.words ? byCodePoint(sections.words, Uint8Array) : () => 0;
    const added = JSON.parse(text("added"));
    this.raw = finder(added.filter(([, , flags]) => !(flags & NORMALIZED)));
    this.normalized = finder(added.filter(([, , flags]) => flags & NORMALIZED));
    this.frame = frameOf(u32(sections.template));
  }

  /** @param {string} text @param {number} maxLength  special tokens included */
  encode(text, maxLength) {
    const ids = [];
    const limit = Math.max(maxLength - this.frame.before.length - this.frame.after.length, 0);
    const full = () => ids.length >= limit;
    const add = (id) => ids.push(id);
    if (limit)
      split(wellFormed(text), this.raw, this.inWord, add, (plain) => this.#plain(plain, ids, limit, full), full);
    return framed(ids.slice(0, limit), this.frame, this.pad);
  }

  #plain(text, ids, limit, full) {
    if (!this.normalized) return this.#pieces(text, ids, limit, true);
    return split(this.normalizer.apply(text), this.normalized, this.inWord, (id) => ids.push(id), (plain) => this.#pieces(plain, ids, limit, false), full);
  }

  /** Words of a text, one after the other, until there are enough ids: the rest of a long text is never looked at. */
  #pieces(text, ids, limit, normalize) {
    const word = this.#buffer;
    word.length = 0;
    let letters = 0;
    const end = () => {
      if (letters) this.#word(letters > this.longest ? null : String.fromCodePoint(...word), ids);
      word.length = letters = 0;
      return ids.length >= limit;
    };
    const take = (point) => {
      const kind = this.kind(point);
      if (kind === LETTER) {
        if (++letters <= this.longest) word.push(point);
        return false;
      }
      if (end()) return true;
      if (kind !== ALONE) return false;
      this.#word(String.fromCodePoint(point), ids);
      return ids.length >= limit;
    };
    if (normalize ? this.normalizer.each(text, take) : eachPoint(text, take)) return;
    end();
  }

  /** The longest pieces that a word begins with; `null` is a word that is too long. */
  #word(word, ids) {
    let known = word === null ? [this.unknown] : this.#words.get(word);
    if (!known) {
      known = this.#cut(word);
      if (this.#words.size > 50_000) this.#words.clear();
      this.#words.set(word, known);
    }
    for (const id of known) ids.push(id);
  }

  #cut(word) {
    const found = [];
    for (let start = 0; start < word.length; ) {
      let end = word.length;
      let id;
      for (; end > start; end--) {
        const piece = word.slice(start, end);
        if ((id = this.#vocabulary.get(start ? this.prefix + piece : piece)) !== undefined) break;
      }
      if (id === undefined) return [this.unknown];
      found.push(id);
      start = end;
    }
    return found;
  }
}

/**
 * Any other tokenizer.json, through @huggingface/tokenizers. That one encodes all of a text, so long ones are cut before:
 * where the first tokens cannot depend on what follows, as src/edgepack/runner/tokenizer/truncation.py says, or at last at a
 * length that no text's first tokens reach.
 */
export class Generic {
  /** @param {any} library @param {{tokenizer: object, template: number[], pad: number, boundary?: string}} table */
  constructor(library, { tokenizer, template, pad, boundary }) {
    this.library = new library.Tokenizer(tokenizer, {});
    this.frame = frameOf(template);
    this.pad = pad;
    this.boundary = boundary ? new RegExp(boundary, "g") : undefined;
  }

  encode(text, maxLength) {
    const limit = Math.max(maxLength - this.frame.before.length - this.frame.after.length, 0);
    return framed(this.#first(wellFormed(text), limit).slice(0, limit), this.frame, this.pad);
  }

  #first(text, limit) {
    for (let size = Math.max(FIRST, CHARACTERS_A_TOKEN * limit); this.boundary && size < Math.min(text.length, MOST); size *= 2) {
      const head = text.slice(0, this.#boundaryBefore(text, size));
      const ids = head ? this.#ids(head) : [];
      if (ids.length >= limit) return ids;
    }
    return this.#ids(wellFormed(text.slice(0, MOST)));
  }

  #boundaryBefore(text, size) {
    const from = Math.max(size - WINDOW, 0);
    // A character more at either end, for what the pattern looks at.
    const window = text.slice(from, size + 1);
    let last = 0;
    for (const { index } of window.matchAll(this.boundary)) if (index > 0) last = from + index;
    return last;
  }

  #ids(text) {
    return Array.from(this.library.encode(text, { add_special_tokens: false }).ids);
  }
}

/** Special tokens before and after a text, each [id, type], and the text's type (src/edgepack/runner/tokenizer/template.py). */
export function frameOf([before, after, type, ...numbers]) {
  const specials = Array.from({ length: before + after }, (_, index) => [numbers[2 * index], numbers[2 * index + 1]]);
  return { before: specials.slice(0, before), after: specials.slice(before), type };
}

export function framed(ids, { before, after, type }, pad) {
  const pairs = [...before, ...ids.map((id) => [id, type]), ...after];
  // A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
  if (!pairs.length) pairs.push([pad, 0]);
  return { ids: pairs.map(([id]) => id), types: pairs.map(([, kind]) => kind) };
}

/** U+FFFD for surrogates that have no partner. */
export function wellFormed(text) {
  if (text.toWellFormed) return text.toWellFormed();
  return text.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (found) => (found.length === 2 ? found : "\ufffd"));
}
