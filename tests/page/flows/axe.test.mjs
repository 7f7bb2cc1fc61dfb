// What axe-core finds in every view: nothing serious may be left.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Browser } from '../browser.mjs';
import { APPROVING, ASKING, BRANCHING, GREETING, Place } from '../place.mjs';

const AXE = readFileSync(process.env.RETHREAD_AXE, 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice', 'experimental'];

let [place, browser, views] = [];
before(async () => {
  place = await Place.open();
  browser = await Browser.launch();
  const [asking, approving, done, branching] = [await place.thread(ASKING), await place.thread(APPROVING), await place.thread(GREETING), await place.thread(BRANCHING)];
  const question = await place.question(done);
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'yes' });
  for (const id of [asking, approving]) await place.question(id);
  for (const id of [done, branching]) await place.outcome(id);
  await place.ask('POST', '/v1/workflows', GREETING);
  const tabs = (id, tabs_of) => tabs_of.map((tab) => `threads/${id}/${tab}`);
  views = [
    ['threads', '.thread-row .pill'], ['inbox', '.question'],
    ...tabs(done, ['timeline', 'timeline?at=3']).map((view) => [view, '.piece']),
    ...tabs(done, ['events?seq=3', 'events?at=3&seq=3']).map((view) => [view, '.detail h3']),
    ...tabs(done, ['graph', 'graph?at=3']).map((view) => [view, '.node']),
    ...tabs(done, ['state', 'state?at=3']).map((view) => [view, '.json']),
    ...tabs(done, ['messages', 'messages?at=3']).map((view) => [view, '.turn']),
    ...tabs(branching, ['timeline']).map((view) => [view, '.piece.failed']), ...tabs(branching, ['graph']).map((view) => [view, '.node.failed']),
    ...tabs(approving, ['messages']).map((view) => [view, '.question']),
  ];
});
after(async () => {
  await browser?.close();
  await place?.close();
});

async function serious(page) {
  await page.painted();
  await page.value(`globalThis.axe ? true : (${JSON.stringify(AXE)}, undefined)`);
  if (!(await page.value('typeof axe === "object"'))) await page.value(`${AXE}; true`);
  const found = await page.value(`axe.run(document, { runOnly: ${JSON.stringify(TAGS)}, resultTypes: ['violations'], rules: { 'label-content-name-mismatch': { enabled: true }, 'target-size': { enabled: true } } }).then(({ violations }) => violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').flatMap(({ id, nodes }) => nodes.map(({ html, any, all, none }) => id + ': ' + html.slice(0, 160) + ' ' + [...any, ...all, ...none].map(({ message }) => message).join('; '))))`);
  return found;
}

for (const dark of [false, true]) {
  test(`no view has a serious finding, ${dark ? 'in the dark' : 'in the light'}`, async () => {
    const page = await browser.page(`${place.url}/`, { dark });
    const all = [];
    for (const [view, ready] of views) {
      await page.value(`location.hash = '#/${view}'`);
      await page.until(`location.hash === '#/${view}' && document.querySelector('main ${ready}') !== null`, `the view ${view}`);
      for (const found of await serious(page)) all.push(`${view}: ${found}`);
    }
    assert.deepEqual(all, []);
    await page.close();
  });
}

test('no dialog has a serious finding', async () => {
  const page = await browser.page(`${place.url}/#/${views.find(([view]) => view.includes('events?seq'))[0]}`);
  await page.says('Data', '.detail h3');
  for (const [key, text] of [['?', 'Show these keys'], ['f', 'Set variables'], ['c', 'Its events']]) {
    await page.value('document.activeElement.blur()');
    await page.press(key);
    await page.says(text, 'dialog');
    assert.deepEqual(await serious(page), [], key);
    await page.press('Escape');
    await page.until(`!document.querySelector('dialog')`);
  }
  await page.close();
});
