// Chromium opens the demo's chat twice: what is typed in one page is read in the other. One of them loses its connection for a
// while, tells of it, and comes back when it is told to.
const assert = require('node:assert');
const { chromium } = require('playwright-core');

const [executablePath, url] = process.argv.slice(2);
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

async function enter(browser, name, faults, prepare = () => {}) {
  const page = await (await browser.newContext()).newPage();
  await prepare(page);
  page.on('pageerror', (error) => faults.push(`${name}: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && faults.push(`${name}: ${message.text()}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) faults.push(`asks for ${request.url()}`);
  });
  await page.goto(url);
  await page.fill('#name', name);
  await page.press('#name', 'Tab');
  await page.getByText(`You are ${name}.`).waitFor();
  return page;
}

// A page whose connections pass through here, so that they can be cut: by the server, as it seems to the page.
async function cuttable(page) {
  const line = { cut: false, open: [] };
  await page.routeWebSocket('**/chat**', (socket) => {
    if (line.cut) return void socket.close({ code: 1012, reason: 'restart' });
    socket.connectToServer();
    line.open.push(socket);
  });
  return line;
}

async function outage(page, line) {
  const [retry, note] = [page.getByRole('button', { name: 'Retry now' }), page.locator('li.outage')];
  assert.strictEqual(await retry.isVisible(), false);
  line.cut = true;
  for (const socket of line.open.splice(0)) await socket.close({ code: 1012, reason: 'restart' });
  await page.getByText(/^No connection since .*: the server closed with 1012 restart/).waitFor();
  await retry.waitFor();
  await page.getByText(/^next try in \d+ s$/).waitFor();
  assert.strictEqual(await page.locator('#send').isDisabled(), true);
  while (!/tried \d+ times/.test(await note.textContent())) await page.waitForTimeout(50);
  line.cut = false;
  await retry.waitFor();
  await retry.click();
  await page.getByText('connected', { exact: true }).waitFor();
  assert.match(await note.textContent(), /^No connection from .* to .* \(\d+ s\): .*, tried \d+ times\./);
  assert.deepStrictEqual([await retry.isVisible(), await note.count()], [false, 1]);
}

(async () => {
  const browser = await chromium.launch({ executablePath, args });
  const faults = [];
  let line;
  const ada = await enter(browser, 'Ada', faults, async (page) => { line = await cuttable(page); });
  const bob = await enter(browser, 'Bob', faults);
  await ada.getByText('Bob came').waitFor();
  await ada.fill('#line', 'do you hear me?');
  await ada.press('#line', 'Enter');
  await bob.locator('li.say', { hasText: 'do you hear me?' }).waitFor();
  await bob.fill('#line', 'loud and clear');
  await bob.click('#send');
  await ada.locator('li.say', { hasText: 'loud and clear' }).waitFor();
  // What others say is text, whatever it looks like.
  await bob.fill('#line', '<img src=x onerror=alert(1)>');
  await bob.click('#send');
  await ada.locator('li.say', { hasText: '<img src=x' }).waitFor();
  assert.strictEqual(await ada.locator('li img').count(), 0);
  assert.strictEqual(await ada.locator('li.outage').count(), 0, 'a new name is no outage');
  await outage(ada, line);
  await bob.fill('#line', 'you are back');
  await bob.click('#send');
  await ada.locator('li.say', { hasText: 'you are back' }).waitFor();
  await bob.close();
  await ada.getByText('Bob left').waitFor();
  assert.deepStrictEqual(faults, []);
  await browser.close();
})().catch((error) => {
  console.error(String(error.stack).replaceAll('\n', ' '));
  process.exit(1);
});
