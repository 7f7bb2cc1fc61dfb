// Two people at once, approvals, a server that goes away, and one that wants a token.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { Browser } from '../browser.mjs';
import { APPROVING, ASKING, GREETING, Place } from '../place.mjs';

let [place, browser] = [];
before(async () => {
  place = await Place.open();
  browser = await Browser.launch();
});
after(async () => {
  await browser?.close();
  await place?.close();
});

test('of two people who answer the same question at once, one is told that the other was faster', async () => {
  for (const answers of [['red', 'green'], ['up', 'down'], ['in', 'out']]) {
    const id = await place.thread(ASKING);
    await place.question(id);
    const pages = await Promise.all(answers.map(() => browser.page(`${place.url}/#/inbox`)));
    for (const [i, page] of pages.entries()) {
      await page.says('Which colour?', '.question');
      await page.click('.question textarea');
      await page.type(answers[i]);
    }
    await Promise.all(pages.map((page) => page.value(`document.querySelector('.question form').requestSubmit()`)));
    const told = await Promise.all(pages.map((page) => page.until(`(() => { const text = document.querySelector('.question .result')?.innerText ?? ''; return /Answered|faster/.test(text) && text; })()`)));
    assert.equal(told.filter((text) => text.includes('Answered')).length, 1, told.join(' | '));
    assert.equal(told.filter((text) => text.includes('Somebody else was faster')).length, 1, told.join(' | '));
    const winner = told.findIndex((text) => text.includes('Answered'));
    await pages[1 - winner].says(`The answer was: ${answers[winner]}`, '.question .result');
    assert.equal((await place.outcome(id)).status, 'completed');
    assert.equal((await place.ask('GET', `/v1/threads/${id}/state`)).variables.colour, answers[winner]);
    await Promise.all(pages.map((page) => page.close()));
  }
});

test('a question that somebody else answers while one types does not vanish without a word', async () => {
  const id = await place.thread(ASKING);
  const question = await place.question(id);
  const page = await browser.page(`${place.url}/#/inbox`);
  await page.click('.question textarea');
  await page.type('half a thou');
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'blue' });
  await page.says('Somebody else was faster', '.question .result');
  await page.says('The answer was: blue', '.question .result');
  assert.equal(await page.value(`document.querySelector('.question textarea').value`), 'half a thou');
  await page.close();
});

test('a number of many digits is shown and set as it is', async () => {
  const body = JSON.stringify({ definition: ASKING, input: { order: 'ORDER' } }).replace('"ORDER"', '1234567890123456789');
  const id = (await place.ask('POST', '/v1/threads', body)).thread_id;
  const question = await place.question(id);
  const page = await browser.page(`${place.url}/#/threads/${id}/state`);
  await page.click('button', 'Fork');
  await page.click('dialog summary');
  await page.click('dialog button.link', 'input');
  await page.until(`document.querySelector('#fork-variables').value.includes('1234567890123456789')`);
  await page.close();
  await place.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'blue' });
});

test('a tool call is approved with other arguments, and another one rejected with a reason', async () => {
  const page = await browser.page(`${place.url}/#/inbox`);
  const edited = await place.thread(APPROVING);
  await page.says('list_folder', '.question');
  await page.click('.question input[value=edit]');
  await page.value(`(() => { const one = document.querySelector('.question textarea'); one.value = '{"path": "."}'; one.dispatchEvent(new Event('input')); })()`);
  await page.click('.question button', 'Command');
  await page.says(`--edit '{"path":"."}'`, 'dialog');
  await page.press('Escape');
  await page.click('.question button.main');
  await page.says('Answered', '.question');
  assert.equal((await place.outcome(edited)).status, 'completed');
  const { events } = await place.ask('GET', `/v1/threads/${edited}/events?types=USER_INTERACTION_PROCESSED,TOOL_EXECUTION_COMPLETED`);
  assert.deepEqual(events[0].data.results.decision, { decision: 'edit', arguments: { path: '.' } });
  assert.equal(events.length, 2);
  await page.until(`document.querySelectorAll('.question').length === 0`);
  const rejected = await place.thread(APPROVING);
  await page.click('.question input[value=reject]');
  await page.click('.question textarea');
  await page.type('not today');
  await page.click('.question button.main', 'Reject');
  await page.says('Answered', '.question');
  assert.equal((await place.outcome(rejected)).status, 'completed');
  const said = await place.ask('GET', `/v1/threads/${rejected}/events?types=USER_INTERACTION_PROCESSED`);
  assert.deepEqual(said.events[0].data.results.decision, { decision: 'reject', reason: 'not today' });
  await page.close();
});

