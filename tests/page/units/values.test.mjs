// Addresses, numbers, differences, answers and commands.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { TABS, address, parse } from '../../../bin/src/serve/page/route.mjs';
import { age, cost, count, duration, line, millis, tokens } from '../../../bin/src/serve/page/format.mjs';
import { diff, same } from '../../../bin/src/serve/page/diff.mjs';
import { answer, form, options, sample } from '../../../bin/src/serve/page/answers.mjs';
import { digits, is_blurred, parse as parse_json } from '../../../bin/src/serve/page/exact.mjs';
import * as commands from '../../../bin/src/serve/page/commands.mjs';

const ID = '01a1ff83-4ffb-7128-b2a0-ac67caae1dd7';

test('every address leads back to its view', () => {
  for (const tab of TABS) {
    const route = { view: 'thread', id: ID, tab, at: 0, seq: 12, only: 'tools' };
    assert.deepEqual(parse(address(route)), route);
  }
  const list = { view: 'threads', status: 'waiting,paused', workflow: 'a&b=c?#/', search: 'order_id=4711,customer="A, B"', branches: true };
  assert.deepEqual(parse(address(list)), list);
  assert.deepEqual(parse(address({ view: 'inbox', question: null })), { view: 'inbox', question: null });
});

test('an address that names nothing leads to the threads', () => {
  for (const hash of ['', '#', '#/nothing', '#/threads/no-id', '#/threads/../../v1']) assert.equal(parse(hash).view, 'threads', hash);
  assert.equal(parse(`#/threads/${ID}/nothing?at=-1`).tab, 'timeline');
  assert.equal(parse(`#/threads/${ID}?at=x`).at, null);
});

test('a number keeps all its digits, or is known to have lost some', () => {
  const text = '{"a":[1234567890123456789,-9007199254740993,1],"b":"1234567890123456789","c":0.5}';
  const value = parse_json(text);
  assert.equal(value.a[2], 1);
  if (typeof JSON.rawJSON !== 'function') {
    assert.equal(is_blurred(value), true);
    return;
  }
  assert.equal(JSON.stringify(value), text);
  assert.equal(digits(value.a[0]), '1234567890123456789');
  assert.equal(is_blurred(value), false);
  assert.equal(same(value, parse_json(text)), true);
  assert.deepEqual(diff(value, parse_json(text.replace('6789,', '6780,'))).map(({ path }) => path), ['/a/0']);
});

test('numbers read well', () => {
  assert.deepEqual([0, 0.5, 3.14, 250, 4_300, 90_000, 3_600_000, 1e9].map(duration), ['0', '500 µs', '3.1 ms', '250 ms', '4.3 s', '90 s', '60 min', '12 days']);
  assert.deepEqual([0, 999, 12_345, 1_500_000].map(tokens), ['0', '999', '12.3 k', '1.50 M']);
  assert.deepEqual([null, 0, 1_000, 2_500_000, 3e9].map(cost), ['', '$0', '<$0.0001', '$0.0025', '$3.00']);
  assert.equal(count(1234567), '1\u202f234\u202f567');
  assert.equal(age('2026-01-01T00:00:10Z', Date.parse('2026-01-01T00:00:05Z')), 'now');
  assert.ok(Math.abs(millis('2026-01-01T00:00:00.123456Z') - Date.parse('2026-01-01T00:00:00.123Z') - 0.456) < 0.001);
  assert.equal(line('a\n\tb   c', 10), 'a b c');
  assert.equal(line('a\u0007b\ufeff', 40), 'a⟨U+0007⟩b⟨U+FEFF⟩');
  assert.equal(line('x'.repeat(50), 10), `${'x'.repeat(9)}…`);
});

// Makes the changes, as RFC 6902 says, to see that they lead where they claim to.
function patched(value, changes) {
  const whole = { root: structuredClone(value) };
  for (const { op, path, after } of changes) {
    const steps = ['root', ...path.split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))];
    const last = steps.pop();
    const inside = steps.reduce((at, step) => at[step], whole);
    if (Array.isArray(inside)) inside.splice(Number(last), op === 'add' ? 0 : 1, ...(op === 'remove' ? [] : [after]));
    else if (op === 'remove') delete inside[last];
    else inside[last] = after;
  }
  return whole.root;
}

