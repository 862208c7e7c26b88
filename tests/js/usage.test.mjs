// A bundle (its folder is in BUNDLE) whose model wants prefixes, was trained for shorter vectors, and has a tokenizer that is
// no WordPiece, in Node.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.env.BUNDLE}/`);
const { cosine, load } = await import(new URL("embed.mjs", folder));
const embedder = await load(folder);
after(() => embedder.close());

test("a prefix goes before each text", async () => {
  assert.deepEqual(embedder.info.prefixes, { query: "ask: ", passage: "text: " });
  const [asked, plain, other] = [await embedder.embed(["a cat"], { prefix: "query" }), await embedder.embed(["ask: a cat"]), await embedder.embed(["a cat"])];
  assert.deepEqual(asked, plain);
  assert.notDeepEqual(asked, other);
  await assert.rejects(embedder.embed("a cat", { prefix: "poem" }), /no prefix poem: it has passage, query/);
  await assert.rejects(embedder.embed("a cat", { prefix: "toString" }), /no prefix toString/);
});

test("a shorter vector is the first numbers of the whole one, at length 1", async () => {
  assert.deepEqual(embedder.info.dimensions, [8, 16]);
  const [whole] = await embedder.embed("a cat");
  for (const dim of [8, 16]) {
    const [short] = await embedder.embed("a cat", { dim });
    assert.equal(short.length, dim);
    assert.ok(Math.abs(Math.hypot(...short) - 1) < 1e-6);
    assert.ok(cosine(short, whole.slice(0, dim)) > 0.999999);
  }
  assert.deepEqual(await embedder.embed("a cat", { dim: 32 }), [whole]);
  await assert.rejects(embedder.embed("a cat", { dim: 12 }), /no vectors of 12 numbers: it gives 8, 16, 32/);
});

test("its vectors are those of the build", async () => assert.ok((await embedder.selfTest()).passed));

test("a long text gives what its beginning gives, whether there is white space to cut it at or not", async () => {
  for (const piece of ["a long text about cats and dogs ", "unbroken", "日本語の文章"]) {
    const [long, cut] = await embedder.embed([piece.repeat(300_000), piece.repeat(3000)]);
    assert.ok(cosine(long, cut) > 0.999999, piece);
  }
});