test('an answer that a guardrail has stopped is shown, and replaced', async () => {
  const guarded = {
    version: '1', name: 'guarded',
    nodes: [{ id: 'say', llm: {
      provider: 'mock', model: 'scripted', user_prompt: 'x',
      guardrails: [{ name: 'number', on: 'answer', when: "'1234' in checked", then: 'ask', reason: 'a number' }],
      extra: { script: { answers: [{ text: 'it is 1234' }] } },
    } }],
  };
  const id = await place.thread(guarded);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads/${id}`);
  await page.says('May this answer be used?', '.question');
  await page.says('Guardrail `number` stopped the answer: a number', '.question');
  await page.click('.question input[value=answer]');
  await page.click('.question textarea');
  await page.type('it is a secret');
  await page.click('.question button.main', 'Send');
  await page.says('Answered', '.question');
  const outcome = await place.outcome(id);
  assert.equal(outcome.output, 'it is a secret');
  await page.close();
});

test('a long tool call is shown whole, and approved only after its end was in sight', async () => {
  const command = `ls${' '.repeat(3_000)}${'# nothing to see here\n'.repeat(3_000)}; rm -rf ~`;
  const long = JSON.parse(JSON.stringify(APPROVING));
  long.nodes[0].llm.extra.script.answers[0].tool_calls[0].arguments = { path: 'nowhere', note: command, lines: command.split('\n') };
  const id = await place.thread(long);
  const asked = await place.question(id);
  assert.ok(asked.prompt.includes(JSON.stringify(command)), 'the prompt is whole');
  const page = await browser.page(`${place.url}/#/threads/${id}`);
  const shown = await page.until(`document.querySelector('.question pre')?.textContent`);
  assert.ok(shown.includes('ls⟨3000 spaces⟩#') && shown.includes('; rm -rf ~'), 'all of it is there, and blanks are counted');
  const main = `document.querySelector('.question button.main')`;
  const result = `document.querySelector('.question .result').innerText`;
  assert.equal(await page.value(`${main}.disabled`), true);
  await page.says('Read it to its end first', '.question');
  // Neither keys, nor a form that is sent anyway, nor other arguments, nor a copied command get around it.
  await page.value(`document.querySelector('.question form').requestSubmit()`);
  await page.until(`${result}.includes('to its end')`);
  await page.click('.question button', 'Command');
  assert.equal(await page.value(`document.querySelector('dialog[open]')`), null);
  await page.click('.question input[value=edit]');
  assert.equal(await page.value(`${main}.disabled`), true);
  await page.click('.question input[value=reject]');
  assert.equal(await page.value(`${main}.disabled`), false);
  await page.click('.question input[value=approve]');
  await page.value(`(() => { const one = document.querySelector('.question pre'); one.scrollTop = one.scrollHeight / 2; })()`);
  await page.painted();
  assert.equal(await page.value(`${main}.disabled`), true);
  assert.equal((await place.ask('GET', `/v1/threads/${id}/interactions`)).interactions.length, 1);
  await page.value(`document.querySelector('.question pre').focus({ preventScroll: true })`);
  await page.press('End');
  await page.value(`document.querySelector('.question pre .end').scrollIntoView({ block: 'nearest' })`);
  await page.until(`!${main}.disabled`);
  await page.click('.question button.main', 'Approve');
  await page.says('Answered', '.question .result');
  assert.equal((await place.outcome(id)).status, 'completed');
  await page.close();
});

