// transformers.js with the model file that its models have on the hub.
import { env, pipeline } from "./assets/transformers.min.js";
import { firstVector } from "./first.mjs";

env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = "/assets/";
const runtime = (kind) => new URL(`assets/ort-wasm-simd-threaded.asyncify.${kind}`, import.meta.url).href;
env.backends.onnx.wasm.wasmPaths = { mjs: runtime("mjs"), wasm: runtime("wasm") };
env.backends.onnx.wasm.numThreads = 1;

firstVector(async () => {
  const extract = await pipeline("feature-extraction", "model", { dtype: "q8" });
  return async (texts) => {
    const found = await extract(texts, { pooling: "mean", normalize: true });
    const [rows, width] = found.dims;
    return Array.from({ length: rows }, (_, row) => found.data.slice(row * width, (row + 1) * width));
  };
});
