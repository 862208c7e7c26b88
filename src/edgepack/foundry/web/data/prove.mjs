// Run a model in a runtime: node prove.mjs REQUEST.json → JSON on the standard output.
import { readFileSync } from 'node:fs';
import { loadRuntime, Session } from './session.mjs';

const request = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const m = await loadRuntime(request.glue, request.wasm);
const code = m._OrtInit(1, 4);
if (code !== 0) throw new Error(`OrtInit gave ${code}`);
const session = new Session(m, readFileSync(request.model));
const vectors = request.texts.map((ids) => Array.from(session.run([ids], [ids.map(() => 1)])[0]));
session.release();
console.log(JSON.stringify({ inputs: session.inputs.map(({ name }) => name), vectors }));
