// Run a model in a runtime: node prove.mjs REQUEST.json → JSON on the standard output, vectors for each number of threads.
// By the page's own session.mjs: what is proved is what ships.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Session, startRuntime } from './session.mjs';

const request = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const model = readFileSync(request.model);
const wasm = readFileSync(request.wasm);
const { default: factory } = await import(pathToFileURL(request.glue));
const runs = [];
for (const threads of request.threads) {
  const runtime = await startRuntime(factory, wasm, { threads });
  const at = Session.reserve(runtime, model.length);
  runtime.HEAPU8.set(model, at);
  const session = await Session.open(runtime, at, model.length);
  const vectors = [];
  for (const ids of request.texts) vectors.push([...(await session.vectors([{ ids, types: ids.map(() => 0) }], 0)).data]);
  runs.push(vectors);
}
console.log(JSON.stringify({ runs }));
// Threads that wait for work would keep the process alive.
process.exit();
