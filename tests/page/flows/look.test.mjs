// What a person does who watches, steps back and forks.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { Browser } from '../browser.mjs';
import { ASKING, CHATTING, GREETING, HOSTILE, Place } from '../place.mjs';

let [place, browser] = [];
before(async () => {
  place = await Place.open();
  browser = await Browser.launch();
});
after(async () => {
  await browser?.close();
  await place?.close();
});
const hash = (page) => page.value('location.hash');

test('a thread that is started appears, is watched while it speaks, and answered', async () => {
  const page = await browser.page(`${place.url}/`);
  await page.says('There is no thread yet');
  const id = await place.thread(GREETING);
  await page.says('greeting', '.thread-row');
  await page.press('j', 'Enter');
  await page.until(`location.hash.includes('${id}')`);
  await page.says('Messages', '.tabs');
  await page.press('5');
  await page.says('Hello', '.streaming');
  const early = await page.value(`document.querySelector('.streaming').innerText`);
  assert.ok(!early.includes('you?'), `it is shown while it comes: ${early}`);
  await page.until(`[...document.querySelectorAll('.turn')].some((one) => one.innerText.includes('How are you?') && !one.classList.contains('streaming'))`);
  await page.says('Is that all?', '.asks .question');
  assert.equal(await page.value(`document.querySelectorAll('.streaming').length`), 0);
  await page.says('waiting', '.facts .pill');
  await page.click('.asks textarea');
  await page.type('yes');
  await page.click('.asks button.main', 'Answer');
  await page.says('completed', '.facts .pill');
  assert.equal((await place.outcome(id)).status, 'completed');
  assert.equal((await place.ask('GET', `/v1/threads/${id}/state`)).variables.done, 'yes');
  assert.deepEqual(page.faults, []);
  await page.close();
});

test('a person goes on talking with a thread that has ended, and while it answers', async () => {
  const id = await place.thread(CHATTING);
  const page = await browser.page(`${place.url}/#/threads/${id}/messages`);
  await page.says('completed', '.facts .pill');
  const turns = (role) => `document.querySelectorAll('.said .turn.${role}').length`;
  await page.until(`${turns('assistant')} === 1`);
  await page.value(`document.querySelector('.compose textarea').focus()`);
  await page.type('hello');
  await page.press('Enter');
  await page.until(`document.querySelector('.turn.streaming')`, 'an answer that is being given');
  await page.type('and more');
  await page.press('Enter');
  await page.until(`${turns('user')} === 3 && ${turns('assistant')} === 3`, 'both answers');
  await page.until(`document.querySelector('.facts .pill').textContent === 'completed'`);
  await page.value(`document.querySelector('.compose textarea').focus()`);
  await page.type('hello');
  await page.press('Enter');
  await page.until(`${turns('user')} === 4 && ${turns('assistant')} === 4`, 'the same words said again');
  // A run that was given elsewhere is seen as well.
  await page.until(`document.querySelector('.facts .pill').textContent === 'completed'`);
  await place.ask('POST', `/v1/threads/${id}/runs`, { input: 'from elsewhere' });
  await page.until(`${turns('user')} === 5 && ${turns('assistant')} === 5`, 'the run of somebody else');
  assert.deepEqual(page.faults, []);
  await page.close();
});

