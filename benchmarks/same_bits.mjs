// As same_bits.cc, of the engine's module in Node: `node same_bits.mjs PLAN IDS LEVEL BATCH THREADS`; LEVEL is the module's file, and it has one
// thread.
import { readFileSync, writeSync } from "node:fs";

import { Plan } from "../plugins/edgepack_web/js/plan.mjs";

const [plan, ids, module, together] = process.argv.slice(2);
const bytes = readFileSync(plan);
const { instance } = await WebAssembly.instantiate(readFileSync(module));
const session = new Plan(instance, bytes.length);
session.put(bytes, 0);
session.open();
const texts = readFileSync(ids, "utf8").trimEnd().split("\n").map((line) => line.split(" ").map(Number));
for (let first = 0; first < texts.length; first += Number(together)) {
  const rows = texts.slice(first, first + Number(together)).map((row) => ({ ids: row, types: row.map(() => 0) }));
  const { data } = await session.vectors(rows);
  const made = Buffer.from(data.buffer);
  for (let at = 0; at < made.length; ) at += writeSync(1, made, at);
}
