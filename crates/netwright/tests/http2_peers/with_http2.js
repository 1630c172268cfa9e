// Node's http2: bodies both ways, trailers, many streams, uploads that nobody wants, settings, pings, and ends in order.
'use strict';
const assert = require('node:assert');
const http2 = require('node:http2');

function numbered(length) {
  const bytes = Buffer.alloc(length + 4);
  for (let at = 0; at < length; at += 4) bytes.writeUInt32BE(at / 4, at);
  return bytes.subarray(0, length);
}

function ask(session, path, body, trailers) {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const stream = session.request({ ':path': path, ':method': method }, { waitForTrailers: trailers !== undefined });
    const reply = { pieces: [] };
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.on('response', (head) => (reply.status = head[':status']));
    stream.on('trailers', (fields) => (reply.trailers = { ...fields }));
    stream.on('data', (piece) => reply.pieces.push(piece));
    stream.on('end', () => resolve({ ...reply, body: Buffer.concat(reply.pieces) }));
    stream.on('error', reject);
    stream.end(body);
  });
}

async function talk(url) {
  const session = http2.connect(url, { rejectUnauthorized: false });
  session.on('goaway', (code) => assert.equal(code, 0));
  const all = (count, question) => Promise.all(Array.from({ length: count }, (_, number) => question(number)));

  assert.equal((await ask(session, '/')).body.toString(), 'hello by HTTP/2.0\n');
  assert((await ask(session, '/bytes/2000000')).body.equals(numbered(2000000)));
  assert((await ask(session, '/file')).body.equals(numbered(3000001)));
  const echo = await ask(session, '/echo', numbered(2000000), { 'x-sum': '42' });
  assert(echo.body.equals(numbered(2000000)));
  assert.equal(echo.trailers['x-sum'], '42');

  const loaded = await all(100, (number) => ask(session, `/bytes/${number}000`));
  loaded.forEach((reply, number) => assert(reply.body.equals(numbered(number * 1000))));
  const echoed = await all(300, (number) => ask(session, '/echo', numbered(number * 100)));
  echoed.forEach((reply, number) => assert(reply.body.equals(numbered(number * 100))));
  const refused = await all(100, () => ask(session, '/early', numbered(90000)));
  refused.forEach((reply) => assert.equal(reply.status, 403));

  const given_up = session.request({ ':path': '/bytes/30000000' });
  await new Promise((resolve) => given_up.once('data', resolve));
  given_up.close(http2.constants.NGHTTP2_CANCEL);
  await new Promise((resolve, reject) => session.ping((error) => (error ? reject(error) : resolve())));
  await new Promise((resolve) => session.settings({ initialWindowSize: 1000 }, resolve));
  assert((await ask(session, '/bytes/100000')).body.equals(numbered(100000)));
  await new Promise((resolve) => session.close(resolve));
}

(async () => {
  for (const url of process.argv.slice(2)) await talk(url);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
