// The worker of a bundle: what a page asks, in messages, one after the other.

import { Engine } from "./engine.mjs";
import { StoppedError } from "./failures.mjs";
import { inNode } from "./platform.mjs";

const port = inNode ? (await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:worker_threads")).parentPort : globalThis;
const stops = new Map();
let engine;
let line = Promise.resolve();

function describe(error) {
  const trap = error instanceof WebAssembly.RuntimeError || error instanceof StoppedError;
  return { name: error?.name ?? "Error", message: String(error?.message ?? error), trap };
}

async function start(message, signal) {
  const begun = performance.now();
  const onProgress = (progress) => port.postMessage({ id: message.id, progress });
  const { engine: made, times } = await Engine.start(message, { signal, onProgress });
  engine = made;
  const sent = (performance.getEntriesByType?.("resource") ?? []).reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0);
  return { times: Object.fromEntries(Object.entries(times).map(([name, time]) => [name, time - begun])), transferred: sent };
}

async function handle(message) {
  const { id } = message;
  const stop = new AbortController();
  stops.set(id, stop);
  try {
    // One thing at a time: the runtime has one thread of control. After a trap nothing more: its memory is in pieces.
    const mine = line.then(() => (stop.signal.aborted ? undefined : work(message, stop.signal)));
    line = mine.catch((error) => (describe(error).trap ? new Promise(() => {}) : undefined));
    const result = await mine;
    port.postMessage({ id, result }, transferable(result));
  } catch (error) {
    port.postMessage({ id, error: describe(error) });
  } finally {
    stops.delete(id);
  }
}

function work(message, signal) {
  if (message.task === "start") return start(message, signal);
  const onProgress = (progress) => port.postMessage({ id: message.id, progress });
  return engine.embed(message.texts, { dimension: message.dimension, stopped: () => signal.aborted, onProgress });
}

const transferable = (result) => (Array.isArray(result) ? result.map(({ buffer }) => buffer) : []);

function onRequest(message) {
  if (message.task === "stop") stops.get(message.id)?.abort(new DOMException("stopped", "AbortError"));
  else handle(message);
}

if (inNode) port.on("message", onRequest);
else globalThis.onmessage = ({ data }) => onRequest(data);
port.postMessage({ ready: true });
