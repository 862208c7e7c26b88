// Vectors of the texts on standard input, by the bundle named on the command line.
import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const { load } = await import(new URL("embed.mjs", folder));
const embedder = await load(folder);
const vectors = await embedder.embed(JSON.parse(readFileSync(0, "utf8")));
const answer = Buffer.from(JSON.stringify(vectors.map((vector) => Array.from(vector))));
for (let at = 0; at < answer.length; ) {
  try {
    at += writeSync(1, answer, at);
  } catch (error) {
    if (error.code !== "EAGAIN") throw error;
  }
}
embedder.close();
