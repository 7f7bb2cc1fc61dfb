// What is drawn: bars over time, graphs, the rows of a list.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { TYPES, Timeline, events_of, squeezed, ticks, words_place } from '../../../bin/src/serve/page/timeline.mjs';
import { layout } from '../../../bin/src/serve/page/layout.mjs';
import { height, offset, range, scroll } from '../../../bin/src/serve/page/window.mjs';
import { parts, with_future } from '../../../bin/src/serve/page/conversation.mjs';
import { same } from '../../../bin/src/serve/page/diff.mjs';
import { CHOICES, describe } from '../../../bin/src/serve/page/describe.mjs';
import { ThreadsModel } from '../../../bin/src/serve/page/threads_model.mjs';

const BEGIN = Date.parse('2026-01-01T00:00:00Z');

function folded(...events) {
  const timeline = new Timeline();
  events.forEach(([ms, type, data = {}], seq) => timeline.add({ seq, type, data, time: new Date(BEGIN + ms).toISOString() }));
  return timeline;
}

const show = (timeline) => timeline.bars.map((bar) => `${'  '.repeat(bar.depth)}${bar.kind} ${bar.label} ${bar.start - BEGIN}-${bar.end === null ? '' : bar.end - BEGIN} ${bar.status}`);

test('calls that run beside each other are bars beside each other', () => {
  const timeline = folded(
    [0, 'THREAD_STARTED'], [0, 'NODE_STARTED', { node_id: 'a', attempt: 1 }], [0, 'LLM_EXECUTION_REQUEST', { model: { model: 'm' } }],
    [1, 'LLM_CALL_REQUESTED', { iteration: 1 }], [20, 'LLM_CALL_COMPLETED', { call_id: 3, usage: { total_tokens: 9 } }],
    [20, 'TOOL_EXECUTION_REQUEST', { name: 'x', arguments: {} }], [20, 'TOOL_EXECUTION_REQUEST', { name: 'y', arguments: {} }],
    [25, 'TOOL_CALL_RETRIED', { call_id: 6, attempt: 2 }], [40, 'TOOL_EXECUTION_COMPLETED', { call_id: 5 }],
    [50, 'TOOL_EXECUTION_FAILED', { call_id: 6, error: { message: 'no' } }], [51, 'NODE_COMPLETED', { node_id: 'a' }], [52, 'THREAD_COMPLETED', { node_id: 'a' }],
  );
  assert.deepEqual(show(timeline), ['node a 0-51 done', '  llm m 1-20 done', '  tool x 20-40 done', '  tool y 20-50 failed']);
  assert.deepEqual(timeline.bars[3].marks.map((mark) => mark.text), ['attempt 2']);
  assert.equal(timeline.ended, true);
});

test('a question and a pause are waits, open until they end', () => {
  const timeline = folded([0, 'NODE_STARTED', { node_id: 'a', attempt: 1 }], [1, 'USER_INTERACTION_REQUESTED', { prompt: 'Well?' }], [5, 'THREAD_PAUSED', {}]);
  assert.deepEqual(show(timeline), ['node a 0- open', '  wait Well? 1- open', '  wait paused 5- open']);
  timeline.add({ seq: 3, type: 'THREAD_CANCELLED', data: {}, time: new Date(BEGIN + 9).toISOString() });
  assert.deepEqual(timeline.bars.map((bar) => bar.status), ['cancelled', 'cancelled', 'cancelled']);
});

test('rounds of a loop stand inside of it, and branches have the names of their fork', () => {
  const timeline = folded(
    [0, 'LOOP_STARTED', { node_id: 'l' }], [0, 'LOOP_ITERATION_STARTED', { node_id: 'l', index: 0 }], [1, 'NODE_STARTED', { node_id: 'f', attempt: 1 }],
    [1, 'FORK_STARTED', { branches: { named: [{ name: 'left' }, { name: 'right' }] } }], [2, 'BRANCH_STARTED', { index: 1, child: 'c' }],
    [4, 'BRANCH_ENDED', { index: 1, child: 'c', error: { message: 'no' } }], [5, 'NODE_COMPLETED', { node_id: 'f' }],
    [6, 'LOOP_ITERATION_STARTED', { node_id: 'l', index: 1 }], [7, 'LOOP_ENDED', { node_id: 'l' }],
  );
  assert.deepEqual(show(timeline), ['loop loop l 0-7 done', '  loop round 1 0-6 done', '    node f 1-5 done', '      branch right 2-4 failed', '  loop round 2 6-7 done']);
  assert.equal(timeline.bars[3].fork, 3);
});

