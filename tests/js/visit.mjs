// One visit to a bundle's page: `node visit.mjs CHROMIUM PROFILE URL`; over when the page is ready and its service worker is.
import { openBrowser } from "./browser.mjs";

const [program, profile, url] = process.argv.slice(2);
const browser = await openBrowser(program, { profile });
const page = await browser.page(url);
await page.until(() => /^ready/.test(document.getElementById("state").textContent));
await page.until(async () => (await navigator.serviceWorker.ready).active?.state === "activated");
await browser.close();
