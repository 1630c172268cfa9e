// Two browsers open the chat page: what one types the other sees. Then the server goes for a while, and the pages tell of it:
// node chat_page.cjs SERVER [SCREENSHOT]
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { chromium } = require('playwright-core');

const FLAGS = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
if (process.getuid && process.getuid() === 0) FLAGS.push('--no-sandbox');

// The chat, and its address. It ends with this program at the latest.
async function serve(address) {
  const server = spawn(process.argv[2], [address], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.on('exit', () => server.kill('SIGKILL'));
  const lines = readline.createInterface({ input: server.stdout });
  const [line] = await new Promise((resolve) => lines.once('line', (line) => resolve([line])));
  const url = new URL(line.split(' on ')[1]);
  const end = () => new Promise((resolve) => { server.once('exit', resolve); server.kill('SIGKILL'); });
  return { url, end };
}

async function talk(ada, bob) {
  const line = 'hello <b>world</b> ' + 'grüße ✓';
  await ada.getByPlaceholder('Say something').fill(line);
  await ada.getByPlaceholder('Say something').press('Enter');
  for (const page of [ada, bob]) await page.getByText(line).last().waitFor();
  await bob.getByPlaceholder('Say something').fill('and back');
  await bob.getByRole('button', { name: 'Send' }).click();
  await ada.getByText(/guest \d+: and back/).last().waitFor();
}

// How often the page says that it has tried.
async function tries(page) {
  const text = await page.locator('.outage').textContent();
  return text.includes('tried once') ? 1 : Number(text.match(/tried (\d+) times/)?.[1] ?? 0);
}

(async () => {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(fs.existsSync);
  if (!executablePath) { console.log('there is no Chromium'); process.exit(77); }
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'chat-page-'));
  const browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args: FLAGS });
  let server = await serve('127.0.0.1:0');
  try {
    const errors = [];
    const open = async () => {
      const page = await browser.newPage();
      page.on('pageerror', (error) => errors.push(String(error)));
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
      await page.goto(server.url.href);
      await page.getByText('connected', { exact: true }).waitFor();
      return page;
    };
    const [ada, bob] = [await open(), await open()];
    await talk(ada, bob);
    assert.strictEqual(await ada.getByRole('button', { name: 'Retry now' }).isVisible(), false);
    assert.deepStrictEqual(errors, []);

    // The server goes. The page says since when and why, tries by itself, and at once when it is told to.
    await server.end();
    await ada.getByText(/^No connection since .*: the server was not there/).waitFor();
    const retry = ada.getByRole('button', { name: 'Retry now' });
    await retry.waitFor();
    await ada.getByText(/next try in \d+ s/).waitFor();
    while (await tries(ada) < 2) await ada.waitForTimeout(50);
    const before = await tries(ada);
    await retry.click();
    while (await tries(ada) <= before) await ada.waitForTimeout(10);
    if (process.argv[3]) await ada.screenshot({ path: `${process.argv[3]}.outage.png` });

    // It is back: told to, the page is there at once, and says what happened. The other one comes by itself.
    server = await serve(server.url.host);
    await retry.waitFor();
    await retry.click();
    await ada.getByText('connected', { exact: true }).waitFor();
    const history = await ada.locator('.outage').textContent();
    assert.match(history, /^No connection from .* to .* \(\d+ s\): the server was not there, tried \d+ times\./);
    assert.strictEqual(await retry.isVisible(), false);
    await bob.getByText('connected', { exact: true }).waitFor();
    assert.strictEqual(await bob.locator('.outage').count(), 1);
    await talk(ada, bob);
    if (process.argv[3]) await ada.screenshot({ path: `${process.argv[3]}.back.png` });

    await bob.close();
    await ada.getByText('has left').last().waitFor();
    // What a browser says itself about a connection that failed is no error of the page.
    assert.deepStrictEqual(errors.filter((error) => !error.startsWith('WebSocket connection to ')), []);
    console.log('all has arrived');
  } finally {
    await browser.close();
    await server.end();
    fs.rmSync(profile, { recursive: true, force: true });
  }
})().catch((error) => { console.error(error); process.exit(1); });
