// A server by Node's http2 that does what servers may do: few streams, early replies, resets, and GOAWAY behind a reply.
'use strict';
const fs = require('node:fs');
const http2 = require('node:http2');

const [port, key, cert] = process.argv.slice(2);
const settings = { maxConcurrentStreams: 10, initialWindowSize: 20000 };
const server = key
  ? http2.createSecureServer({ settings, key: fs.readFileSync(key), cert: fs.readFileSync(cert) })
  : http2.createServer({ settings });

server.on('stream', (stream, head) => {
  stream.on('error', () => {});
  const path = head[':path'];
  switch (path) {
    case '/echo':
      stream.respond({ ':status': 200 });
      stream.pipe(stream);
      break;
    case '/early':
      stream.respond({ ':status': 403 }, { endStream: true });
      stream.close(http2.constants.NGHTTP2_NO_ERROR);
      break;
    case '/reset':
      stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
      break;
    case '/goodbye':
      stream.respond({ ':status': 200 });
      stream.end(path);
      stream.session.close();
      break;
    default:
      stream.additionalHeaders({ ':status': 103, link: '</style.css>; rel=preload' });
      stream.respond({ ':status': 200 });
      stream.end(path);
  }
});
server.listen(port, '127.0.0.1');
