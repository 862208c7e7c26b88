// Run a model in a runtime: node prove.mjs REQUEST.json → JSON on the standard output, vectors for each number of threads.
import { readFileSync } from 'node:fs';
import { loadRuntime, Session } from './session.mjs';

const request = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const model = readFileSync(request.model);
let inputs = [];
const runs = [];
for (const threads of request.threads) {
  const m = await loadRuntime(request.glue, request.wasm, threads);
  const code = m._OrtInit(threads, 4);
  if (code !== 0) throw new Error(`OrtInit gave ${code}`);
  const session = new Session(m, model);
  runs.push(request.texts.map((ids) => Array.from(session.run([ids], [ids.map(() => 1)])[0])));
  inputs = session.inputs.map(({ name }) => name);
  session.release();
}
console.log(JSON.stringify({ inputs, runs }));
// Threads that wait for work would keep the process alive.
process.exit();
