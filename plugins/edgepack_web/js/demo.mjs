// The demonstration: search over the visitor's own lines, their similarity, and what loading and embedding took.

import { cosine, load } from "./embed.mjs";

const at = (id) => document.getElementById(id);
const bytes = (count) => (!count ? "nothing" : count < 1e5 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(count < 1e7 ? 2 : 1)} MB`);
const milliseconds = (time) => (time < 10 ? `${time.toFixed(1)} ms` : time < 10_000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`);
const number = (count) => count.toLocaleString("en");
// Dollars a gigabyte: the list price of a large cloud's traffic to the internet, first terabytes.
const PRICE = 0.09;
/** Texts that go to the worker together: a question that comes meanwhile waits for so many at most. */
const TOGETHER = 64;
/** Texts in the matrix: more would be squares that nobody can point at. */
const SQUARES = 100;
const MOST_KNOWN = 50_000;
const known = new Map();
let embedder;
let lines = [];
let pair;
let running;
let asked = 0;
let downloading = 0;
let restarted;
/** The runtime that the address names: `?runtime=webgpu`. */
const wanted = new URLSearchParams(location.search).get("runtime") ?? undefined;

at("code").textContent = at("code").textContent.replace("./embed.mjs", new URL("embed.mjs", location.href).href);
at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(at("code").textContent);
    at("copy").textContent = "Copied";
  } catch {
    // On plain http there is no clipboard for pages.
    getSelection().selectAllChildren(at("code"));
    at("copy").textContent = "Selected";
  }
});

const begun = performance.now();
showCost();
at("again").addEventListener("click", () => location.reload());
document.querySelector(".examples").addEventListener("click", ({ target }) => {
  if (target.localName !== "button") return;
  at("query").value = target.textContent;
  search();
});

try {
  embedder = await open(wanted);
  ready();
} catch (error) {
  fail(error);
  throw error;
}

/** With the runtime that was asked for; where it cannot be had with the one that all visitors have, and that is said. */
async function open(runtime) {
  const how = { onProgress: showDownload, onRestart: showRestart };
  try {
    return await load(undefined, { ...how, runtime });
  } catch (error) {
    if (runtime === undefined || !["UnsupportedError", "RangeError"].includes(error.name)) throw error;
    const made = await load(undefined, how);
    restarted = `${error.message}. The runtime is ${made.info.runtime}`;
    return made;
  }
}

function say(text) {
  at("state").textContent = text;
}

function fail(error) {
  document.querySelector(".state").classList.add("failed");
  at("bytes").textContent = "";
  at("again").hidden = false;
  say(`This did not work. ${error.message}`);
}

/** Told in a place of its own, which nobody reads out at every piece; and not at every piece. */
function showDownload({ loaded, total, cached }) {
  at("progress").value = loaded / total;
  downloading ||= requestAnimationFrame(() => {
    downloading = 0;
    if (!embedder) at("bytes").textContent = `${Math.round((100 * loaded) / total)} % ${cached === loaded ? "from this device" : "downloaded"}`;
  });
}

/** The small runtime lacks something that a text needs: said while the whole one comes, and after. */
function showRestart({ runtime, size }) {
  restarted = `this needed a part that the small runtime leaves out: the whole one (${runtime}, ${bytes(size)}) took over`;
  say(`${restarted}, and is being fetched…`);
}

function showRestarted() {
  if (!restarted) return;
  say(`${restarted}.`);
  restarted = undefined;
  showCost();
}

function ready() {
  at("progress").className = "done";
  at("bytes").textContent = "";
  say(`ready after ${milliseconds(performance.now() - begun)}`);
  showRestarted();
  at("gpu").hidden = wanted === "webgpu" || !embedder.info.runtimes.includes("webgpu") || !navigator.gpu;
  at("query").addEventListener("input", later(search));
  at("texts").addEventListener("input", later(readTexts, 300));
  at("stop").addEventListener("click", () => (document.querySelector(".busy.running") ? running.abort() : readTexts()));
  for (const name of ["pointermove", "click"]) at("matrix").addEventListener(name, point);
  at("matrix").addEventListener("keydown", walk);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMatrix);
  navigator.serviceWorker?.register("service-worker.js").catch(() => {});
  showCost();
  readTexts();
}

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    at("query").focus();
  } else if (event.key === "Escape" && document.activeElement === at("query")) at("query").blur();
});

