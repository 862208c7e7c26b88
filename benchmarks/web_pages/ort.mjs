// onnxruntime-web's own JavaScript with the bundle's model and @huggingface/tokenizers, as its documentation shows it.
import * as ort from "./assets/ort.wasm.min.mjs";
import { Tokenizer } from "./assets/tokenizers.min.mjs";
import { firstVector } from "./first.mjs";

ort.env.wasm.wasmPaths = new URL("assets/", import.meta.url).href;
ort.env.wasm.numThreads = 1;
const MAX_LENGTH = 256;

firstVector(async () => {
  const json = async (name) => (await fetch(`assets/${name}`)).json();
  const [session, document, config] = await Promise.all([
    ort.InferenceSession.create("assets/model.ort"),
    json("tokenizer.json"),
    json("tokenizer_config.json"),
  ]);
  const tokenizer = new Tokenizer(document, config);
  return async (texts) => {
    const rows = texts.map((text) => {
      const { ids } = tokenizer.encode(text);
      return ids.length > MAX_LENGTH ? [...ids.slice(0, MAX_LENGTH - 1), ids.at(-1)] : ids;
    });
    const length = Math.max(...rows.map((ids) => ids.length));
    const tensor = (value) => {
      const data = new BigInt64Array(rows.length * length);
      rows.forEach((ids, row) => ids.forEach((id, at) => (data[row * length + at] = BigInt(value(id)))));
      return new ort.Tensor("int64", data, [rows.length, length]);
    };
    const feeds = { input_ids: tensor((id) => id), attention_mask: tensor(() => 1), token_type_ids: tensor(() => 0) };
    const { sentence_embedding: found } = await session.run(feeds);
    return rows.map((_, row) => found.data.slice(row * found.dims[1], (row + 1) * found.dims[1]));
  };
});