test('a bar inside of a branch leads to the events of the branch', () => {
  const inside = new Timeline({ depth: 2, thread: 'c' });
  inside.add({ seq: 7, type: 'NODE_STARTED', data: { node_id: 'b', attempt: 1 }, time: new Date(BEGIN).toISOString() });
  inside.add({ seq: 8, type: 'WARNING', data: { message: 'hm' }, time: new Date(BEGIN).toISOString() });
  const route = { view: 'thread', id: 'p', tab: 'timeline', at: 40, seq: null };
  for (const bar of inside.bars) assert.deepEqual(events_of(bar, route), { view: 'thread', id: 'c', tab: 'events', at: null, seq: bar.seq });
  const own = folded([0, 'NODE_STARTED', { node_id: 'a', attempt: 1 }]).bars[0];
  assert.deepEqual(events_of(own, route), { view: 'thread', id: 'p', tab: 'events', at: 40, seq: 0 });
});

test('nodes of a hook stand inside of it, and what was open before it has ended', () => {
  const timeline = folded(
    [0, 'NODE_STARTED', { node_id: 'a', attempt: 1 }], [1, 'THREAD_PAUSED', {}],
    [2, 'HOOK_STARTED', { hook: 'on_cancel', node_id: 'b', ending: { status: 'cancelled', reason: null } }], [2, 'NODE_STARTED', { node_id: 'b', attempt: 1 }],
    [3, 'NODE_FAILED', { node_id: 'b', error: { message: 'no' } }], [3, 'HOOK_ENDED', { hook: 'on_cancel', node_id: 'b', error: { message: 'no' } }], [4, 'THREAD_CANCELLED', {}],
  );
  assert.deepEqual(show(timeline), ['node a 0-2 cancelled', '  wait paused 1-2 cancelled', 'loop hook on_cancel 2-3 failed', '  node b 2-3 failed']);
  assert.equal(describe({ type: 'HOOK_STARTED', data: { hook: 'finally', node_id: 'c', ending: { status: 'completed' } } }), 'finally, c, the run ends as completed');
  assert.equal(describe({ type: 'HOOK_ENDED', data: { hook: 'finally', node_id: 'c', error: null } }), 'finally');
});

test('an event that is given twice counts once', () => {
  const timeline = folded([0, 'NODE_STARTED', { node_id: 'a', attempt: 1 }], [5, 'NODE_COMPLETED', { node_id: 'a' }]);
  timeline.add({ seq: 0, type: 'NODE_STARTED', data: { node_id: 'a', attempt: 1 }, time: new Date(BEGIN).toISOString() });
  assert.deepEqual(show(timeline), ['node a 0-5 done']);
});

test('every event that is asked for changes a bar or is known not to', () => {
  for (const type of TYPES) {
    const data = { node_id: 'n', error: { message: 'm' }, model: {}, branches: { named: [] }, condition: 'c', detail: 'd', label: 'l', arguments: {}, name: 'n', child: 'c', call_id: 0, results: {}, index: 0 };
    assert.doesNotThrow(() => folded([0, type, data]), type);
  }
});

test('an unknown event is passed over', () => {
  assert.deepEqual(folded([0, 'SOMETHING_NEW', {}]).bars, []);
  assert.equal(describe({ type: 'SOMETHING_NEW', data: {} }), '');
  for (const [label, names] of Object.values(CHOICES)) assert.ok(label && Array.isArray(names));
});

