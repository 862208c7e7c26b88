// A WebKitGTK, which has Safari's engine, driven by WebDriver: https://www.w3.org/TR/webdriver2/
import { spawn } from "node:child_process";

const BINARY = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser";

/** What answers commands, and what ends it; `program` is WebKitWebDriver. It draws on a display that nobody sees. */
export async function startWebKit(program) {
  const display = spawn("Xvfb", ["-displayfd", "3", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const number = await new Promise((resolve, reject) => {
    display.stdio[3].setEncoding("utf8").once("data", (text) => resolve(text.trim()));
    display.once("error", reject);
  });
  const port = 20000 + (process.pid % 20000);
  const env = { ...process.env, DISPLAY: `:${number}`, WEBKIT_DISABLE_COMPOSITING_MODE: "1" };
  const child = spawn(program, [`--port=${port}`], { env, detached: true, stdio: "ignore" });
  child.once("exit", () => display.kill());
  const ask = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (value?.error) throw new Error(`${value.error}: ${value.message}`);
    return value;
  };
  const options = { binary: BINARY, args: ["--automation"] };
  const { sessionId } = await patiently(() => ask("POST", "/session", { capabilities: { alwaysMatch: { "webkitgtk:browserOptions": options } } }));
  let line = Promise.resolve();
  // Commands go to the window that was named last; the first one stays, since others open from it.
  const send = (handle, method, path, body) => {
    const work = async () => {
      await ask("POST", `/session/${sessionId}/window`, { handle });
      return ask(method, `/session/${sessionId}${path}`, body);
    };
    const done = line.then(work);
    line = done.catch(() => {});
    return done;
  };
  const first = await ask("GET", `/session/${sessionId}/window`);
  await send(first, "POST", "/timeouts", { script: 300_000 });
  return { child, send, end: () => send(first, "DELETE", ""), open: (url) => openPage(send, first, url) };
}

async function patiently(action) {
  for (let tried = 0; ; tried++) {
    try {
      return await action();
    } catch (error) {
      if (tried === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function openPage(send, first, url) {
  const { handle } = await send(first, "POST", "/window/new", { type: "tab" });
  await send(handle, "POST", "/url", { url });
  return {
    /** The value of an expression, which goes as JSON. */
    async evaluate(expression) {
      const script = `const done = arguments[0]; Promise.resolve(${expression}).then((value) => done({ json: JSON.stringify(value) ?? "null" }), (error) => done({ failed: String(error) }));`;
      const { json, failed } = await send(handle, "POST", "/execute/async", { script, args: [] });
      if (failed !== undefined) throw new Error(failed);
      return JSON.parse(json);
    },
    reload: () => send(handle, "POST", "/refresh", {}),
    close: () => send(handle, "DELETE", "/window"),
  };
}