test('a thread is paused, goes on, and is cancelled with a reason', async () => {
  const id = await place.thread(ASKING);
  await place.question(id);
  const page = await browser.page(`${place.url}/#/threads/${id}`);
  await page.click('.bar button', 'Pause');
  await page.says('paused', '.facts .pill');
  await page.press('p');
  await page.says('waiting', '.facts .pill');
  await page.click('.bar button', 'Cancel');
  await page.click('#reason');
  await page.type("it's over");
  await page.says(`rethread cancel ${id} --reason 'it'\\''s over'`, 'dialog code');
  await page.click('dialog button.danger');
  await page.says('cancelled', '.facts .pill');
  assert.equal((await place.outcome(id)).error.message.includes("it's over"), true);
  await page.close();
});

test('through a server that is killed nothing is missed and nothing comes twice', async () => {
  const own = await Place.open();
  try {
    const id = await own.thread(GREETING);
    const page = await browser.page(`${own.url}/#/threads/${id}/events`);
    await page.says('LLM_CALL_REQUESTED', '.event-row');
    await own.kill();
    await page.says('connection lost', '#connection');
    await own.start();
    await page.until(`document.getElementById('connection').dataset.state === 'live'`);
    const question = await own.question(id);
    await own.ask('POST', `/v1/interactions/${question.id}/respond`, { answer: 'yes' });
    const { last_seq: last } = await own.outcome(id);
    await page.says('THREAD_COMPLETED', '.event-row');
    await page.says(`${last + 1} events`, '.left');
    await page.value(`document.querySelector('.virtual').scrollTop = 0`);
    await page.until(`document.querySelector('.event-row .seq')?.innerText === '0'`);
    const seen = await page.value(`[...document.querySelectorAll('.row')].sort((a, b) => a.dataset.index - b.dataset.index).map((row) => [Number(row.querySelector('.seq').innerText), row.querySelector('.type').innerText])`);
    const { events } = await own.ask('GET', `/v1/threads/${id}/events`);
    assert.deepEqual(seen, events.slice(0, seen.length).map((event) => [event.seq, event.type]));
    await page.close();
  } finally {
    await own.close();
  }
});

