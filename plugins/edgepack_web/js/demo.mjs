// The demonstration: search over the visitor's own lines, their similarity, and what loading and embedding took.

import { cosine, load } from "./embed.mjs";

const at = (id) => document.getElementById(id);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 1)} MB`;
const milliseconds = (time) => (time < 10 ? `${time.toFixed(1)} ms` : time < 10_000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(1)} s`);
// Dollars a gigabyte: the list price of a large cloud's traffic to the internet, first terabytes.
const PRICE = 0.09;
const known = new Map();
let embedder;
let lines = [];
let pair = [0, 0];
let running;

const begun = performance.now();

try {
  embedder = await load(undefined, { onProgress: showDownload });
  ready();
} catch (error) {
  say(error.message, true);
  throw error;
}

function say(text, failed = false) {
  at("state").textContent = text;
  document.querySelector(".state").classList.toggle("failed", failed);
}

function showDownload({ loaded, total, cached }) {
  at("progress").value = loaded / total;
  say(cached === loaded ? `from this device: ${megabytes(loaded)}` : `${megabytes(loaded)} of ${megabytes(total)}`);
}

function ready() {
  at("progress").className = "done";
  say(`ready after ${milliseconds(performance.now() - begun)}`);
  at("query").disabled = false;
  at("query").addEventListener("input", later(search));
  at("texts").addEventListener("input", later(readTexts, 300));
  for (const name of ["pointermove", "click"]) at("matrix").addEventListener(name, point);
  at("matrix").addEventListener("keydown", walk);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMatrix);
  navigator.serviceWorker?.register("service-worker.js").catch(() => {});
  showCost();
  readTexts();
}

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName);
  if (event.key === "/" && !typing) {
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

/** Vectors of texts; those seen before are known. What is asked for next stops what is still running. */
async function vectorsOf(texts, signal) {
  const fresh = [...new Set(texts.filter((text) => !known.has(text)))];
  const made = await embedder.embed(fresh, { signal });
  fresh.forEach((text, index) => known.set(text, made[index]));
  return texts.map((text) => known.get(text));
}

async function readTexts() {
  running?.abort();
  running = new AbortController();
  lines = at("texts").value.split("\n").map((line) => line.trim()).filter(Boolean);
  at("count").textContent = `${lines.length} texts`;
  const start = performance.now();
  const count = new Set(lines.filter((line) => !known.has(line))).size;
  try {
    await vectorsOf(lines, running.signal);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
    return;
  }
  if (count) showTiming("texts", count, performance.now() - start);
  drawMatrix();
  search();
}

async function search() {
  const query = at("query").value.trim() || at("query").placeholder;
  if (lines.some((line) => !known.has(line))) return;
  const start = performance.now();
  const fresh = !known.has(query);
  const [vector] = await vectorsOf([query]);
  if (fresh) showTiming("query", 1, performance.now() - start);
  const scored = lines.map((line) => ({ line, score: cosine(vector, known.get(line)) }));
  scored.sort((a, b) => b.score - a.score);
  at("results").replaceChildren(...scored.slice(0, 5).map(result));
}

function result({ line, score }) {
  const item = document.createElement("li");
  item.style.setProperty("--share", Math.max(score, 0).toFixed(3));
  const number = document.createElement("b");
  number.textContent = score.toFixed(3);
  const text = document.createElement("span");
  text.textContent = line;
  item.append(number, text);
  return item;
}

const timings = {};
function showTiming(what, count, time) {
  timings[what] = what === "query" ? `the question took ${milliseconds(time)}` : `${count} texts took ${milliseconds(time)}, ${Math.round((1000 * count) / time)} a second`;
  at("timing").textContent = [timings.query, timings.texts].filter(Boolean).join("; ");
}

function drawMatrix() {
  const canvas = at("matrix");
  const count = lines.length;
  canvas.width = canvas.height = Math.max(count, 1);
  canvas.setAttribute("aria-label", `similarity of ${count} texts`);
  const context = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  for (let row = 0; row < count; row++)
    for (let column = 0; column < count; column++) {
      const share = Math.min(Math.max(cosine(known.get(lines[row]), known.get(lines[column])), 0), 1);
      context.fillStyle = dark ? `oklch(${0.25 + 0.55 * share} ${0.02 + 0.1 * share} 175)` : `oklch(${0.97 - 0.52 * share} ${0.01 + 0.09 * share} 175)`;
      context.fillRect(column, row, 1, 1);
    }
  showPair();
}

function point(event) {
  const { left, top, width, height } = at("matrix").getBoundingClientRect();
  pair = [Math.floor(((event.clientY - top) / height) * lines.length), Math.floor(((event.clientX - left) / width) * lines.length)];
  showPair();
}

function walk(event) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  pair = pair.map((place, axis) => Math.min(Math.max(place + step[axis], 0), lines.length - 1));
  showPair();
}

function showPair() {
  const [one, other] = pair.map((place) => lines[Math.min(Math.max(place, 0), lines.length - 1)]);
  if (one === undefined || !known.has(one) || !known.has(other)) return;
  at("pair").textContent = `${cosine(known.get(one), known.get(other)).toFixed(3)}: “${one}” and “${other}”`;
}

function showCost() {
  const { times, transferred, runtime } = embedder.loaded;
  const { dimension, maxLength, downloads } = embedder.info;
  const own = performance.getEntriesByType("resource").reduce((sum, entry) => sum + entry.transferSize, 0);
  const wire = transferred + own;
  const rows = [
    ["downloaded at this visit", megabytes(wire)],
    ["a first visit, under brotli", megabytes(downloads.brotli)],
    ["the same, under gzip", megabytes(downloads.gzip)],
    [`a million first visits at $${PRICE} a GB`, `$${Math.round((downloads.brotli / 1e9) * PRICE * 1e6).toLocaleString("en")}`],
    ["until all files were here", milliseconds(times.downloaded)],
    ["runtime started", milliseconds(times.runtime - times.downloaded)],
    ["model opened", milliseconds(times.session - times.runtime)],
    ["runtime", runtime],
    ["numbers in a vector", dimension],
    ["tokens in a text, at most", maxLength],
  ];
  at("cost").replaceChildren(
    ...rows.flatMap(([term, value]) => {
      const [left, right] = [document.createElement("dt"), document.createElement("dd")];
      left.textContent = term;
      right.textContent = value;
      return [left, right];
    }),
  );
}
