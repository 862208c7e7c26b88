// A bundle's own loader.
import { load } from "./embed.mjs";
import { firstVector } from "./first.mjs";

firstVector(async () => {
  const embedder = await load();
  globalThis.times = embedder.loaded.times;
  return (texts) => embedder.embed(texts);
});