test('a message that is typed while another one is sent is sent after it, and none is lost', async () => {
  const id = await place.thread(CHATTING);
  const page = await browser.page(`${place.url}/#/threads/${id}/messages`);
  await page.says('completed', '.facts .pill');
  const field = `document.querySelector('.compose textarea')`;
  const said = `[...document.querySelectorAll('.said .turn.user')].map((one) => one.innerText.split('\\n').pop()).join(', ')`;
  // The answers to requests of the page are held until the test lets them through, or fails them.
  await page.value(`(() => {
    const ask = window.fetch;
    window.fetch = async (...request) => {
      const answer = await ask(...request);
      if (request[1]?.method !== 'POST') return answer;
      return new Promise((let_through, fail) => Object.assign(window, { let_through: () => let_through(answer), fail: () => fail(new TypeError('cut off')) }));
    };
  })()`);
  await page.value(`${field}.focus()`);
  await page.type('one');
  await page.press('Enter');
  await page.until('window.let_through', 'the first message is on its way');
  await page.type('two');
  await page.press('Enter');
  await page.value('window.let_through(); window.let_through = null');
  await page.until('window.let_through', 'the second message is on its way');
  await page.type('three');
  await page.value('window.let_through()');
  await page.until(`${said} === 'Ada, one, two'`, 'both messages');
  assert.equal(await page.value(`${field}.value`), 'three', 'what is typed stays');
  // One that is not acknowledged comes back, before what was typed since.
  await page.value('window.let_through = null');
  await page.press('Enter');
  await page.until('window.let_through', 'the third message is on its way');
  await page.type('four');
  await page.value('window.fail()');
  await page.until(`${field}.value === 'three\\nfour'`, 'the message is in the field again');
  await page.close();
});

test('the list shows only what its filter lets through, and the back button undoes it', async () => {
  const [ended, id] = [await place.thread(ASKING), await place.thread(ASKING)];
  await place.ask('POST', `/v1/interactions/${(await place.question(ended)).id}/respond`, { answer: 'blue' });
  await place.outcome(ended);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads`);
  await page.says('asks: Which colour?', '.thread-row');
  await page.says('completed', '.thread-row');
  await page.value(`(() => { const one = document.getElementById('status'); one.value = 'waiting'; one.dispatchEvent(new Event('change')); })()`);
  await page.until(`location.hash.includes('status=waiting')`);
  await page.until(`![...document.querySelectorAll('.row')].some((one) => one.innerText.includes('completed'))`);
  await page.value('history.back()');
  await page.says('completed', '.row');
  await page.close();
});

test('the slider steps back, the future is grey in every view, and a reload shows the same moment', async () => {
  const id = await place.thread(GREETING);
  const question = await place.question(id);
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'yes' });
  const { last_seq: last } = await place.outcome(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/state`);
  await page.says('done: yes', '.json');
  await page.press('[');
  await page.until(`location.hash.includes('at=${last - 1}')`);
  await page.value(`(() => { const one = document.querySelector('input[type=range]'); one.value = 2; one.dispatchEvent(new Event('input')); })()`);
  await page.until(`location.hash.includes('at=2')`);
  await page.until(`!document.querySelector('.whole').innerText.includes('done:')`, 'the state of event 2');
  await page.press('2');
  await page.until(`document.querySelectorAll('.event-row.future').length > 3`);
  assert.equal(await page.value(`document.querySelector('.event-row:not(.future) .seq').innerText`), '0');
  await page.press('5');
  await page.until(`document.querySelectorAll('.turn.future').length > 0`);
  await page.press('1');
  await page.until(`document.querySelectorAll('.bar-row.future').length > 0`);
  await page.press('3');
  await page.until(`document.querySelectorAll('.node.future').length > 0 && document.querySelectorAll('.node.current').length === 1`);
  await page.value('window.before = true; location.reload()');
  await page.until('window.before === undefined', 'the page after the reload');
  await page.says(`event 2 of ${last}`, '.where');
  assert.ok((await hash(page)).includes('graph?at=2'));
  await page.press('}');
  await page.says('now, event', '.where');
  await page.until(`document.querySelectorAll('.future').length === 0`);
  await page.press(']', '{');
  await page.says(`event 0 of ${last}`, '.where');
  assert.deepEqual(page.faults, []);
  await page.close();
});