function later(action, wait = 40) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, wait);
  };
}

async function embed(texts, signal) {
  const vectors = await embedder.embed(texts, { signal });
  showRestarted();
  texts.forEach((text, index) => known.set(text, vectors[index]));
}

/** What is new among the lines is embedded, some at a time; what was found so far can be searched meanwhile. */
async function readTexts() {
  running?.abort();
  const mine = (running = new AbortController());
  lines = at("texts").value.split("\n").map((line) => line.trim()).filter(Boolean);
  forget();
  const fresh = [...new Set(lines)].filter((line) => !known.has(line)).sort((a, b) => a.length - b.length);
  const start = performance.now();
  let done = 0;
  let shown = start;
  try {
    for (; done < fresh.length; done += TOGETHER) {
      await embed(fresh.slice(done, done + TOGETHER), mine.signal);
      if (done + TOGETHER >= fresh.length) continue;
      showBusy(done + TOGETHER, fresh.length);
      if (performance.now() - shown < 1000) continue;
      shown = performance.now();
      search();
    }
  } catch (error) {
    if (error.name !== "AbortError") return fail(error);
  }
  if (running !== mine) return;
  done = Math.min(done, fresh.length);
  showBusy(done, fresh.length, true);
  if (done) showTiming("texts", done, performance.now() - start);
  pair = undefined;
  drawMatrix();
  search();
}

/** Vectors of lines that are no longer there are kept, but not without end. */
function forget() {
  if (known.size < MOST_KNOWN) return;
  const wanted = new Set(lines);
  for (const text of known.keys()) if (!wanted.has(text)) known.delete(text);
}

function showBusy(done, total, over = false) {
  const stopped = over && done < total;
  document.querySelector(".busy").className = `busy ${stopped ? "stopped" : over ? "" : "running"}`;
  at("done").value = done / total || 0;
  at("stop").textContent = stopped ? "Go on" : "Stop";
  at("count").textContent = over && !stopped ? `${number(lines.length)} texts` : `${stopped ? "stopped after " : ""}${number(done)} of ${number(total)}`;
}

async function search() {
  if (!embedder) return;
  const mine = ++asked;
  const query = at("query").value.trim() || at("query").placeholder;
  const start = performance.now();
  if (!known.has(query)) {
    try {
      await embed([query]);
    } catch (error) {
      return fail(error);
    }
    showTiming("query", 1, performance.now() - start);
  }
  if (mine !== asked) return;
  const vector = known.get(query);
  const found = lines.filter((line) => known.has(line)).map((line) => ({ line, score: cosine(vector, known.get(line)) }));
  found.sort((a, b) => b.score - a.score);
  showResults(found.slice(0, 5));
}

/** Items stay and change, so that their bars move; what is best is read out, not all five. */
function showResults(found) {
  const list = at("results");
  while (list.children.length > found.length) list.lastChild.remove();
  while (list.children.length < found.length) {
    const item = document.createElement("li");
    item.append(...["b", "span", "i"].map((name) => document.createElement(name)));
    list.append(item);
  }
  found.forEach(({ line, score }, index) => {
    const [value, text, bar] = list.children[index].children;
    value.textContent = score.toFixed(3);
    text.textContent = line;
    bar.style.setProperty("--share", Math.min(Math.max(score, 0), 1).toFixed(3));
  });
  readOut(found.length ? `Nearest, ${found[0].score.toFixed(2)}: ${found[0].line}` : "");
}

const readOut = (() => {
  let text;
  const show = later(() => (at("best").textContent = text), 800);
  return (next) => ((text = next), show());
})();

const timings = {};
function showTiming(what, count, time) {
  const rate = count > 1 ? ` (${number(Math.round((1000 * count) / time))} a second)` : "";
  timings[what] = what === "query" ? `the question took ${milliseconds(time)}` : `${number(count)} ${count > 1 ? "texts" : "text"} ${milliseconds(time)}${rate}`;
  at("timing").textContent = [timings.query, timings.texts].filter(Boolean).join(", ");
}

