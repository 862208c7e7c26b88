// A headless Firefox, driven by WebDriver BiDi: https://w3c.github.io/webdriver-bidi/
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

// Its viewer of JSON is no page that runs what tests ask it to.
const PREFERENCES = 'user_pref("devtools.jsonview.enabled", false);\n';

/** What answers commands, and what ends it. */
export async function startFirefox(program, profile) {
  writeFileSync(`${profile}/user.js`, PREFERENCES);
  const child = spawn(program, ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0"], { detached: true, stdio: ["ignore", "ignore", "pipe"] });
  const socket = new WebSocket(`${await addressOf(child)}/session`);
  await new Promise((resolve, reject) => Object.assign(socket, { onopen: resolve, onerror: reject }));
  const waiting = new Map();
  let next = 1;
  socket.onmessage = ({ data }) => {
    const { id, type, message, result } = JSON.parse(data);
    const job = waiting.get(id);
    waiting.delete(id);
    if (type === "error") job?.reject(new Error(message));
    else job?.resolve(result);
  };
  const send = (method, params = {}) =>
    new Promise((resolve, reject) => {
      waiting.set(next, { resolve, reject });
      socket.send(JSON.stringify({ id: next++, method, params }));
    });
  await send("session.new", { capabilities: {} });
  return { child, send, end: () => send("browser.close"), open: (url) => openPage(send, url) };
}

/** It says on stderr where it listens. */
function addressOf(child) {
  let said = "";
  return new Promise((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (text) => {
      said += text;
      const [address] = /ws:\/\/\S+/.exec(said) ?? [];
      if (address) resolve(address);
    });
    child.once("error", reject).once("exit", () => reject(new Error(`Firefox ended: ${said}`)));
  });
}

async function openPage(send, url) {
  const { context } = await send("browsingContext.create", { type: "tab" });
  await send("browsingContext.navigate", { context, url, wait: "complete" });
  return {
    /** The value of an expression, which goes as JSON. */
    async evaluate(expression) {
      const json = `Promise.resolve(${expression}).then((value) => JSON.stringify(value) ?? "null")`;
      const { result, exceptionDetails } = await send("script.evaluate", { expression: json, target: { context }, awaitPromise: true });
      if (exceptionDetails) throw new Error(exceptionDetails.text);
      return JSON.parse(result.value);
    },
    reload: () => send("browsingContext.reload", { context, wait: "none" }),
    close: () => send("browsingContext.close", { context }),
  };
}
