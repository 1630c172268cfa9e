// undici, which speaks HTTP/2 where ALPN offers it: many requests over one connection, bodies both ways.
'use strict';
const assert = require('node:assert');
const { Agent, fetch, request } = require('undici');

const secure = process.argv[2];
const dispatcher = new Agent({ allowH2: true, connections: 1, pipelining: 50, connect: { rejectUnauthorized: false } });

function numbered(length) {
  const bytes = Buffer.alloc(length + 4);
  for (let at = 0; at < length; at += 4) bytes.writeUInt32BE(at / 4, at);
  return bytes.subarray(0, length);
}

const get = async (path) => Buffer.from(await (await fetch(secure + path, { dispatcher })).arrayBuffer());

(async () => {
  assert.equal((await get('')).toString(), 'hello by HTTP/2.0\n');
  assert((await get('bytes/2000000')).equals(numbered(2000000)));
  const replies = await Promise.all(Array.from({ length: 100 }, (_, number) => get(`bytes/${number}000`)));
  replies.forEach((reply, number) => assert(reply.equals(numbered(number * 1000)), `${number}000 bytes`));
  for (const length of [10, 500000]) {
    const { statusCode, body } = await request(secure + 'echo', { dispatcher, method: 'POST', body: numbered(length) });
    assert.equal(statusCode, 200);
    assert(Buffer.from(await body.arrayBuffer()).equals(numbered(length)), `an echo of ${length} bytes`);
  }
  await dispatcher.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
