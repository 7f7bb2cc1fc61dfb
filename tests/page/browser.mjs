// A headless Chromium, driven by its own protocol over two pipes: no package, no port.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const WAIT_MS = 120_000;
const POLL_MS = 25;
const CLOSE_MS = 60_000;

export class Browser {
  #next = 0;
  #open = new Map();
  #listeners = new Set();
  #rest = '';

  static async launch(program = process.env.RETHREAD_CHROMIUM) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), 'rethread-browser-'));
    const flags = ['--headless=new', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--no-first-run',
      '--disable-dev-shm-usage', '--hide-scrollbars', '--force-color-profile=srgb', `--user-data-dir=${browser.folder}`, 'about:blank'];
    browser.process = spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.process.stdio[4].setEncoding('utf8').on('data', (piece) => browser.#read(piece));
    await browser.send('Browser.getVersion');
    return browser;
  }

  #read(piece) {
    const messages = (this.#rest + piece).split('\0');
    this.#rest = messages.pop();
    for (const text of messages) {
      const message = JSON.parse(text);
      const asked = this.#open.get(message.id);
      if (asked) {
        this.#open.delete(message.id);
        if (message.error) asked.no(new Error(`${asked.method}: ${message.error.message}`));
        else asked.yes(message.result);
      } else {
        this.#listeners.forEach((listener) => listener(message));
      }
    }
  }

  send(method, params = {}, sessionId = undefined) {
    this.#next += 1;
    const id = this.#next;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((yes, no) => {
      const late = setTimeout(() => {
        this.#open.delete(id);
        no(new Error(`${method}: no answer within ${WAIT_MS} ms`));
      }, WAIT_MS);
      const stop = (then) => (value) => {
        clearTimeout(late);
        then(value);
      };
      this.#open.set(id, { yes: stop(yes), no: stop(no), method });
    });
  }

  hear(listener) {
    this.#listeners.add(listener);
  }

  /** A page of its own, with cookies of its own. */
  async page(url, { width = 1280, height = 800, dark = false } = {}) {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    await page.prepare({ width, height, dark });
    if (url) await page.open(url);
    return page;
  }

  async close() {
    const ended = new Promise((done) => this.process.once('exit', done));
    this.send('Browser.close').catch(() => {});
    const kill = setTimeout(() => this.process.kill('SIGKILL'), CLOSE_MS);
    await ended;
    clearTimeout(kill);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Page {
  /** What went wrong in the page: exceptions, errors on the console, what the policy forbade. */
  faults = [];
  /** Bytes and addresses of what was loaded. */
  loaded = [];

  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target });
    browser.hear(({ method, params, sessionId }) => {
      if (sessionId !== session) return;
      if (method === 'Runtime.exceptionThrown') this.faults.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === 'Log.entryAdded' && params.entry.level === 'error') this.faults.push(`${params.entry.text} ${params.entry.url ?? ''}`);
      if (method === 'Network.responseReceived') this.loaded.push({ id: params.requestId, url: params.response.url, status: params.response.status, bytes: 0 });
      if (method === 'Network.loadingFinished') {
        const one = this.loaded.find(({ id }) => id === params.requestId);
        if (one) one.bytes = params.encodedDataLength;
      }
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async prepare({ width, height, dark }) {
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.send(`${domain}.enable`);
    await this.size(width, height);
    await this.dark(dark);
  }

  size(width, height) {
    return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  dark(is_dark) {
    return this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: is_dark ? 'dark' : 'light' }] });
  }

  async open(url) {
    await this.send('Page.navigate', { url });
  }

  /** The value of an expression in the page; promises are waited for. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression in the page is true, and gives its value. */
  async until(expression, what = expression) {
    const end = Date.now() + WAIT_MS;
    let last = null;
    for (;;) {
      try {
        const value = await this.value(expression);
        if (value) return value;
      } catch (error) {
        // The page may be loading.
        last = error;
      }
      if (Date.now() > end) {
        const text = await this.value('document.body.innerText').catch(() => '');
        throw new Error(`waited in vain for ${what}${last ? ` (${last.message})` : ''}; the page says:\n${text.slice(0, 3_000)}\nfaults: ${this.faults.join('; ')}`);
      }
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  }

  /** Waits until the page says this somewhere. */
  says(text, where = 'body') {
    return this.until(`[...document.querySelectorAll(${JSON.stringify(where)})].some((one) => one.innerText.includes(${JSON.stringify(text)}))`, `"${text}" in ${where}`);
  }

  /** Clicks with the mouse on the first element like this that is in sight, with this text if one is given. */
  async click(selector, text = '') {
    const find = `[...document.querySelectorAll(${JSON.stringify(selector)})].find((one) => one.checkVisibility() && !one.disabled && one.textContent.includes(${JSON.stringify(text)}))`;
    await this.until(`Boolean(${find})`, `${selector} ${text}`);
    const { x, y } = await this.value(`(() => { const one = ${find}; one.scrollIntoView({ block: 'nearest' }); const { x, y, width, height } = one.getBoundingClientRect(); return { x: x + width / 2, y: y + height / 2 }; })()`);
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
  }

  /** Waits until the page was painted: Chromium throws keys away that come between a navigation and its first frame. */
  painted() {
    return this.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))');
  }

  /** Presses keys: a character, or a name such as `Enter`; with modifiers as in `Shift+Tab`. */
  async press(...keys) {
    await this.painted();
    const codes = { Enter: 13, Tab: 9, Escape: 27, ' ': 32, PageUp: 33, PageDown: 34, End: 35, Home: 36, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40 };
    for (const whole of keys) {
      const parts = whole === '+' ? ['+'] : whole.split('+');
      const key = parts.pop();
      const modifiers = (parts.includes('Control') ? 2 : 0) + (parts.includes('Shift') ? 8 : 0);
      const text = key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
      const base = { key, modifiers, windowsVirtualKeyCode: codes[key] ?? (/^[a-z0-9]$/i.test(key) ? key.toUpperCase().charCodeAt(0) : 0), code: key.length === 1 ? undefined : key };
      await this.send('Input.dispatchKeyEvent', { type: text && modifiers !== 2 ? 'keyDown' : 'rawKeyDown', text: modifiers === 2 ? undefined : text, ...base });
      await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...base });
    }
  }

  type(text) {
    return this.send('Input.insertText', { text });
  }

  async picture(file) {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  close() {
    return this.browser.send('Target.closeTarget', { targetId: this.target });
  }
}
