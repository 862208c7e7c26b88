// Which texts go through the model together: the rule of the native runners (src/edgepack/runner/native/csrc/embedder/embedder.cc).

/** Texts of a batch. */
const SIZE = 8;
/** More tokens than these together are hardly faster, so a batch grows beyond them only where next to nothing is padded. */
const TOKENS = 64;
/** Of a batch's tokens, one in so many at most. */
const PADDING_SHARE = 64;
/** On a GPU padding is cheap, and small batches are not. */
const GPU_TOKENS = 1024;

/**
 * Places of texts of like length, the shortest first. A batch has no more tokens than the longest text may have, so that none
 * takes more memory than that text alone: attention takes rows x length x length, which is no more either.
 * @param {number[]} lengths  tokens of each text
 * @param {{longest: number, alone?: boolean, gpu?: boolean}} model  tokens of its longest text; each text goes alone
 * @returns {number[][]}
 */
export function batchesOf(lengths, { longest, alone, gpu }) {
  const order = lengths.map((_, index) => index);
  if (alone) return order.map((index) => [index]);
  order.sort((a, b) => lengths[a] - lengths[b]);
  const most = gpu ? GPU_TOKENS : Math.max(TOKENS, longest);
  const batches = [];
  // From the end: a batch's first text is its longest.
  for (let end = order.length, start; end > 0; end = start) {
    const width = Math.max(1, lengths[order[end - 1]]);
    let known = width;
    for (start = end - 1; start > 0 && end - start < SIZE; start--) {
      known += lengths[order[start - 1]];
      const padded = (end - start + 1) * width;
      const worth = gpu || padded <= TOKENS || (padded - known) * PADDING_SHARE <= padded;
      if (padded > most || !worth) break;
    }
    batches.push(order.slice(start, end));
  }
  return batches.reverse();
}
