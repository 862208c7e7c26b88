// The module of a real bundle (its folder is in BUNDLE) at work in Node.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.env.BUNDLE}/`);
const { cosine, load } = await import(new URL("embed.mjs", folder));
const embedder = await load(folder);
after(() => embedder.close());

test("the same bundle is opened once", async () => {
  assert.equal(await load(folder), embedder);
  assert.equal(await load(new URL("bundle.json", folder)), embedder);
});

test("it gives the vectors that the build gave", async () => {
  const { passed, lowest } = await embedder.selfTest();
  assert.ok(passed, `lowest cosine ${lowest}`);
});

test("answers come in the order of the texts, whatever their lengths", async () => {
  const texts = Array.from({ length: 20 }, (_, index) => "word ".repeat((index * 7) % 20) + index);
  const together = await embedder.embed(texts);
  for (const [index, text] of texts.entries()) {
    const [alone] = await embedder.embed(text);
    assert.ok(cosine(alone, together[index]) > 0.999, text);
  }
});

test("a vector has as many numbers as said, and length 1", async () => {
  const [vector] = await embedder.embed(["a cat"]);
  assert.equal(vector.length, embedder.info.dimension);
  assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3);
});

test("no text, an empty text and a text of 10 MB", async () => {
  assert.deepEqual(await embedder.embed([]), []);
  const [empty] = await embedder.embed([""]);
  assert.ok(Number.isFinite(empty[0]));
  const words = "a long text about cats and dogs ".repeat(330_000);
  const [long, cut] = await embedder.embed([words, words.slice(0, 20_000)]);
  assert.ok(cosine(long, cut) > 0.9999);
});

test("unpaired surrogates are taken for U+FFFD", async () => {
  const [one, other] = await embedder.embed(["a \ud800 cat", "a \ufffd cat"]);
  assert.deepEqual(one, other);
});

test("what is no text is refused, and named by its place", async () => {
  await assert.rejects(embedder.embed(["a cat", 5]), /text 1 is a number/);
  await assert.rejects(embedder.embed([null]), /text 0 is null/);
  await assert.rejects(embedder.embed(42), { name: "TypeError", message: /a string or several; this is a number/ });
  await assert.rejects(embedder.embed({}), /this is an object/);
  await assert.rejects(embedder.embed(), /this is undefined/);
});

test("prefixes and dimensions that the model does not know are refused", async () => {
  await assert.rejects(embedder.embed("a cat", { prefix: "query" }), { name: "RangeError", message: /wants no prefix/ });
  await assert.rejects(embedder.embed("a cat", { dim: 64 }), { name: "RangeError", message: /no vectors of 64/ });
});

test("an abort ends what is running, and the next question is answered", async () => {
  const stop = new AbortController();
  const many = embedder.embed(Array.from({ length: 400 }, (_, index) => `text number ${index}`), {
    signal: stop.signal,
    onProgress: ({ done }) => done >= 8 && stop.abort(),
  });
  await assert.rejects(many, { name: "AbortError" });
  assert.equal((await embedder.embed("a cat")).length, 1);
  await assert.rejects(embedder.embed("a cat", { signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("progress is told text by text", async () => {
  const told = [];
  await embedder.embed(["one", "two", "three"], { onProgress: ({ done, total }) => told.push([done, total]) });
  assert.deepEqual(told.at(-1), [3, 3]);
});

test("a folder that is no bundle, and threads that make no sense", async () => {
  await assert.rejects(load(new URL("assets/", folder)), /bundle\.json could not be fetched|ENOENT/);
  await assert.rejects(load(folder, { threads: 0 }), { name: "RangeError" });
  await assert.rejects(load(folder, { runtime: "quantum" }), /no runtime quantum: it has/);
});

test("what is asked of a closed embedder is refused", async () => {
  const other = await load(folder, { cache: false });
  assert.notEqual(other, embedder);
  other.close();
  await assert.rejects(other.embed("a cat"), { name: "ClosedError" });
});

test("bundle.json names every asset by its content", async () => {
  const { assets, worker, model, runtimes, tokenizer } = JSON.parse(readFileSync(new URL("bundle.json", folder), "utf8"));
  const named = [worker, ...model.parts, tokenizer.table, ...runtimes.flatMap(({ glue, wasm, relaxed }) => [glue, wasm, relaxed].filter(Boolean))];
  for (const { path, size } of named) {
    assert.ok(assets.includes(path));
    assert.equal(readFileSync(new URL(path, folder)).length, size);
  }
});
