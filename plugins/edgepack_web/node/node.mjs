// Vectors of texts in Node: JSON lines in, each with a "text"; JSON lines out, each with its "embedding".
//   node node.mjs < texts.jsonl > vectors.jsonl
import { readFileSync, writeSync } from "node:fs";

import { load } from "./embed.mjs";

const texts = readFileSync(0, "utf8")
  .split("\n")
  .filter((line) => line)
  .map((line) => JSON.parse(line).text);
const embedder = await load(new URL("./", import.meta.url));
const vectors = await embedder.embed(texts);
const answer = Buffer.from(vectors.map((vector) => JSON.stringify({ embedding: Array.from(vector) }) + "\n").join(""));
for (let at = 0; at < answer.length; ) {
  try {
    at += writeSync(1, answer, at);
  } catch (error) {
    if (error.code !== "EAGAIN") throw error; // a full pipe
  }
}
embedder.close();
