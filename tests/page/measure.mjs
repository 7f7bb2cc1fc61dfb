// How fast the page is on a large log: `node tests/page/measure.mjs URL [PICTURES]`, with RETHREAD_CHROMIUM, against a
// server whose log holds the threads. Prints one line for each figure. Nothing is decided by it.

import { Browser } from './browser.mjs';
import { loadavg } from 'node:os';

const url = process.argv[2];
const browser = await Browser.launch();
const ms = (n) => `${Math.round(n)} ms`;
const middle = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

// Scrolls a list from end to end, and says how long frames took and whether rows were there.
const SCROLL = (steps) => `(async () => {
  const list = document.querySelector('.virtual');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  let empty = 0;
  for (let i = 0; i <= ${steps}; i += 1) {
    const began = performance.now();
    list.scrollTop = ((list.scrollHeight - list.clientHeight) * i) / ${steps};
    await frame(); await frame();
    times.push(performance.now() - began);
    if (document.querySelectorAll('.row').length === 0) empty += 1;
  }
  times.sort((a, b) => a - b);
  return { median: times[times.length >> 1], p95: times[Math.floor(times.length * 0.95)], empty, rows: document.querySelectorAll('.row').length };
})()`;

const firsts = [];
let bytes = 0;
for (let i = 0; i < 5; i += 1) {
  const page = await browser.page(null);
  const began = performance.now();
  await page.open(`${url}/#/threads`);
  await page.until(`document.querySelectorAll('.thread-row .pill').length > 10`);
  firsts.push(performance.now() - began);
  await new Promise((done) => setTimeout(done, 1_000));
  bytes = page.loaded.filter((one) => !one.url.includes('/v1/')).reduce((sum, one) => sum + one.bytes, 0);
  const all = page.loaded.reduce((sum, one) => sum + one.bytes, 0);
  if (i === 4) {
    console.log(`first view: ${bytes} bytes of page, ${all} with all that it asked the server for within a second`);
    await page.value(`(async () => { const list = document.querySelector('.virtual'); for (let n = -1; n !== list.scrollHeight;) { n = list.scrollHeight; list.scrollTop = n; await new Promise((done) => setTimeout(done, 700)); } })()`);
    const scrolled = await page.value(SCROLL(50));
    console.log(`list: ${await page.value(`document.querySelector('.row').ariaSetSize`)} threads, scrolling in 50 steps: frame pair ${ms(scrolled.median)} (95 %: ${ms(scrolled.p95)}), ${scrolled.rows} rows at once`);
  }
  await page.close();
}
console.log(`first view: rows after ${firsts.map(ms).join(', ')}; the middle one ${ms(middle(firsts))}`);

const { threads } = await (await fetch(`${url}/v1/threads?order=oldest&limit=1`)).json();
const [{ thread_id: id, last_seq: last }] = threads;
const page = await browser.page(null);
for (const tab of ['events', 'timeline', 'graph', 'state', 'messages']) {
  const began = performance.now();
  await page.open('about:blank');
  await page.open(`${url}/#/threads/${id}/${tab}`);
  await page.until(`document.querySelectorAll('.event-row:not(.unread), .piece, .node, .whole .json, .turn').length > 0`);
  console.log(`a thread of ${last + 1} events, ${tab}: shown after ${ms(performance.now() - began)}`);
  if (tab === 'events') {
    const scrolled = await page.value(SCROLL(200));
    console.log(`its events, scrolling in 200 steps: frame pair ${ms(scrolled.median)} (95 %: ${ms(scrolled.p95)}), ${scrolled.rows} rows at once`);
    const jumps = [];
    for (let i = 1; i <= 15; i += 1) {
      const start = performance.now();
      await page.value(`(() => { const list = document.querySelector('.virtual'); list.scrollTop = (list.scrollHeight - list.clientHeight) * ${i / 16.3}; })()`);
      await page.value('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
      await page.until(`document.querySelectorAll('.row').length > 10 && document.querySelectorAll('.unread').length === 0`);
      jumps.push(performance.now() - start);
    }
    console.log(`its events, a jump to where nothing was read: all rows in sight after ${ms(middle(jumps))}, at most ${ms(Math.max(...jumps))}`);
  }
  if (tab === 'state') {
    const steps = [];
    for (let i = 0; i < 10; i += 1) {
      const start = performance.now();
      const at = last - 1_000 * (i + 1);
      await page.value(`location.hash = '#/threads/${id}/state?at=${at}'`);
      await page.until(`document.querySelector('.where').innerText.startsWith('event') && document.querySelector('.whole .command code, .command code').innerText.endsWith('${at}')`);
      steps.push(performance.now() - start);
    }
    console.log(`its state at another moment: shown after ${ms(middle(steps))}, at most ${ms(Math.max(...steps))}`);
  }
}
console.log(`load ${loadavg().map((n) => n.toFixed(1)).join(' ')}`);
console.log(page.faults.join('\n'));
await browser.close();
