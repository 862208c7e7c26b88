// Runs a model on an instrumented runtime with one text of three tokens, and tells which functions that entered.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { Session, startRuntime } from "../../plugins/edgepack_web/js/session.mjs";

const { wasm, glue, model, prefix, ids } = JSON.parse(readFileSync(0, "utf8"));
const instances = [];
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (...values) => {
  const made = await instantiate(...values);
  instances.push(made.instance);
  return made;
};
const { default: factory } = await import(pathToFileURL(glue));
const module = await startRuntime(factory, readFileSync(wasm));
const bytes = readFileSync(model);
const at = Session.reserve(module, bytes.length);
module.HEAPU8.set(bytes, at);
const session = await Session.open(module, at, bytes.length);
const row = Int32Array.from(ids);
await session.run({ input_ids: row, attention_mask: row.map(() => 1), token_type_ids: row.map(() => 0) }, 1, row.length);
const words = Object.entries(instances[0].exports).filter(([name]) => name.startsWith(prefix));
process.stdout.write(JSON.stringify(words.map(([name, { value }]) => [Number(name.slice(prefix.length)), String(BigInt.asUintN(64, BigInt(value)))])));