test('the changes between two values lead from one to the other', () => {
  const values = [
    null, 1, 'a', [], {}, [1, 2, 3], [1, 3], [0, 1, 2, 3], [3, 2, 1], { a: 1 }, { a: null }, { 'a/b~c': { d: [1] } },
    { 'a/b~c': { d: [1, { e: 2 }] } }, { messages: [{ role: 'user' }] }, { messages: [{ role: 'user' }, { role: 'tool' }] }, [[1], [2]], { a: [1, 2], b: 'x' },
  ];
  for (const before of values) {
    for (const after of values) {
      const changes = diff(before, after);
      assert.ok(same(patched(before, changes), after), `${JSON.stringify(before)} to ${JSON.stringify(after)}: ${JSON.stringify(changes)}`);
      assert.equal(changes.length === 0, same(before, after));
    }
  }
  assert.deepEqual([...diff({ a: [1, 2, 3] }, { a: [1, 9, 2, 3] })], [{ op: 'add', path: '/a/1', after: 9 }]);
});

test('a difference of very many places has an end', () => {
  const changes = diff({}, Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`n${i}`, i])));
  assert.equal(changes.length, 500);
  assert.equal(changes.more, 1_500);
});

const approval = { id: `${ID}-7`, thread_id: ID, operation_type: 'APPROVE_TOOL' };
const open = { ...approval, operation_type: 'UPDATE_VARIABLES' };

test('each kind of question has its form and its answers', () => {
  assert.equal(form(approval), 'approve');
  assert.equal(form({ ...approval, operation_type: 'approve_tool' }), 'approve');
  assert.equal(form(open), 'text');
  assert.equal(form({ ...open, metadata: { choices: ['a'] } }), 'choice');
  assert.equal(form({ ...open, operation_type: 'INFORM_TOOL', metadata: { schema: {} } }), 'fields');
  assert.deepEqual(answer(approval, { decision: 'edit', text: '{"a":1}' }), { decision: 'edit', arguments: { a: 1 } });
  assert.deepEqual(answer(approval, { decision: 'reject', text: ' ' }), { decision: 'reject' });
  assert.deepEqual(answer(approval, { decision: 'answer', text: '[1]' }), { decision: 'answer', content: [1] });
  assert.throws(() => answer(approval, { decision: 'edit', text: '[1]' }), /JSON object/);
  assert.throws(() => answer(approval, {}), /choose/);
  const content = { ...open, operation_type: 'APPROVE_CONTENT', metadata: { guardrail: 'g', on: 'answer' } };
  assert.equal(form(content), 'content');
  assert.deepEqual(answer(content, { decision: 'approve' }), { decision: 'approve' });
  assert.deepEqual(answer(content, { decision: 'reject', text: 'no' }), { decision: 'reject', reason: 'no' });
  assert.deepEqual(answer(content, { decision: 'answer', text: '[1]' }), { decision: 'answer', content: '[1]' });
  assert.throws(() => answer(content, {}), /choose/);
  assert.equal(answer(open, { text: 'true' }), 'true');
  assert.equal(answer(open, { text: 'true', json: true }), true);
  assert.throws(() => answer(open, { text: 'yes', json: true }), /not JSON/);
});

