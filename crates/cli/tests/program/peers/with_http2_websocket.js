// Node's own HTTP/2 client opens WebSockets on streams (RFC 8441) of `netwright serve ws-echo`, in the clear and in TLS.
const assert = require('node:assert');
const http2 = require('node:http2');
const { once } = require('node:events');

// A frame as clients send it, with a mask that changes nothing.
function masked(opcode, payload) {
  const body = Buffer.from(payload);
  const head = body.length < 126 ? [0x80 | opcode, 0x80 | body.length] : [0x80 | opcode, 0xfe, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), body]);
}

// Gives as many bytes as there have to be.
function reader(stream) {
  let [got, wake] = [Buffer.alloc(0), () => {}];
  stream.on('data', (piece) => { got = Buffer.concat([got, piece]); wake(); });
  return async (length) => {
    while (got.length < length) await new Promise((done) => { wake = done; });
    const bytes = got.subarray(0, length);
    got = got.subarray(length);
    return bytes;
  };
}

async function echo(session, number) {
  const stream = session.request({
    ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/', 'sec-websocket-version': '13', 'sec-websocket-protocol': 'echo',
  });
  const next = reader(stream);
  const ended = once(stream, 'end');
  const [head] = await once(stream, 'response');
  assert.strictEqual(head[':status'], 200);
  assert.strictEqual(head['sec-websocket-protocol'], 'echo');
  for (const text of [`hello ${number}`, 'x'.repeat(60_000)]) {
    stream.write(masked(1, text));
    const headLength = text.length < 126 ? 2 : 4;
    const frame = await next(headLength + text.length);
    assert.strictEqual(frame[0], 0x81);
    assert.strictEqual(String(frame.subarray(headLength)), text);
  }
  stream.write(masked(8, Buffer.from([3, 232])));
  assert.deepStrictEqual([...await next(4)], [0x88, 2, 3, 232]);
  await ended;
  if (!stream.closed) {
    stream.end();
    await once(stream, 'close');
  }
  assert.strictEqual(stream.rstCode, http2.constants.NGHTTP2_NO_ERROR);
}

setTimeout(() => { console.error('it takes too long'); process.exit(1); }, 60_000).unref();

(async () => {
  for (const url of process.argv.slice(2)) {
    const session = http2.connect(url, { rejectUnauthorized: false });
    const [settings] = await once(session, 'remoteSettings');
    assert.strictEqual(settings.enableConnectProtocol, true);
    await Promise.all([...Array(20).keys()].map((number) => echo(session, number)));
    session.close();
    await once(session, 'close');
  }
})().catch((error) => {
  console.error(String(error.stack).replaceAll('\n', ' '));
  process.exit(1);
});