test('a token with labels opens the page on the threads that have them', async () => {
  const own = Place.folder('--require-token');
  try {
    const token = (...words) => JSON.parse(own.run('token', 'create', '--scope', 'operate', '--json', ...words)).token;
    const [all, acme] = [token(), token('--label', 'tenant=acme')];
    await own.start();
    const start = (labels) => fetch(`${own.url}/v1/threads`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${all}` },
      body: JSON.stringify({ definition: ASKING, labels }),
    }).then((response) => response.json());
    const [seen, hidden] = [await start({ tenant: 'acme' }), await start({ tenant: 'other' })];
    const page = await browser.page(`${own.url}/#token=${acme}`);
    // Rows are made anew when the list changes, so they are read at once.
    const read = `[...document.querySelectorAll('.virtual .thread-row')].map((row) => row.outerHTML)`;
    const [last, other] = [seen, hidden].map((thread) => thread.thread_id.slice(-6));
    await page.until(`${read}.length === 1 && ${read}[0].includes('${last}') && !${read}[0].includes('${other}')`);
    await page.press('n');
    await page.until(`document.activeElement?.id === 'start-workflow'`);
    await page.type('asking');
    await page.press('Enter');
    await page.until(`location.hash.includes('/messages')`);
    await page.says('Which colour?', '.asks .question');
    await page.value(`location.hash = '#/threads'`);
    await page.until(`document.querySelectorAll('.virtual .thread-row').length === 2`);
    assert.deepEqual(page.faults, []);
    await page.close();
  } finally {
    await own.close();
  }
});

test('a server that wants a token gets it, in the form or in the address', async () => {
  const own = Place.folder('--require-token');
  try {
    const { token } = JSON.parse(own.run('token', 'create', '--scope', 'operate', '--json'));
    await own.start();
    const page = await browser.page(`${own.url}/#/inbox`);
    await page.says('Sign in', 'h1');
    await page.type('wrong');
    await page.press('Enter');
    await page.says('unknown token', '.fault');
    await page.value(`document.getElementById('token').value = ''`);
    await page.type(token);
    await page.press('Enter');
    await page.says('Nobody is asked anything', 'main');
    assert.equal(await page.value('document.cookie'), '', 'no script can read it');
    await page.until(`document.getElementById('connection').dataset.state === 'live'`);
    await page.value('window.before = true; location.reload()');
    await page.until('window.before === undefined', 'the page after the reload');
    await page.says('Nobody is asked anything', 'main');
    await page.close();
    const named = await browser.page(`${own.url}/#token=${token}`);
    await named.until(`document.getElementById('connection').dataset.state === 'live'`);
    assert.equal(await named.value('location.hash'), '', 'the address does not keep it');
    assert.equal(await named.value('document.getElementById("sign-out").hidden'), false);
    await named.click('#sign-out');
    await named.says('Sign in', 'h1');
    await named.value('window.before = true; location.reload()');
    await named.until('window.before === undefined', 'the page after the reload');
    await named.says('Sign in', 'h1');
    await named.close();
  } finally {
    await own.close();
  }
});

test('a question with a type has the control that fits it, and a refusal is shown and leaves it open', async () => {
  const typed = (answer, more) => ({ version: '1', name: 'typed', nodes: [{ id: 'ask', user_interaction: { operation_type: 'UPDATE_VARIABLES', prompt: 'Which one?', answer, ...more, variables: [{ variable_name: 'got', expression: '{{ input }}' }] } }] });
  const got = async (id) => {
    assert.equal((await place.outcome(id)).status, 'completed');
    return (await place.ask('GET', `/v1/threads/${id}/state`)).variables.got;
  };
  const asked = async (answer, more = {}) => {
    const id = await place.thread(typed(answer, more));
    await place.question(id);
    const page = await browser.page(`${place.url}/#/threads/${id}/messages`);
    await page.says('Which one?', '.asks .question');
    return [id, page];
  };

  const [yes, yes_page] = await asked('boolean');
  assert.equal(await yes_page.value(`document.querySelectorAll('.question textarea').length`), 0);
  await yes_page.click('.question .choices button', 'No');
  await yes_page.says('completed', '.facts .pill');
  assert.equal(await got(yes), false);
  await yes_page.close();

  const [colour, colour_page] = await asked('choice', { choices: ['red', 'blue'] });
  await colour_page.click('.question .choices button', 'blue');
  await colour_page.says('completed', '.facts .pill');
  assert.equal(await got(colour), 'blue');
  await colour_page.close();

  const [number, number_page] = await asked('number');
  await number_page.click('.question input[inputmode=decimal]');
  await number_page.type('four');
  await number_page.click('.question button.main');
  await number_page.says('not a number', '.question .result');
  await number_page.value(`document.querySelector('.question input').select()`);
  await number_page.type('4.5');
  await number_page.click('.question button.main');
  await number_page.says('completed', '.facts .pill');
  assert.equal(await got(number), 4.5);
  await number_page.close();

  const [form, form_page] = await asked('json_schema', { schema: { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] } });
  assert.deepEqual(JSON.parse(await form_page.value(`document.querySelector('.question textarea').value`)), { n: 0 });
  await form_page.click('.question button.main');
  await form_page.until(`document.querySelector('.question .result')?.dataset.mood === 'bad'`);
  assert.ok((await form_page.value(`document.querySelector('.question .result').innerText`)).length > 10);
  assert.equal((await place.ask('GET', `/v1/threads/${form}/interactions`)).interactions.length, 1, 'it is open still');
  await form_page.value(`(() => { const one = document.querySelector('.question textarea'); one.value = '{"n": 2}'; one.dispatchEvent(new Event('input')); })()`);
  await form_page.click('.question button.main');
  await form_page.says('completed', '.facts .pill');
  assert.deepEqual(await got(form), { n: 2 });
  await form_page.close();
});
