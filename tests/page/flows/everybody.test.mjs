// The page for those who use keys, who listen, who see little, and who have a small screen.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { Browser } from '../browser.mjs';
import { APPROVING, ASKING, GREETING, Place } from '../place.mjs';

let [place, browser, asking, approving, done] = [];
before(async () => {
  place = await Place.open();
  browser = await Browser.launch();
  [asking, approving, done] = [await place.thread(ASKING), await place.thread(APPROVING), await place.thread(GREETING)];
  const question = await place.question(done);
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'yes' });
  await place.question(asking);
  await place.question(approving);
  await place.ask('POST', '/v1/workflows', GREETING);
});
after(async () => {
  await browser?.close();
  await place?.close();
});

const views = () => ['threads', 'inbox', ...['timeline', 'events?seq=3', 'graph', 'state', 'messages'].map((tab) => `threads/${done}/${tab}`), `threads/${approving}/messages`];
const READY = `document.querySelectorAll('.thread-row .pill, .question, .detail h3, .node, .json, .turn, .piece').length > 0`;

async function each(page, check) {
  for (const view of views()) {
    await page.value(`location.hash = '#/${view}'`);
    await page.until(`${READY} && location.hash === '#/${view}'`, `the view ${view}`);
    await check(view);
  }
}

test('with nothing but keys a thread is started, looked at, stepped through, and a question answered', async () => {
  const page = await browser.page(`${place.url}/`);
  const focused = () => page.value(`(document.activeElement?.id || document.activeElement?.className || document.activeElement?.tagName) + ''`);
  await page.until(`document.activeElement?.classList.contains('virtual')`);
  await page.press('?');
  await page.says('Fork from here', 'dialog');
  await page.press('Escape');
  await page.until(`!document.querySelector('dialog') && document.activeElement?.classList.contains('virtual')`, 'the focus where it was');
  await page.press('n');
  await page.until(`document.activeElement?.id === 'start-workflow'`);
  await page.press('g');
  await page.until(`document.getElementById('start-workflow').value === 'greeting'`);
  for (let i = 0; i < 10 && (await focused()) !== 'start-input'; i += 1) await page.press('Tab');
  await page.type('Ada');
  await page.press('Tab', 'Enter');
  await page.until(`location.hash.includes('/messages')`);
  await page.says('Is that all?', '.asks .question');
  for (let i = 0; i < 30 && !(await page.value(`document.activeElement?.matches('.question textarea')`)); i += 1) await page.press('Tab');
  await page.type('by keys');
  await page.press('Control+Enter');
  await page.says('completed', '.facts .pill');
  await page.press('Escape');
  await page.value(`document.activeElement.blur()`);
  await page.press('2');
  await page.until(`location.hash.includes('/events')`);
  await page.press('[', '[');
  await page.until(`/at=\\d+/.test(location.hash)`);
  for (let i = 0; i < 30 && !(await page.value(`document.activeElement.classList.contains('virtual')`)); i += 1) await page.press('Tab');
  await page.press('Home', 'ArrowDown');
  await page.says('NODE_STARTED', '.detail h2');
  await page.press('g', 'i');
  await page.until(`location.hash === '#/inbox'`);
  await page.says('Which colour?', '.question');
  await page.press('j');
  await page.type('red');
  await page.press('Control+Enter');
  await page.says('Answered', '.question');
  assert.deepEqual(page.faults, []);
  await page.close();
});

test('everything that takes the focus has a name and shows that it has it', async () => {
  const page = await browser.page(`${place.url}/`);
  await page.send('Accessibility.enable');
  await each(page, async (view) => {
    let nodes, nameless;
    // The browser computes names a little behind what it draws.
    for (let i = 0; i < 50; i += 1) {
      ({ nodes } = await page.send('Accessibility.getFullAXTree'));
      nameless = nodes.filter((node) => !node.ignored && node.properties?.some(({ name, value }) => name === 'focusable' && value.value) && !node.name?.value && node.role.value !== 'RootWebArea' && node.role.value !== 'main');
      if (!nameless.length) break;
      await new Promise((done) => setTimeout(done, 100));
    }
    assert.deepEqual(nameless.map((node) => node.role.value), [], view);
    const listed = nodes.filter((node) => !node.ignored && ['heading', 'main', 'navigation'].includes(node.role.value)).length;
    assert.ok(listed >= 3, view);
  });
  for (let i = 0; i < 20; i += 1) {
    await page.press('Tab');
    const [name, outline] = await page.value(`[document.activeElement.outerHTML.slice(0, 80), document.activeElement === document.body ? 'solid' : getComputedStyle(document.activeElement).outlineStyle]`);
    assert.equal(outline, 'solid', name);
  }
  await page.close();
});

// The contrast of a text to what is behind it, as WCAG 2 counts it.
const CONTRAST = `(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color, under = [255, 255, 255]) => {
    canvas.fillStyle = 'rgb(' + under.join(',') + ')'; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.unshift(getComputedStyle(at).backgroundColor);
    return chain.reduce((under, color) => rgb(color, under), [255, 255, 255]);
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({ checkOpacity: true }) || element.closest('svg, .future, :disabled, .skip, .notices, .gist, datalist, option')) continue;
    const back = behind(element);
    const [a, b] = [light(rgb(getComputedStyle(element).color, back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(element.className + ' "' + walker.currentNode.data.slice(0, 30) + '" ' + ratio.toFixed(2));
  }
  return poor;
})()`;

test('texts stand out from what is behind them, in light and in dark', async () => {
  const backs = [];
  for (const dark of [false, true]) {
    const page = await browser.page(`${place.url}/`, { dark });
    await each(page, async (view) => assert.deepEqual(await page.value(CONTRAST), [], `${view} ${dark ? 'dark' : 'light'}`));
    backs.push(await page.value('getComputedStyle(document.body).backgroundColor'));
    await page.close();
  }
  assert.notEqual(backs[0], backs[1]);
});

test('at a width of 360 pixels nothing stands out at the side, and everything can be reached', async () => {
  const page = await browser.page(`${place.url}/`, { width: 360, height: 640 });
  await each(page, async (view) => {
    assert.ok((await page.value('document.documentElement.scrollWidth')) <= 360, view);
    const outside = await page.value(`[...document.querySelectorAll('main button, main input, main select, main textarea')].filter((one) => one.checkVisibility() && !one.closest('.virtual, .picture, .tabs')).filter((one) => { const { left, right } = one.getBoundingClientRect(); return left < 0 || right > 361; }).map((one) => one.outerHTML.slice(0, 80))`);
    assert.deepEqual(outside, [], view);
  });
  await page.close();
});

test('a server that only shows offers nothing that it would refuse', async () => {
  await place.kill();
  place.options = ['--read-only'];
  await place.start();
  const page = await browser.page(`${place.url}/#/threads/${asking}/state`);
  await page.says('now, event', '.where');
  const offered = await page.value(`[...document.querySelectorAll('button')].filter((one) => one.checkVisibility()).map((one) => one.innerText)`);
  for (const word of ['Pause', 'Cancel', 'Fork', 'Answer', 'Start']) assert.ok(!offered.some((text) => text.includes(word)), `${word}: ${offered}`);
  await page.close();
});
