// Chromium opens the demo's chat twice: what is typed in one page is read in the other.
const assert = require('node:assert');
const { chromium } = require('playwright-core');

const [executablePath, url] = process.argv.slice(2);
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

async function enter(browser, name, faults) {
  const page = await (await browser.newContext()).newPage();
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

(async () => {
  const browser = await chromium.launch({ executablePath, args });
  const faults = [];
  const ada = await enter(browser, 'Ada', faults);
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
  await bob.close();
  await ada.getByText('Bob left').waitFor();
  assert.deepStrictEqual(faults, []);
  await browser.close();
})().catch((error) => {
  console.error(String(error.stack).replaceAll('\n', ' '));
  process.exit(1);
});
