// The steps of a normalizer that treat each code point by itself, and what composes after them: what normalizer.cc does, with
// its tables. String.prototype.normalize knows another Unicode than the tokenizer does.
import { byCodePoint, u32 } from "./table.mjs";

const KEEP = 0, DROP = 1, DROP_BARRIER = 2, ISOLATE = 3, SPACE = 4, HANGUL = 5, FIRST_FORM = 8;
const NEVER_MARKS = 0x300;

/** Canonical combining classes: numbers that order marks as these do; none for other characters. */
class Marks {
  constructor(sections) {
    this.orders = new Map(Array.from(u32(sections.marks ?? new Uint8Array()), (mark) => [mark >>> 8, mark & 255]));
  }

  of(point) {
    return point < NEVER_MARKS ? undefined : this.orders.get(point);
  }
}

/** Lowercase, decomposition, accents taken off, and whatever else looks at one code point; marks come into canonical order. */
export class ByCodePoint {
  #run = [];

  constructor(sections) {
    this.form = sections.forms ? byCodePoint(sections.forms, Uint16Array) : () => KEEP;
    const forms = sections.formtext ? u32(sections.formtext) : new Uint32Array(3);
    this.offsets = forms.subarray(2, 3 + forms[0]);
    this.points = forms.subarray(3 + forms[0]);
    this.marks = new Marks(sections);
  }

  /** Gives the normal form's code points to `take`, until it says that this is enough. */
  each(text, take) {
    const marks = this.#run;
    marks.length = 0;
    const settle = () => {
      if (!marks.length) return false;
      // Array.prototype.sort is stable, as canonical ordering is.
      marks.sort((a, b) => a[1] - b[1]);
      const enough = marks.some(([point]) => take(point));
      marks.length = 0;
      return enough;
    };
    const emit = (point) => {
      const order = this.marks.of(point);
      if (order) {
        marks.push([point, order]);
        return false;
      }
      return settle() || take(point);
    };
    const change = (point) => {
      const form = this.form(point);
      if (form === KEEP) return emit(point);
      if (form === DROP) return false;
      if (form === DROP_BARRIER) return settle();
      if (form === SPACE) return settle() || take(32);
      if (form === ISOLATE) return settle() || take(32) || take(point) || take(32);
      if (form === HANGUL) return syllable(point, emit);
      const [from, to] = [this.offsets[form - FIRST_FORM], this.offsets[form - FIRST_FORM + 1]];
      for (let at = from; at < to; at++) if (emit(this.points[at])) return true;
      return false;
    };
    return eachPoint(text, change) || settle();
  }

  apply(text) {
    return written((take) => this.each(text, take));
  }
}

/** Joins what was decomposed, of NFC and NFKC (The Unicode Standard, 3.11). */
export class Compose {
  constructor(sections) {
    const pairs = u32(sections.compose);
    this.joined = new Map();
    for (let at = 0; at < pairs.length; at += 3) this.joined.set(pair(pairs[at], pairs[at + 1]), pairs[at + 2]);
    this.marks = new Marks(sections);
  }

  /** A starter with what follows it, unless something between the two stands in the way. */
  apply(text) {
    return written((take) => {
      let starter;
      let last = 0;
      let between = [];
      const settle = () => {
        if (starter !== undefined) take(starter);
        between.forEach(take);
        between = [];
      };
      eachPoint(text, (point) => {
        const order = this.marks.of(point) ?? 0;
        const made = starter !== undefined && (!between.length || last < order) ? this.#whole(starter, point) : undefined;
        if (made !== undefined) {
          starter = made;
          return;
        }
        last = order;
        if (order) {
          between.push(point);
        } else {
          settle();
          starter = point;
        }
      });
      settle();
    });
  }

  #whole(first, second) {
    const [leading, vowel, index, trailing] = [first - 0x1100, second - 0x1161, first - 0xac00, second - 0x11a7];
    if (leading >= 0 && leading < 19 && vowel >= 0 && vowel < 21) return 0xac00 + (leading * 21 + vowel) * 28;
    if (index >= 0 && index < 11172 && index % 28 === 0 && trailing > 0 && trailing < 28) return first + trailing;
    return this.joined.get(pair(first, second));
  }
}

const pair = (first, second) => first * 0x200000 + second;

/** A text of the code points that are given to what `give` is called with. */
function written(give) {
  let text = "";
  const points = [];
  const flush = () => (text += String.fromCodePoint(...points.splice(0)));
  give((point) => (points.push(point) === 4096 && flush(), false));
  flush();
  return text;
}

/** Every code point to `take`, until it says that this is enough. */
export function eachPoint(text, take) {
  for (let at = 0; at < text.length; ) {
    const point = text.codePointAt(at);
    at += point > 0xffff ? 2 : 1;
    if (take(point)) return true;
  }
  return false;
}

function syllable(point, emit) {
  const index = point - 0xac00;
  if (emit(0x1100 + Math.floor(index / 588)) || emit(0x1161 + Math.floor((index % 588) / 28))) return true;
  return index % 28 > 0 && emit(0x11a7 + (index % 28));
}
