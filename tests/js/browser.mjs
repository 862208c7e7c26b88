// A headless Chromium, driven through a pipe by the DevTools protocol: no port, no package.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

/** `profile`: a folder that stays, instead of one that goes with the browser. */
export async function openBrowser(program, { profile: kept, flags = [] } = {}) {
  const profile = kept ?? mkdtempSync(`${tmpdir()}/edgepack-chromium-`);
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
  return {
    send,
    /** A page at an address; `run(function, ...arguments)` runs in it and gives what it resolves to. */
    async page(url) {
      const { targetId } = await send("Target.createTarget", { url });
      const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
      const page = {
        send: (method, params) => send(method, params, sessionId),
        async run(action, ...values) {
          const expression = `(${action})(${values.map((value) => JSON.stringify(value)).join(",")})`;
          const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
          if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
          return result.value;
        },
        async until(action, ...values) {
          for (let tried = 0; tried < 600; tried++) {
            const found = await page.run(action, ...values).catch(() => undefined);
            if (found) return found;
            await new Promise((resolve) => setTimeout(resolve, 100));
          }
          throw new Error(`not within a minute: ${action}`);
        },
        close: () => send("Target.closeTarget", { targetId }),
      };
      await page.until((wanted) => document.readyState === "complete" && location.href === wanted, url);
      return page;
    },
    async close() {
      await Promise.race([send("Browser.close").catch(() => {}), new Promise((resolve) => setTimeout(resolve, 3000))]);
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
