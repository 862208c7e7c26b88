// Says what the binding of Node gives: as tests/e2e/test_apps.py asks of every language.
import { Worker } from "node:worker_threads";
import { Bundle } from "./index.mjs";

const [folder, ...texts] = process.argv.slice(2);
const bits = (rows) => Buffer.concat(rows.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength))).toString("hex");
const refused = (place, options) => {
  try {
    Bundle.open(place, options);
  } catch (error) {
    return error;
  }
};

const bundle = Bundle.open(folder);
const vectors = bits(await bundle.embed(texts));
console.log(bundle.dimension);
console.log(vectors);
console.log(bundle.tokens(texts[0]).join(","));
console.log((await bundle.similarity(texts[0], texts[1])).toFixed(6));
const again = await Promise.all(Array.from({ length: 50 }, () => bundle.embed(texts)));
console.log(again.every((rows) => bits(rows) === vectors));
const prefix = refused(folder, { prefix: "answer" });
console.log(prefix instanceof Error, prefix.code, prefix.message);
const elsewhere = refused(`${folder}/model`, { library: `${folder}/lib/libembed.so` });
console.log(elsewhere instanceof Error, elsewhere.code);
const unset = refused(folder, { publicKey: "" });
console.log(unset instanceof Error, unset.code);
const nowhere = refused("", { library: `${folder}/lib/libembed.so` });
console.log(nowhere instanceof Error, nowhere.code);
// As readFileSync gives it, and process.env what was never set.
for (const publicKey of [Buffer.from("key"), undefined, null, 1])
  if (!(refused(folder, { publicKey }) instanceof TypeError)) throw new Error(`opened with ${publicKey} as a key`);
class Config {
  get publicKey() {
    return Buffer.from("key");
  }
}
let asked = 0;
const changing = { get publicKey() { return asked++ ? undefined : "key"; } };
for (const options of [new Config(), Object.create({ publicKey: Buffer.from("key") })])
  if (!(refused(folder, options) instanceof TypeError)) throw new Error("opened with an inherited Buffer as a key");
if (!(refused(folder, changing) instanceof Error) || asked !== 1) throw new Error("a key was asked for more than once");
if (!(refused(`${folder}\0`, { library: `${folder}/lib/libembed.so` }) instanceof Error)) throw new Error("a path was cut at a NUL");
try {
  new Bundle({});
  throw new Error("opened by nobody");
} catch (error) {
  if (error.code !== 2) throw error;
}
for (const threads of [2 ** 32, -1, 0.5])
  if (!(refused(folder, { threads }) instanceof RangeError)) throw new Error(`opened with ${threads} threads`);
// A worker that is ended while it waits for vectors ends alone.
const waiting = `const { workerData, parentPort } = require("node:worker_threads");
import("./index.mjs").then(async ({ Bundle }) => {
  const bundle = Bundle.open(workerData);
  parentPort.postMessage("open");
  await bundle.embed(Array(200).fill("a cat and a dog ".repeat(100)));
});`;
for (let round = 0; round < 3; round++) {
  const worker = new Worker(waiting, { eval: true, workerData: folder });
  await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
  await new Promise((resolve) => setTimeout(resolve, 5));
  await worker.terminate();
}
console.log((await bundle.embed([])).length);
const last = bundle.embed(texts);
await bundle.close();
await bundle.close();
console.log(bits(await last) === vectors);
console.log(await bundle.embed(texts).catch((error) => error.message === "the bundle is closed"));
