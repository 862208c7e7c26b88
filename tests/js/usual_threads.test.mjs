// How many threads a page gets that asks for none.
import assert from "node:assert/strict";
import { test } from "node:test";

import { usualThreads } from "../../plugins/edgepack_web/js/document.mjs";

const [reduced, stock, gpu] = [{ name: "reduced" }, { name: "stock", threads: true }, { name: "webgpu", gpu: true }];
const threaded = { name: "reduced-threads", threads: true };
const isolated = { isolated: true, processors: 8 };
const threads = (runtimes, options = {}, here = isolated) => usualThreads({ runtimes }, options, here);

test("one a processor, four at most, where the page is isolated and the bundle has a runtime for them", () => {
  assert.equal(threads([reduced, threaded, gpu]), 4);
  assert.equal(threads([stock]), 4);
  assert.equal(threads([reduced, threaded], {}, { isolated: true, processors: 2 }), 2);
  assert.equal(threads([reduced, threaded], {}, { isolated: false, processors: 8 }), 1);
  assert.equal(threads([reduced]), 1);
});

test("nothing is fetched for it that is there to take over, nor another runtime than the named one", () => {
  assert.equal(threads([reduced, stock]), 1);
  assert.equal(threads([reduced, threaded, stock], { runtime: "reduced" }), 1);
  assert.equal(threads([reduced, threaded, gpu], { runtime: "webgpu" }), 1);
  assert.equal(threads([reduced, stock], { runtime: "stock" }), 4);
});

test("in Node it is one", () => assert.equal(usualThreads({ runtimes: [stock] }, {}), 1));