test('a typed question takes an answer of its type, and says what is wrong with another', () => {
  const typed = (answer) => ({ ...open, answer });
  assert.deepEqual(['boolean', 'choice', 'text', 'number', 'json_schema'].map((type) => form(typed({ type }))), ['options', 'options', 'words', 'number', 'schema']);
  assert.deepEqual(options(typed({ type: 'boolean' })), [['Yes', true], ['No', false]]);
  assert.deepEqual(options(typed({ type: 'choice', choices: ['red', 'blue'] })), [['red', 'red'], ['blue', 'blue']]);
  assert.equal(answer(typed({ type: 'text' }), { text: 'true' }), 'true');
  assert.equal(answer(typed({ type: 'number' }), { text: ' .5 ' }), 0.5);
  assert.equal(JSON.stringify(answer(typed({ type: 'number' }), { text: '-1e3' })), '-1000');
  for (const text of ['', 'four', '1,5']) assert.throws(() => answer(typed({ type: 'number' }), { text }), /not a number/, text);
  const schema = { type: 'object', properties: { n: { type: 'integer' }, of: { enum: ['a', 'b'] }, list: { type: 'array' }, text: {} } };
  assert.deepEqual(sample(schema), { n: 0, of: 'a', list: [], text: '' });
  assert.deepEqual(answer(typed({ type: 'json_schema', schema }), { text: '{"n": 1}' }), { n: 1 });
  assert.throws(() => answer(typed({ type: 'json_schema', schema }), { text: 'yes' }), /in quotes/);
});

test('a command that holds hidden characters shows them', () => {
  const text = commands.fork(ID, { prompts: { n: 'a\u202eb' } });
  assert.equal(text, `rethread fork ${ID} --prompt $'n=a\\342\\200\\256b'`);
  assert.equal(execFileSync('bash', ['-c', `set -- ${text}; printf %s "$5"`]).toString(), 'n=a\u202eb');
  assert.equal(commands.respond(approval, { decision: 'edit', arguments: { path: '\u202e' } }), `rethread respond ${ID}-7 --edit '{"path":"\\u202e"}'`);
});

test('a shell reads every command as it was meant', () => {
  const nasty = 'it\'s "$(rm -rf /)" `x` \\ \n !! ; <b>';
  const text = commands.fork(ID, { at: 3, variables: { v: nasty }, prompts: { n: nasty }, profile: 'fast' });
  const words = execFileSync('sh', ['-c', `set -- ${text}\nprintf '%s\\0' "$@"`]).toString().split('\0').slice(0, -1);
  assert.deepEqual(words, ['rethread', 'fork', ID, '--at', '3', '--set', `v=${JSON.stringify(nasty)}`, '--prompt', `n=${nasty}`, '--profile', 'fast']);
  assert.equal(commands.respond(approval, { decision: 'approve' }), `rethread respond ${ID}-7 --approve`);
  assert.equal(commands.respond(approval, { decision: 'reject' }), `rethread respond ${ID}-7 --reject ''`);
  assert.equal(commands.respond(open, 'yes please'), `rethread respond ${ID}-7 --text 'yes please'`);
  assert.equal(commands.respond(open, true), `rethread respond ${ID}-7 --value true`);
  assert.equal(commands.diff(ID, 3, 4), `rethread diff ${ID}@3 ${ID}@4`);
});

if (process.env.RETHREAD_PROGRAM) {
  test('the program knows every command that the page shows', () => {
    const all = [
      commands.list({ status: 'waiting', branches: true }), commands.pause(ID, 'why'), commands.resume(ID), commands.cancel(ID, 'why'), commands.inbox(),
      commands.fork(ID, { at: 3, variables: { v: 1 }, prompts: { n: 't' }, profile: 'p' }),
      ...[{ decision: 'approve' }, { decision: 'edit', arguments: {} }, { decision: 'reject' }].map((given) => commands.respond(approval, given)),
      commands.respond(open, 'x'), commands.respond(open, 1),
      ...commands.about(ID, 3).map(([, text]) => text), ...commands.about(ID, null).map(([, text]) => text),
    ];
    for (const text of all) {
      // With --help behind it, a command is parsed and nothing is done; an unknown option is still an error.
      const run = text.replace(/^rethread/, '"$0"');
      const said = execFileSync('sh', ['-c', `${run} --help`, process.env.RETHREAD_PROGRAM]).toString();
      for (const [option] of text.matchAll(/ (--[a-z-]+)/g)) assert.ok(said.includes(option.trim()), `${text}: the help does not know ${option}`);
    }
  });
}
