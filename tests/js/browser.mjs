// A headless browser, and pages in it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

import { startFirefox } from "./firefox.mjs";
import { startWebKit } from "./webkit.mjs";

/** Chromium, or Firefox or WebKit's driver by their names. `profile`: a folder that stays, instead of one that goes with the browser. */
export async function openBrowser(program, { profile: kept, flags = [] } = {}) {
  const profile = kept ?? mkdtempSync(`${tmpdir()}/edgepack-browser-`);
  const start = /firefox/.test(program) ? startFirefox : /WebKit/.test(program) ? startWebKit : startChromium;
  const { child, send, open, end } = await start(program, profile, flags);
  return {
    send,
    /** A page at an address; `run(function, ...arguments)` runs in it and gives what it resolves to. */
    async page(url) {
      const { evaluate, ...more } = await open(url);
      const run = (action, ...values) => evaluate(`(${action})(${values.map((value) => JSON.stringify(value)).join(",")})`);
      const page = { ...more, run, until: (...asked) => until(run, ...asked) };
      await page.until((wanted) => document.readyState === "complete" && location.href === wanted, url);
      return page;
    },
    async close() {
      await Promise.race([end().catch(() => {}), new Promise((resolve) => setTimeout(resolve, 3000))]);
      child.kill();
      await new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));
      if (kept) return;
      // Processes of its own may outlive it for a moment, and write into the profile.
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // There are none.
      }
      await remove(profile);
    },
  };
}

async function until(run, action, ...values) {
  for (let tried = 0; tried < 600; tried++) {
    const found = await run(action, ...values).catch(() => undefined);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`not within a minute: ${action}`);
}

/** Driven through a pipe by the DevTools protocol: no port, no package. */
async function startChromium(program, profile, flags) {
  const always = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
  const child = spawn(program, [...always, ...flags, "about:blank"], { detached: true, stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const [to, from] = [child.stdio[3], child.stdio[4]];
  const waiting = new Map();
  let next = 1;
  let rest = "";
  from.setEncoding("utf8");
  from.on("data", (chunk) => {
    const messages = (rest + chunk).split("\0");
    rest = messages.pop();
    for (const text of messages) {
      const { id, result, error } = JSON.parse(text);
      const job = waiting.get(id);
      if (!job) continue;
      waiting.delete(id);
      if (error) job.reject(new Error(error.message));
      else job.resolve(result);
    }
  });
  const send = (method, params = {}, sessionId) =>
    new Promise((resolve, reject) => {
      waiting.set(next, { resolve, reject });
      to.write(`${JSON.stringify({ id: next++, method, params, sessionId })}\0`);
    });
  return { child, send, open: (url) => openTarget(send, url), end: () => send("Browser.close") };
}

async function openTarget(sendTo, url) {
  const { targetId } = await sendTo("Target.createTarget", { url });
  const { sessionId } = await sendTo("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => sendTo(method, params, sessionId);
  return {
    send,
    async evaluate(expression) {
      const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    reload: () => send("Page.reload", {}),
    close: () => sendTo("Target.closeTarget", { targetId }),
  };
}

/** A folder that others may still be writing into: one that stays after all is no fault of what was tested. */
async function remove(folder) {
  for (let tried = 0; tried < 30; tried++) {
    try {
      return rmSync(folder, { recursive: true, force: true });
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
