// What differs between browsers, Deno and Node, and what may not be there at all.

export const inDeno = typeof Deno !== "undefined";
export const inNode = typeof process === "object" && !!process.versions?.node && !inDeno;

/** The same promise, for one who may give up waiting. */
export function abortable(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/**
 * A module's text as something that can be imported or started, and what forgets it again. Sandboxed frames, which are of
 * no origin, take no blobs for modules, but data.
 */
export function addressOf(text) {
  if (globalThis.origin === "null") return { address: `data:text/javascript,${encodeURIComponent(text)}`, release: () => {} };
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  return { address, release: () => URL.revokeObjectURL(address) };
}
