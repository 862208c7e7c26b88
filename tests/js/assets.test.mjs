// The loader's downloads against a server that misbehaves.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";

import { textOf } from "../../plugins/edgepack_web/js/document.mjs";
import { Assets, DownloadError, IntegrityError } from "../../plugins/edgepack_web/js/assets.mjs";

const content = Buffer.concat([randomBytes(100_000), Buffer.alloc(200_000, "abc")]);
const integrity = `sha256-${createHash("sha256").update(content).digest("base64")}`;
let server;
let base;
let answer;
let asked;

before(async () => {
  server = createServer((request, response) => {
    asked.push(request.url);
    answer(request, response, asked.length);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${server.address().port}/b/`;
});
after(() => server.close());

function asset(more = {}) {
  asked = [];
  return { path: "assets/model-1.bin", size: content.length, integrity, ...more };
}

const plain = (request, response) => response.writeHead(200, { "content-length": content.length }).end(content);
const received = async (wanted, options = {}) => {
  let bytes;
  await new Assets(base, false).fetchAll([{ asset: wanted, into: (found) => (bytes = found) }], options);
  return Buffer.from(bytes);
};

test("bytes of bytes are told, and end at the whole", async () => {
  answer = plain;
  const told = [];
  assert.deepEqual(await received(asset(), { onProgress: (progress) => told.push(progress) }), content);
  assert.deepEqual(told.at(-1), { loaded: content.length, total: content.length, cached: 0 });
});

test("a connection that breaks off in the middle is tried again, and what it brought does not count", async () => {
  answer = (request, response, count) => {
    if (count > 1) return plain(request, response);
    response.writeHead(200, { "content-length": content.length });
    response.write(content.subarray(0, 100_000), () => setTimeout(() => response.destroy(), 20));
  };
  const told = [];
  assert.deepEqual(await received(asset(), { onProgress: (progress) => told.push(progress.loaded) }), content);
  assert.equal(asked.length, 2);
  assert.equal(Math.max(...told), content.length);
});

test("a damaged file is asked for once more, past caches, and then named", async () => {
  const damaged = Buffer.from(content);
  damaged[5000] ^= 1;
  const policies = [];
  answer = (request, response) => {
    policies.push(request.headers["cache-control"]);
    response.writeHead(200, { "content-length": damaged.length }).end(damaged);
  };
  await assert.rejects(received(asset()), (error) => error instanceof IntegrityError && /assets\/model-1\.bin is damaged/.test(error.message));
  assert.equal(asked.length, 2);
  assert.equal(policies[1], "no-cache");
});

test("what is not there is not asked for again", async () => {
  answer = (request, response) => response.writeHead(404).end();
  await assert.rejects(received(asset()), (error) => error instanceof DownloadError && /answers 404/.test(error.message));
  assert.equal(asked.length, 1);
});

test("a server that is busy is asked again", async () => {
  answer = (request, response, count) => (count === 1 ? response.writeHead(503).end() : plain(request, response));
  assert.deepEqual(await received(asset()), content);
  assert.equal(asked.length, 2);
});

test("from a host that does not compress, the gzipped copy is taken and unpacked", async () => {
  answer = (request, response) => {
    const body = request.url.endsWith(".gz") ? gzipSync(content) : content;
    response.writeHead(200, { "content-length": body.length }).end(body);
  };
  assert.deepEqual(await received(asset({ gzip: gzipSync(content).length })), content);
  assert.deepEqual(asked.map((url) => url.slice(-4)), [".bin", "n.gz"]);
});

test("from a host that compresses, it is taken as it comes", async () => {
  answer = (request, response) => {
    const body = gzipSync(content);
    response.writeHead(200, { "content-length": body.length, "content-encoding": "gzip" }).end(body);
  };
  assert.deepEqual(await received(asset({ gzip: gzipSync(content).length })), content);
  assert.equal(asked.length, 1);
});

test("a copy that the host unpacks by itself does no harm", async () => {
  answer = (request, response) => {
    const packed = request.url.endsWith(".gz");
    const body = packed ? gzipSync(content) : content;
    response.writeHead(200, { "content-length": body.length, ...(packed ? { "content-encoding": "gzip" } : {}) }).end(body);
  };
  assert.deepEqual(await received(asset({ gzip: gzipSync(content).length })), content);
});

test("a file that is longer than it should be is refused before it fills the memory", async () => {
  const longer = Buffer.concat([content, content]);
  answer = (request, response) => response.writeHead(200).end(longer);
  await assert.rejects(received(asset()), /more than its 300000 bytes/);
});

test("an abort ends the download at once, with its reason", async () => {
  answer = (request, response) => response.writeHead(200, { "content-length": content.length }).write(content.subarray(0, 1000));
  const stop = new AbortController();
  await assert.rejects(received(asset(), { signal: stop.signal, onProgress: () => stop.abort(new Error("enough")) }), /enough/);
  assert.equal(asked.length, 1);
});

test("a compressed copy that is damaged, or is not there, costs a request and no more", async () => {
  for (const copy of [Buffer.from("not gzip at all"), gzipSync(content).subarray(0, 5000), gzipSync(Buffer.alloc(content.length)), undefined]) {
    answer = (request, response) => {
      if (!request.url.endsWith(".gz")) return plain(request, response);
      return copy ? response.writeHead(200, { "content-length": copy.length }).end(copy) : response.writeHead(404).end();
    };
    assert.deepEqual(await received(asset({ gzip: 1000 })), content);
    assert.ok(asked.length <= 3);
  }
});

test("of a host that sends files as they are, the copies of more files are asked for at once", async () => {
  answer = (request, response) => {
    const body = request.url.endsWith(".gz") ? gzipSync(content) : content;
    response.writeHead(200, { "content-length": body.length }).end(body);
  };
  const assets = new Assets(base, false);
  const wanted = asset({ gzip: gzipSync(content).length });
  await assets.fetchOne(wanted);
  await assets.fetchOne({ ...wanted, path: "assets/model-2.bin" });
  assert.deepEqual(asked.map((url) => url.slice(-11)), ["model-1.bin", "el-1.bin.gz", "el-2.bin.gz"]);
});

test("a connection on which nothing comes any more counts as lost", async () => {
  answer = (request, response, count) => {
    if (count > 1) return plain(request, response);
    response.writeHead(200, { "content-length": content.length }).write(content.subarray(0, 1000));
  };
  const wanted = asset();
  assert.deepEqual(Buffer.from(await new Assets(base, false, { patience: 200 }).fetchOne(wanted)), content);
  assert.equal(asked.length, 2);
});

test("an abort ends the waiting before another attempt, too", async () => {
  answer = (request, response) => response.writeHead(503).end();
  const stop = new AbortController();
  const waiting = received(asset(), { signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 100);
  await assert.rejects(waiting, /enough/);
  await new Promise((resolve) => setTimeout(resolve, 700));
  assert.equal(asked.length, 1);
  await assert.rejects(received(asset(), { signal: AbortSignal.abort(new Error("before")) }), /before/);
  assert.equal(asked.length, 0);
});

test("code that a cache holds damaged is asked for past it", async () => {
  const damaged = Buffer.from(content);
  damaged[9] ^= 1;
  const policies = [];
  answer = (request, response, count) => {
    policies.push(request.headers["cache-control"]);
    response.writeHead(200).end(count === 1 ? damaged : content);
  };
  asked = [];
  assert.equal(await textOf(new URL("assets/worker-1.mjs", base), { integrity }), content.toString("utf8"));
  assert.deepEqual([asked.length, policies[1]], [2, "no-cache"]);
  answer = (request, response) => response.writeHead(200).end(damaged);
  asked = [];
  await assert.rejects(textOf(new URL("assets/worker-1.mjs", base), { integrity }), { name: "DownloadError" });
  assert.equal(asked.length, 2);
});
