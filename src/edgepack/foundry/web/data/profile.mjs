// Which functions of an instrumented runtime are entered by everything that a page does with one model:
// node profile.mjs REQUEST.json → {"words": {number: "value"}} on the standard output.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { loadRuntime, Session, lastError } from './session.mjs';

const request = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const model = readFileSync(request.model);
const instances = [];
const instantiate = WebAssembly.instantiate;
WebAssembly.instantiate = async (...args) => {
  const made = await instantiate.apply(WebAssembly, args);
  instances.push(made.instance ?? made);
  return made;
};

const row = (length, seed) => Array.from({ length }, (_, index) => (seed * 7919 + index * 104729 + 1000) % request.vocabulary);
const batch = (rows, length) => Array.from({ length: rows }, (_, index) => row(length, index + length));
const ones = (ids) => ids.map((each) => each.map(() => 1));
const padded = (ids) => ids.map((each, index) => each.map((_, place) => (place < Math.max(1, each.length - 3 * index) ? 1 : 0)));

/** Something that must fail, in words and not in a trap. */
function refused(what) {
  try {
    what();
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    return;
  }
  throw new Error('what should have been refused was not');
}

/** The functions as a program calls them that has its own few lines of JavaScript. */
async function direct() {
  const m = await loadRuntime(request.glue, request.wasm);
  m._OrtInit(1, 4);
  lastError(m);
  for (const [index, config] of [request.config, undefined, {}].entries()) {
    const session = new Session(m, model, config);
    // Every length and every batch once; the other settings, and long texts, with some of them.
    for (const rows of index ? request.batches.slice(0, 2) : request.batches) {
      for (const length of index ? request.lengths.slice(0, 4) : request.lengths) {
        if (rows * length > request.tokens) continue;
        const ids = batch(rows, length);
        session.run(ids, ones(ids));
        session.run(ids, padded(ids), length % 2 ? 'edgepack' : undefined);
      }
    }
    const ids = batch(2, 8);
    // What is checked before kernels run; a kernel that fails ends in abort(), and is the caller's to prevent.
    refused(() => session.run(ids, ones(ids), undefined, [7, [2, 2, 4]]));
    refused(() => session.run(ids, ones(ids), undefined, [6, [2, 8]]));
    refused(() => session.run(ids, ones(ids), undefined, [7, [2, 80]]));
    session.inputs[0].pointer += 1;
    refused(() => session.run(ids, ones(ids)));
    session.inputs[0].pointer -= 1;
    session.release();
  }
  // What a session remembers of the shapes that it has seen is kept otherwise for none, one and two of them.
  for (let shapes = 0; shapes <= 8; shapes++) {
    const session = new Session(m, model, request.config);
    for (let length = 1; length <= shapes; length++) session.run(batch(1, length), ones(batch(1, length)));
    session.release();
  }
  refused(() => new Session(m, new Uint8Array(64)));
  refused(() => new Session(m, model.subarray(0, 1000)));
  refused(() => new Session(m, model, { '': 'x' }));
}

/** The functions as npm's onnxruntime-web calls them. */
async function packaged() {
  const ort = await import(pathToFileURL(request.package).href);
  ort.env.logLevel = 'fatal';
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = readFileSync(request.wasm);
  ort.env.wasm.wasmPaths = { mjs: pathToFileURL(request.glue).href, wasm: pathToFileURL(request.wasm).href };
  const tensor = (ids) => new ort.Tensor('int64', BigInt64Array.from(ids.flat(), BigInt), [ids.length, ids[0].length]);
  for (const options of [{}, { graphOptimizationLevel: 'disabled' }, { enableCpuMemArena: false, extra: { session: { use_ort_model_bytes_directly: '1' } } }]) {
    const session = await ort.InferenceSession.create(new Uint8Array(model), { executionProviders: ['wasm'], ...options });
    for (const ids of [batch(1, 5), batch(3, 16)]) {
      const all = { input_ids: tensor(ids), attention_mask: tensor(ones(ids)), token_type_ids: tensor(ids.map((each) => each.map(() => 0))) };
      const feeds = Object.fromEntries(session.inputNames.map((name) => [name, all[name]]));
      await session.run(feeds);
      await session.run(feeds, { tag: 'x', logSeverityLevel: 4 });
    }
    await session.release();
  }
}

await direct();
if (request.package) await packaged();
const words = {};
for (const { exports } of instances) {
  for (const [name, global] of Object.entries(exports)) {
    if (name.startsWith(request.prefix)) {
      const number = name.slice(request.prefix.length);
      words[number] = String(BigInt.asUintN(64, BigInt(words[number] ?? 0) | global.value));
    }
  }
}
console.log(JSON.stringify({ words, instances: instances.length }));
