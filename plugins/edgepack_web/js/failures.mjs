// How what computes a model fails, whichever it is.

/** The runtime refused something, and can be asked something else; the message is its own. */
export class RuntimeError extends Error {
  name = "RuntimeError";
}

/** The runtime stopped, as after a trap: nothing that it still says is to be believed. */
export class StoppedError extends Error {
  name = "RuntimeError";
}

/** This browser, or the page's policy, does not take the runtime. */
export class UnsupportedError extends Error {
  name = "UnsupportedError";
}

/** What is wrong where WebAssembly is not compiled. */
export function notTaken(error) {
  if (!(error instanceof WebAssembly.CompileError)) return error;
  const forbidden = /policy|unsafe-eval|disallowed by embedder/i.test(error.message);
  const why = forbidden ? "the Content-Security-Policy forbids it (script-src 'wasm-unsafe-eval' allows it)" : error.message;
  return new UnsupportedError(`WebAssembly cannot be compiled here: ${why}`);
}
