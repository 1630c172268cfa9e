// Chromium opens a page with many images. They come over one connection, by HTTP/2, and each is the one that was asked for.
'use strict';
const assert = require('node:assert');
const { chromium } = require('playwright-core');

const [executablePath, url, images] = process.argv.slice(2);

(async () => {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-quic'] });
  try {
    const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Network.enable');
    const connections = new Set();
    const protocols = new Set();
    devtools.on('Network.responseReceived', ({ response }) => {
      if (response.url.startsWith('https:')) connections.add(response.connectionId), protocols.add(response.protocol);
    });
    await page.goto(`${url}page/${images}`, { waitUntil: 'load' });
    const widths = await page.evaluate(() => [...document.images].map((image) => image.naturalWidth));
    assert.deepEqual(widths, Array.from({ length: Number(images) }, (_, number) => number + 1));
    assert.deepEqual([...protocols], ['h2']);
    assert.equal(connections.size, 1, `one connection instead of ${[...connections]}`);
    const sent = await page.evaluate(async () => (await (await fetch('/sum', { method: 'POST', body: 'x'.repeat(300000) })).text()));
    assert.equal(sent, '300000 36000000');
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
