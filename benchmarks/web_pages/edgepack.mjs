// A bundle's own loader, on one thread as the others: npm's WebAssembly would take a thread per processor.
import { load } from "./embed.mjs";
import { firstVector } from "./first.mjs";

firstVector(async () => {
  const embedder = await load(undefined, { threads: 1 });
  globalThis.times = embedder.loaded.times;
  return (texts) => embedder.embed(texts);
});
