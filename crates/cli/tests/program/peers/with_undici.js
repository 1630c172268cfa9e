// Node's `undici` asks `netwright serve hello`, in clear and in TLS, several requests at a time on one connection.
const assert = require('node:assert');
const { Readable } = require('node:stream');
const { Client } = require('undici');

async function talk(url) {
  const client = new Client(url, { pipelining: 8, connect: { rejectUnauthorized: false } });
  const ask = async (path, options = {}) => {
    const { statusCode, headers, body } = await client.request({ path, method: 'GET', ...options });
    return { statusCode, headers, body: Buffer.from(await body.arrayBuffer()) };
  };
  assert.strictEqual(String((await ask('/')).body), 'Hello, World!');
  assert.deepStrictEqual(JSON.parse((await ask('/json')).body), { message: 'Hello, World!' });
  const many = await Promise.all(Array.from({ length: 100 }, (_, n) => ask(`/bytes/${n}`)));
  many.forEach(({ body }, n) => assert.deepStrictEqual([...body], [...Array(n).keys()]));
  const bytes = Buffer.alloc(2_000_000, 'netwright ');
  const whole = await ask('/echo', { method: 'POST', body: bytes });
  assert(whole.body.equals(bytes) && whole.headers['content-length'] === '2000000');
  const stream = await ask('/echo', { method: 'PUT', body: Readable.from([bytes, Buffer.from('end')]) });
  assert(stream.body.equals(Buffer.concat([bytes, Buffer.from('end')])));
  assert.strictEqual(stream.headers['transfer-encoding'], 'chunked');
  const expecting = await ask('/echo', { method: 'POST', body: 'late', headers: { 'x-test': '1' } });
  assert.strictEqual(String(expecting.body), 'late');
  assert.strictEqual((await ask('/nowhere')).statusCode, 404);
  await client.close();
}

(async () => {
  for (const url of process.argv.slice(2)) await talk(url);
})().catch((error) => {
  console.error(String(error.stack).replaceAll('\n', ' '));
  process.exit(1);
});
