// Two browsers open the chat page; what one types the other sees: node chat_page.cjs URL [SCREENSHOT]
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { chromium } = require('playwright-core');

const FLAGS = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
if (process.getuid && process.getuid() === 0) FLAGS.push('--no-sandbox');

(async () => {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(fs.existsSync);
  if (!executablePath) { console.log('there is no Chromium'); process.exit(77); }
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'chat-page-'));
  const browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args: FLAGS });
  try {
    const errors = [];
    const open = async () => {
      const page = await browser.newPage();
      page.on('pageerror', (error) => errors.push(String(error)));
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
      await page.goto(process.argv[2]);
      await page.getByText('connected', { exact: true }).waitFor();
      return page;
    };
    const [ada, bob] = [await open(), await open()];
    const line = 'hello <b>world</b> ' + 'grüße ✓';
    await ada.getByPlaceholder('Say something').fill(line);
    await ada.getByPlaceholder('Say something').press('Enter');
    for (const page of [ada, bob]) await page.getByText(line).waitFor();
    await bob.getByPlaceholder('Say something').fill('and back');
    await bob.getByRole('button', { name: 'Send' }).click();
    await ada.getByText(/guest \d+: and back/).waitFor();
    if (process.argv[3]) await ada.screenshot({ path: process.argv[3] });
    await bob.close();
    await ada.getByText('has left').waitFor();
    assert.deepStrictEqual(errors, []);
    console.log('the line has arrived');
  } finally {
    await browser.close();
    fs.rmSync(profile, { recursive: true, force: true });
  }
})().catch((error) => { console.error(error); process.exit(1); });
