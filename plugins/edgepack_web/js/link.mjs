// The worker, as seen from the page: browsers and Node start and stop one in their own ways.

import { textOf } from "./document.mjs";
import { EmbedError } from "./errors.mjs";
import { addressOf, inNode } from "./platform.mjs";

/**
 * A worker of the bundle's own code, which `post` talks to, `end` ends, and `hold` says of whether somebody waits for it.
 * From another origin it starts from a blob, which is why that needs CORS.
 */
export async function openLink(base, asset, { direct, signal, onMessage, onError }) {
  const url = new URL(asset.path, base);
  return inNode ? inThread(url, asset, { signal, onMessage, onError }) : inBrowser(url, asset, { direct, signal, onMessage, onError });
}

async function inThread(url, asset, { signal, onMessage, onError }) {
  const { Worker: Thread } = await import(/* @vite-ignore */ /* webpackIgnore: true */ "node:worker_threads");
  const code = url.protocol === "file:" ? url : new URL(`data:text/javascript,${encodeURIComponent(await textOf(url, { signal, integrity: asset.integrity }))}`);
  const thread = new Thread(code);
  thread.on("message", onMessage);
  thread.on("error", onError);
  thread.on("exit", (code) => onError(new Error(`it ended with code ${code}`)));
  return {
    post: (message) => thread.postMessage(message),
    end: () => thread.terminate(),
    // One that nobody waits for does not keep the program from ending.
    hold: (wanted) => (wanted ? thread.ref() : thread.unref()),
  };
}

async function inBrowser(url, asset, { direct, signal, onMessage, onError }) {
  const { address, release } = direct ? { address: url.href, release: () => {} } : addressOf(await textOf(url, { signal, integrity: asset.integrity }));
  let worker;
  try {
    worker = new Worker(address, { type: "module", name: "edgepack" });
  } catch (error) {
    release();
    throw new EmbedError("WorkerError", `no worker could be made: ${error.message}`, { cause: error });
  }
  worker.onmessage = ({ data }) => {
    if (data.ready) release();
    else onMessage(data);
  };
  worker.onerror = (event) => {
    event.preventDefault?.();
    const policy = direct ? "'self'" : "blob:";
    onError(new Error(event.message || `${url} does not start: it is not there, or the page's Content-Security-Policy forbids it (worker-src ${policy} allows it)`));
  };
  return { post: (message) => worker.postMessage(message), end: () => worker.terminate(), hold: () => {} };
}