/** The texts that the matrix shows, with their vectors. */
let squares = [];

function drawMatrix() {
  const canvas = at("matrix");
  squares = lines.slice(0, SQUARES).filter((line) => known.has(line)).map((line) => ({ line, vector: known.get(line) }));
  canvas.width = canvas.height = Math.max(squares.length, 1);
  canvas.setAttribute("aria-label", `similarity of ${squares.length} texts`);
  const context = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let [nearest, best] = [[0, 0], -Infinity];
  squares.forEach((one, row) =>
    squares.forEach((other, column) => {
      const score = cosine(one.vector, other.vector);
      if (row < column && score > best) [nearest, best] = [[row, column], score];
      const share = Math.min(Math.max(score, 0), 1);
      context.fillStyle = dark ? `oklch(${0.25 + 0.55 * share} ${0.02 + 0.1 * share} 175)` : `oklch(${0.97 - 0.52 * share} ${0.01 + 0.09 * share} 175)`;
      context.fillRect(column, row, 1, 1);
    }),
  );
  at("matrix-help").textContent = `Pairwise${lines.length > SQUARES ? `, the first ${SQUARES}` : ""}: ${dark ? "brighter" : "darker"} is closer. Point at a square, or use the arrow keys.`;
  pair ??= nearest;
  showPair();
}

function point(event) {
  const { left, top, width, height } = at("matrix").getBoundingClientRect();
  const count = at("matrix").width;
  pair = [((event.clientY - top) / height) * count, ((event.clientX - left) / width) * count].map((place) => Math.min(Math.max(Math.floor(place), 0), count - 1));
  showPair();
}

function walk(event) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step || !pair) return;
  event.preventDefault();
  pair = pair.map((place, axis) => Math.min(Math.max(place + step[axis], 0), at("matrix").width - 1));
  showPair();
}

function showPair() {
  const [one, other] = (pair ?? []).map((place) => squares[place]);
  at("mark").hidden = one === undefined || other === undefined;
  if (at("mark").hidden) return at("pair").replaceChildren();
  const side = 100 / squares.length;
  const place = { top: pair[0] * side, left: pair[1] * side, width: side, height: side };
  for (const [name, value] of Object.entries(place)) at("mark").style[name] = `${value}%`;
  const score = element("b", cosine(one.vector, other.vector).toFixed(3));
  at("pair").replaceChildren(...[score, one.line, other.line].map((content) => element("p", content)));
}

/** Before anything is loaded the same rows, so that nothing moves when it is. */
function showCost() {
  const { times = {}, transferred = 0, runtime = "…" } = embedder?.loaded ?? {};
  const { dimension = "…", maxLength = "…", downloads = {} } = embedder?.info ?? {};
  const own = performance.getEntriesByType("resource").reduce((sum, entry) => sum + entry.transferSize, 0);
  const took = (to, from = 0) => (Number.isFinite(to - from) ? milliseconds(to - from) : "…");
  const size = (count) => (count ? bytes(count) : "…");
  const groups = {
    "This visit": [
      ["downloaded", embedder ? bytes(transferred + own) : "…"],
      ["downloaded and checked in", took(times.downloaded)],
      ["runtime started in", took(times.runtime, times.downloaded)],
      ["model opened in", took(times.session, times.runtime)],
    ],
    "A first visit": [
      ["with brotli", size(downloads.brotli)],
      ["with gzip", size(downloads.gzip)],
      [`cost of 1 M, at $${PRICE}/GB`, downloads.brotli ? `$${number(Math.round((downloads.brotli / 1e9) * PRICE * 1e6))}` : "…"],
    ],
    "The model": [
      ["dimensions", dimension],
      ["max tokens", maxLength],
      ["runtime", runtime],
    ],
  };
  at("cost").replaceChildren(...Object.entries(groups).flatMap(([title, rows]) => [element("h3", title), element("dl", ...rows.flatMap(([term, value]) => [element("dt", term), element("dd", value)]))]));
}

function element(name, ...content) {
  const made = document.createElement(name);
  made.append(...content);
  return made;
}
