// Node's `ws` talks to `netwright serve ws-echo`, in clear and in TLS.
const assert = require('node:assert');
const { once } = require('node:events');
const { WebSocket } = require('ws');

async function talk(url, perMessageDeflate) {
  const socket = new WebSocket(url, { perMessageDeflate, rejectUnauthorized: false });
  await once(socket, 'open');
  const messages = ['hello', '', 'grüße '.repeat(10_000), Buffer.alloc(0), Buffer.alloc(1_000_000, 'netwright ')];
  for (const message of messages) {
    socket.send(message);
    const [echo, isBinary] = await once(socket, 'message');
    assert.strictEqual(isBinary, typeof message !== 'string');
    assert(echo.equals(Buffer.from(message)));
  }
  socket.send('in ', { fin: false });
  socket.send('pieces', { fin: true });
  assert.strictEqual(String((await once(socket, 'message'))[0]), 'in pieces');
  socket.ping('still there?');
  assert.strictEqual(String((await once(socket, 'pong'))[0]), 'still there?');
  let heard = 0;
  const all = new Promise((done) => socket.on('message', (message) => {
    assert.strictEqual(String(message), `number ${heard}`);
    heard += 1;
    if (heard === 1_000) done();
  }));
  for (let number = 0; number < 1_000; number += 1) socket.send(`number ${number}`);
  await all;
  socket.close(1000, 'done');
  const [code] = await once(socket, 'close');
  assert.strictEqual(code, 1000);
}

(async () => {
  for (const url of process.argv.slice(2)) for (const packed of [true, false]) await talk(url, packed);
})().catch((error) => {
  console.error(String(error.stack).replaceAll('\n', ' '));
  process.exit(1);
});
