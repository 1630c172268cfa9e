// A client of the package `ws` at an echo server of ours: node ws_client.cjs URL
const assert = require('node:assert');
const crypto = require('node:crypto');
const { once } = require('node:events');
const WebSocket = require('ws');

async function rounds(perMessageDeflate) {
  const socket = new WebSocket(process.argv[2], ['echo'], { perMessageDeflate });
  await once(socket, 'open');
  assert.strictEqual(socket.protocol, 'echo');
  assert.strictEqual(socket.extensions.includes('permessage-deflate'), Boolean(perMessageDeflate));
  const messages = ['', 'grüße', 'κόσμε'.repeat(1000), 'x'.repeat(300000)];
  messages.push(...[0, 1, 125, 126, 65535, 65536, 500000].map((n) => crypto.randomBytes(n)));
  for (const message of messages) {
    socket.send(message);
    const [data, isBinary] = await once(socket, 'message');
    assert.strictEqual(isBinary, typeof message !== 'string');
    assert.ok(data.equals(Buffer.from(message)));
  }
  socket.send('in ', { fin: false });
  socket.send('two', { fin: true });
  assert.strictEqual(String((await once(socket, 'message'))[0]), 'in two');
  socket.ping('payload');
  assert.strictEqual(String((await once(socket, 'pong'))[0]), 'payload');
  socket.close(4001, 'done');
  const [code] = await once(socket, 'close');
  assert.strictEqual(code, 4001);
}

(async () => {
  await rounds(true);
  await rounds({ threshold: 0, clientNoContextTakeover: true, serverMaxWindowBits: 10, clientMaxWindowBits: 10 });
  await rounds(false);
})().catch((error) => { console.error(error); process.exit(1); });
