// What is shown is true: hidden characters, failures, branches, and what a fork begins from.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { Browser } from '../browser.mjs';
import { APPROVING, BRANCHING, GREETING, Place } from '../place.mjs';

const HIDDEN = 'public/\u202etxt.terces/../etc\u202c\u200b notes.txt';
const MARKED = 'public/⟨U+202E⟩txt.terces/../etc⟨U+202C⟩⟨U+200B⟩ notes.txt';

let [place, browser] = [];
before(async () => {
  place = await Place.open();
  browser = await Browser.launch();
});
after(async () => {
  await browser?.close();
  await place?.close();
});

test('hidden characters of a tool call are marked wherever it is approved and shown', async () => {
  const definition = JSON.parse(JSON.stringify(APPROVING));
  definition.name = `appro\u200bving`;
  definition.nodes[0].llm.extra.script.answers[0].tool_calls[0].arguments.path = HIDDEN;
  const id = await place.thread(definition, HIDDEN);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads`);
  await page.says('appro⟨U+200B⟩ving', '.thread-row');
  for (const view of ['inbox', ...['messages', 'events?seq=0', 'state'].map((tab) => `threads/${id}/${tab}`)]) {
    await page.value(`location.hash = '#/${view}'`);
    await page.until(`location.hash === '#/${view}' && document.querySelector('main').innerText.includes(${JSON.stringify(MARKED)})`, `the marks in ${view}`);
    const raw = await page.value(`/[\\u200b\\u202c\\u202e]/.test(document.body.innerText + [...document.querySelectorAll('[title], [aria-label]')].map((one) => one.title + one.ariaLabel).join(''))`);
    assert.equal(raw, false, view);
  }
  await page.value(`location.hash = '#/inbox'`);
  await page.says(MARKED, '.question');
  await page.click('.question input[value=edit]');
  const edited = await page.value(`document.querySelector('.question textarea').value`);
  assert.ok(!/[\u200b\u202c\u202e]/.test(edited) && edited.includes('\\u202e'), edited);
  assert.equal(JSON.parse(edited).path, HIDDEN, 'it means the same');
  await page.close();
});

test('the bar of a failing last node is in sight beside its words', async () => {
  const id = await place.thread(BRANCHING);
  await place.outcome(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/timeline`);
  await page.until(`document.querySelectorAll('.piece.failed').length > 0`);
  const hidden = await page.value(`[...document.querySelectorAll('.bar-row')].filter((row) => {
    const [piece, words] = ['.piece', '.words'].map((name) => row.querySelector(name).getBoundingClientRect());
    const covered = Math.min(words.right, piece.right) - Math.max(words.left, piece.left);
    return words.width > 0 && covered > Math.max(1, 0.7 * piece.width);
  }).map((row) => row.innerText)`);
  assert.deepEqual(hidden, []);
  await page.close();
});

test('the bar of a node in a branch opens the event of the branch', async () => {
  const id = await place.thread(BRANCHING);
  await place.outcome(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/timeline`);
  const inside = `[...document.querySelectorAll('.bar-row')].find((row) => row.querySelector('.label').innerText === 'break' && !row.querySelector('.label a'))`;
  await page.until(`${inside} !== undefined`, 'the node of the branch');
  await page.value(`${inside}.click()`);
  await page.until(`location.hash.includes('/events?seq=')`, 'the event');
  const [, branch, seq] = /threads\/([^/]+)\/events\?seq=(\d+)/.exec(await page.value('location.hash'));
  assert.notEqual(branch, id);
  const { events } = await place.ask('GET', `/v1/threads/${branch}/events?from_seq=${seq}&limit=1`);
  assert.deepEqual([events[0].type, events[0].data.node_id], ['NODE_STARTED', 'break']);
  await page.close();
});

test('the graph shows a failed node as failed, and the nodes of branches as run', async () => {
  // `collect` waits for both branches: by default the one that fails may cancel the other before it has run.
  const definition = structuredClone(BRANCHING);
  definition.nodes.at(-1).join.on_failed = 'collect';
  const id = await place.thread(definition);
  await place.outcome(id);
  const { parts } = await place.ask('GET', `/v1/threads/${id}/graph`);
  const node = (name) => parts[0].nodes.find((one) => one.id === name);
  assert.deepEqual(['look', 'work', 'break'].map((name) => [node(name).visits, node(name).outcome]), [[1, 'completed'], [1, 'completed'], [1, 'failed']]);
  assert.ok(parts[0].arrows.some((arrow) => arrow.to === node('work').number && arrow.taken === 1), 'the way into the branch');
  const page = await browser.page(`${place.url}/#/threads/${id}/graph`);
  await page.until(`document.querySelectorAll('.node.failed').length > 0`);
  const shown = await page.value(`Object.fromEntries([...document.querySelectorAll('.node')].map((one) => [one.getAttribute('aria-label').split(',')[0], one.classList[1]]))`);
  assert.deepEqual([shown.look, shown.work, shown.break], ['visited', 'visited', 'failed']);
  // Before the fork neither branch had run.
  const { events } = await place.ask('GET', `/v1/threads/${id}/events?types=FORK_STARTED`);
  const then = await place.ask('GET', `/v1/threads/${id}/graph?seq=${events[0].seq - 1}`);
  assert.equal(then.parts[0].nodes.find((one) => one.id === 'work').visits, 0);
  await page.close();
});

test('a fork begins behind the event that is marked', async () => {
  const id = await place.thread(GREETING);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/events?seq=1`);
  await page.says('NODE_STARTED', '.detail h2');
  await page.click('button', 'Fork from here');
  await page.until(`document.getElementById('fork-at')?.value === '1'`);
  await page.click('dialog button.main', 'Fork');
  await page.says('forked from', '.facts');
  const forked = (await page.value('location.hash')).split('/')[2];
  assert.deepEqual((await place.ask('GET', `/v1/threads/${forked}`)).forked_from, { thread_id: id, seq: 1 });
  await page.close();
});

test('a fork at the end of an ended thread is refused, and the dialog names the event to fork', async () => {
  const id = await place.thread(GREETING);
  await place.ask('POST', `/v1/interactions/${(await place.question(id)).id}/respond`, { answer: 'yes' });
  const { last_seq: last } = await place.outcome(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/events?seq=${last}`);
  await page.says('THREAD_COMPLETED', '.detail h2');
  await page.press('f');
  await page.until(`document.getElementById('fork-at')?.value === '${last}'`);
  await page.click('dialog button.main', 'Fork');
  await page.says('has ended (completed)', 'dialog .fault');
  const { events } = await place.ask('GET', `/v1/threads/${id}/events?types=NODE_STARTED`);
  const instead = events.at(-1).seq - 1;
  assert.equal(await page.value(`document.getElementById('fork-at').value`), String(instead));
  await page.click('dialog button.main', 'Fork');
  await page.says('forked from', '.facts');
  await page.says('Is that all?', '.asks .question');
  await page.close();
});
