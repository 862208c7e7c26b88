// Which texts go through the model together: counted tokens, and the batches that the native runners make (EXPECTED has them).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { batchesOf } from "../../plugins/edgepack_web/js/batches.mjs";

const LONGEST = 256;
/** 1,800 texts in no order: lengths of 3 to 178 tokens, short ones more often. */
const mixed = Array.from({ length: 1800 }, (_, index) => 3 + Math.floor(((index * 7919) % 1800) ** 2 / 18514));
const width = (lengths, batch) => Math.max(...batch.map((index) => lengths[index]));
const computed = (lengths, batches) => batches.reduce((sum, batch) => sum + batch.length * width(lengths, batch), 0);
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

test("the native runners make the same batches", () => {
  for (const { lengths, longest, batches } of JSON.parse(readFileSync(process.env.EXPECTED, "utf8"))) {
    const found = batchesOf(lengths, { longest }).reverse();
    assert.deepEqual(found.map((batch) => batch.map((index) => lengths[index]).reverse()), batches);
  }
});

for (const at of [1, 8, 16, 32, 100, 1800])
  test(`hardly any padding is computed, ${at} texts a call`, () => {
    let [padded, known] = [0, 0];
    for (let start = 0; start < mixed.length; start += at) {
      const lengths = mixed.slice(start, start + at);
      const batches = batchesOf(lengths, { longest: LONGEST });
      assert.deepEqual(batches.flat().sort((a, b) => a - b), [...lengths.keys()]);
      for (const batch of batches) {
        const tokens = batch.length * width(lengths, batch);
        // Nor, then, rows x length x length, which attention takes, than the longest text's.
        assert.ok(tokens <= LONGEST, `${tokens} tokens at once`);
      }
      padded += computed(lengths, batches);
      known += sum(lengths);
    }
    assert.ok(padded <= 1.04 * known, `${padded} tokens computed, ${known} in the texts`);
  });

test("short texts go together whatever is padded, a text of the model's length alone", () => {
  assert.deepEqual(batchesOf([3, 8, 5, 4], { longest: LONGEST }), [[0, 3, 2, 1]]);
  assert.deepEqual(batchesOf([256, 256, 0], { longest: LONGEST }), [[2], [0], [1]]);
  assert.deepEqual(batchesOf([600, 600], { longest: 600 }), [[0], [1]]);
  assert.deepEqual(batchesOf([], { longest: LONGEST }), []);
});

test("where vectors depend on their neighbours texts go alone, in their order", () => {
  assert.deepEqual(batchesOf([5, 1, 9], { longest: LONGEST, alone: true }), [[0], [1], [2]]);
});

test("a GPU gets its batches whole", () => {
  assert.deepEqual(batchesOf([100, 5, 90, 80], { longest: LONGEST, gpu: true }), [[1, 3, 2, 0]]);
});