test('a fork from a moment goes on with what was changed, and the first thread stays', async () => {
  const id = await place.thread(GREETING);
  await place.question(id);
  const before = await place.ask('GET', `/v1/threads/${id}`);
  const page = await browser.page(`${place.url}/#/threads/${id}/state?at=1`);
  await page.says('event 1 of', '.where');
  await page.press('f');
  await page.until(`document.getElementById('fork-at')?.value === '1'`);
  await page.click('#fork-variables');
  await page.type('{"mood": "it\'s <b>gay</b>"}');
  await page.says(`rethread fork ${id} --at 1 --set`, 'dialog code');
  await page.click('dialog button.main', 'Fork');
  await page.says('forked from', '.facts');
  const forked = (await hash(page)).split('/')[2];
  assert.notEqual(forked, id);
  assert.equal((await place.ask('GET', `/v1/threads/${forked}/state`)).variables.mood, "it's <b>gay</b>");
  assert.deepEqual((await place.ask('GET', `/v1/threads/${forked}`)).forked_from, { thread_id: id, seq: 1 });
  assert.equal((await place.ask('GET', `/v1/threads/${id}`)).last_seq, before.last_seq);
  await page.close();
});

test('a fork with a fault says what is wrong and keeps what was typed', async () => {
  const id = await place.thread(ASKING);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/state`);
  await page.says('now, event', '.where');
  await page.press('f');
  await page.click('#fork-variables');
  await page.type('[1]');
  await page.click('dialog button.main', 'Fork');
  await page.says('expected a JSON object', 'dialog .fault');
  assert.equal(await page.value(`document.getElementById('fork-variables').value`), '[1]');
  await page.close();
});

test('an event shows what it changed, and a thread that is not there says so', async () => {
  const id = await place.thread(ASKING);
  const question = await place.question(id);
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'blue' });
  await place.outcome(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/events?only=people`);
  await page.says('USER_INTERACTION_PROCESSED', '.event-row');
  await page.click('.event-row', 'USER_INTERACTION_PROCESSED');
  await page.says('/variables/colour', '.detail');
  await page.open(`${place.url}/#/threads/01a1ff83-4ffb-7128-b2a0-ac67caae1dd7`);
  await page.says('There is no thread 01a1ff83');
  await page.close();
});

test('a hostile thread is shown as text in every view', async () => {
  const nodes = [
    { id: 'say', description: HOSTILE, llm: { provider: 'mock', model: HOSTILE, system_prompt: HOSTILE, user_prompt: '{{ input }}', tool_mode: 'auto', available_tools: ['list_folder'], extra: { script: { answers: [{ text: HOSTILE, tool_calls: [{ name: 'list_folder', arguments: { path: HOSTILE } }] }, { text: HOSTILE }] } } } },
    { id: 'ask', user_interaction: { operation_type: 'UPDATE_VARIABLES', prompt: HOSTILE, variables: [{ variable_name: 'x', expression: '{{ input }}' }] } },
  ];
  const id = await place.thread({ version: '1', name: 'hostile', variables: { [`v`]: HOSTILE }, nodes, edges: [{ from: 'say', to: 'ask' }] }, HOSTILE);
  const question = await place.question(id);
  await place.ask('POST', `/v1/threads/${id}/pause`, { reason: HOSTILE });
  const page = await browser.page(`${place.url}/#/threads`);
  for (const view of ['threads', 'inbox', ...['timeline', 'events?seq=1', 'graph', 'state', 'messages'].map((tab) => `threads/${id}/${tab}`)]) {
    await page.value(`location.hash = '#/${view}'`);
    const has_it = `document.querySelector('main').innerText.includes('onerror')`;
    if (/threads$|timeline|graph/.test(view)) await page.until(`document.querySelectorAll('.row, .node').length > 0`);
    else await page.until(has_it, `the text in ${view}`);
    const made = await page.value(`document.querySelectorAll('main img, main script, main b, main iframe, dialog img').length`);
    assert.equal(made, 0, view);
  }
  await page.until(`document.querySelectorAll('.turn').length > 4 && document.querySelector('#tab-messages').ariaSelected === 'true'`);
  await page.press('f');
  await page.until(`document.querySelector('dialog details')?.hidden === false`);
  await page.value(`document.querySelector('dialog details').open = true`);
  await page.says('onerror', 'dialog');
  assert.equal(await page.value(`document.querySelectorAll('dialog img, dialog b').length`), 0);
  assert.equal(await page.value('window.hacked'), undefined);
  assert.deepEqual(page.faults, []);
  assert.ok(question.prompt.includes('<img'));
  await page.close();
});
