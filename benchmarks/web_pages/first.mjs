// What every page does: open, embed one sentence, say when it was there.
export function firstVector(open) {
  globalThis.first = (async () => {
    const embed = await open();
    const [vector] = await embed(["A man is eating food."]);
    globalThis.embed = embed;
    return { time: performance.now(), dimension: vector.length, times: globalThis.times };
  })();
}
