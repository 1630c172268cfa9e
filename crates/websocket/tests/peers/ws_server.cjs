// An echo server of the package `ws`: prints its address, and ends with its input.
const { WebSocketServer } = require('ws');

const perMessageDeflate = { threshold: 0, serverMaxWindowBits: 11, clientMaxWindowBits: 11 };
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate }, () => {
  console.log(`ws://127.0.0.1:${server.address().port}/`);
});
server.on('connection', (socket) => {
  socket.on('message', (data, binary) => {
    socket.send(data, { binary });
    if (String(data) === 'fragments') {
      socket.send('in ', { fin: false });
      socket.send('three ', { fin: false });
      socket.send('fragments', { fin: true });
    }
    if (String(data) === 'close') socket.close(4321, 'as you wish');
  });
});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