test('a long wait is drawn short, and times between stay in order', () => {
  const hour = 3_600_000;
  const bars = [{ kind: 'llm', start: 0, end: 100 }, { kind: 'wait', start: 100, end: hour }, { kind: 'llm', start: hour, end: hour + 100 }];
  const plain = squeezed(bars, 0, hour + 100);
  assert.equal(plain.length, hour + 100);
  const short = squeezed(bars, 0, hour + 100, 10);
  assert.equal(short.length, 210);
  const times = [0, 50, 100, 1_000, hour - 1, hour, hour + 50, hour + 100];
  const places = times.map(short.to);
  assert.deepEqual([...places].sort((a, b) => a - b), places);
  times.forEach((time, i) => assert.ok(Math.abs(short.from(places[i]) - time) < 1, `${time}`));
  assert.deepEqual(ticks(100, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(ticks(0), [0]);
});

const box = (number) => ({ number, width: 100, height: 40 });

test('a graph lies in rows along its arrows, and no two nodes overlap', () => {
  const arrows = [[0, 1], [0, 2], [1, 3], [2, 3], [3, 1], [3, 4], [4, 4]].map(([from, to]) => ({ from, to }));
  const nodes = [0, 1, 2, 3, 4].map(box);
  const { places, back, width, height: tall } = layout(nodes, arrows);
  assert.deepEqual([...back], [arrows[4], arrows[6]]);
  for (const arrow of arrows) if (!back.has(arrow) && arrow.from !== arrow.to) assert.ok(places.get(arrow.from).y < places.get(arrow.to).y);
  const all = [...places.values()];
  for (const a of all) for (const b of all) assert.ok(a === b || Math.abs(a.x - b.x) >= 100 || Math.abs(a.y - b.y) >= 40);
  assert.ok(width >= 236 && tall > 0);
});

test('a chain of ten thousand nodes is laid out', () => {
  const nodes = Array.from({ length: 10_000 }, (_, i) => box(i));
  const { places } = layout(nodes, nodes.slice(1).map(({ number }) => ({ from: number - 1, to: number })));
  assert.equal(places.size, 10_000);
});

test('a list of any length shows its first and its last row', () => {
  for (const n of [0, 1, 30, 100_000, 3_000_000]) {
    const [row, sight] = [28, 600];
    const end = Math.max(0, height(n, row) - sight);
    const top = range(offset(0, n, row, sight), n, row, sight);
    const bottom = range(offset(end, n, row, sight), n, row, sight);
    assert.equal(top.first, 0);
    assert.equal(bottom.end, n);
    assert.ok(bottom.end - bottom.first < 40);
    for (const wanted of [0, Math.floor(n / 2) * row]) {
      const there = offset(scroll(wanted, n, row, sight), n, row, sight);
      assert.ok(n * row <= sight || Math.abs(there - Math.min(wanted, n * row - sight)) < 1 || wanted > n * row - sight);
    }
  }
});

test('what a message holds is given as text, whatever it is', () => {
  const hostile = '<img src=x onerror=alert(1)>';
  const message = { role: 'assistant', content: [{ type: 'text', text: hostile }, { type: 'tool_call', id: '1', name: 'x', arguments: { a: hostile } }, { type: 'tool_result', tool_call_id: '1', content: [{ type: 'text', text: 'y' }], is_error: true }, { type: 'new' }] };
  assert.deepEqual(parts(message).map((part) => part.kind), ['text', 'call', 'error', 'other']);
  assert.equal(parts(message)[0].text, hostile);
  assert.deepEqual(parts({ role: 'user', content: 'plain' }), [{ kind: 'text', text: 'plain' }]);
});

test('messages that a moment of the past did not have are marked', () => {
  const now = ['a', 'b', 'c'];
  assert.deepEqual(with_future(now, ['a'], same).map((one) => one.future), [false, true, true]);
  const [system, other] = [{ role: 'system', content: 'a' }, { role: 'system', content: 'b' }];
  assert.deepEqual(with_future([other, 'x', 'y'], [system, 'x'], same).map((one) => [one.message, one.future]), [[system, false], ['x', false], ['y', true]]);
  assert.deepEqual(with_future(['summary'], ['a', 'b'], same).map((one) => one.message), ['a', 'b']);
});

test('a list of threads takes in new ones in front and older ones behind, each once', () => {
  const model = new ThreadsModel();
  const page = (ids, next) => ({ threads: ids.map((id) => ({ thread_id: id, status: 'running' })), next });
  const ids = () => model.rows.map((row) => row.thread_id).join('');
  model.reset(page(['f', 'e', 'd'], 'd'));
  model.append(page(['c', 'b'], 'b'));
  model.newest(page(['h', 'g', 'f'], 'f'));
  assert.equal(ids(), 'hgfedcb');
  assert.equal(model.next, 'b');
  model.update({ thread_id: 'g', status: 'completed' });
  assert.equal(model.get('g').status, 'completed');
  model.remove('e');
  assert.equal(model.place('d'), 3);
  model.newest(page(['z', 'y'], 'y'));
  assert.equal(ids(), 'zy', 'with a gap it starts anew');
});

test('words about a bar never stand over a bar that they would hide', () => {
  assert.deepEqual(words_place(10, 40), { side: 'behind', at: 40 });
  assert.deepEqual(words_place(98, 100), { side: 'before', at: 2 });
  assert.deepEqual(words_place(60, 71), { side: 'before', at: 40 });
  assert.deepEqual(words_place(5, 95), { side: 'inside', at: 5 });
});

test('what was done with an answer, what a processor did and which model answered is said', () => {
  const said = (type, data) => describe({ type, data });
  assert.equal(said('USER_INTERACTION_PROCESSED', { variables: [{ scope: 'thread', name: 'colour', value: 'blue' }], message: null, decision: null }), 'colour = "blue"');
  assert.equal(said('USER_INTERACTION_PROCESSED', { variables: [], message: null, decision: { decision: 'reject', reason: 'no' } }), 'rejects: no');
  assert.equal(said('CONTEXT_PROCESSED', { messages: [{ kept: { from: 2, to: 5 } }, { new: {} }], variables: { a: 1 } }), '3 messages kept, 1 new, sets a');
  assert.equal(said('LLM_CALL_COMPLETED', { model: 'gpt-x', usage: { total_tokens: 9 }, message: { content: [{ type: 'text', text: 'Hi' }] } }), 'gpt-x, 9 tokens: Hi');
});
