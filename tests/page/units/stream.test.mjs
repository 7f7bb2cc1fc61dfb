// Server-sent events out of pieces, and texts out of the chunks of an answer.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Reader, logged } from '../../../bin/src/serve/page/sse.mjs';
import { Streamed } from '../../../bin/src/serve/page/streamed.mjs';
import { ThreadModel } from '../../../bin/src/serve/page/thread_model.mjs';

test('events are the same however the bytes are cut', () => {
  const text = 'retry: 2000\nid: 7\n\n: keep-alive\nid: 8\n\nid: 9\r\nevent: A\r\ndata: {"a":1}\r\n\r\nid: 10\ndata: x\ndata: y\n\n';
  const whole = [{ event: 'A', data: '{"a":1}', id: '9' }, { event: 'message', data: 'x\ny', id: '10' }];
  for (let size = 1; size <= text.length; size += 1) {
    const reader = new Reader();
    const events = [];
    for (let i = 0; i < text.length; i += size) events.push(...reader.push(text.slice(i, i + size)));
    assert.deepEqual(events, whole, `pieces of ${size}`);
    assert.equal(reader.lastId, '10');
    assert.equal(reader.retryMs, 2000);
  }
});

test('a block that holds only an id moves the place to go on from', () => {
  const reader = new Reader('3');
  assert.deepEqual(reader.push(': keep-alive\nid: 12\n\n'), []);
  assert.equal(reader.lastId, '12');
  assert.deepEqual(reader.push('id: 13\nda'), []);
  assert.equal(reader.lastId, '12', 'an event that did not come whole does not count');
});

test('a cloud event has the shape of an event of a page', () => {
  const event = logged({ type: 'rethread.NODE_STARTED.v1', position: '00000000000000000042', sequence: '00000000000000000007', threadid: 't', time: 'now', data: { node_id: 'a' } });
  assert.deepEqual({ ...event, hash: null, trace_id: null }, { position: 42, thread_id: 't', seq: 7, run_id: null, time: 'now', type: 'NODE_STARTED', cause: null, hash: null, trace_id: null, data: { node_id: 'a' } });
});

const chunk = (index, text, more = {}) => ({ type: 'LLM_EXECUTION_PROGRESS', seq: 0, data: { call_id: 5, attempt: 1, index, text, ...more } });

test('a streamed text grows chunk by chunk, each once', () => {
  const streamed = new Streamed();
  streamed.add({ type: 'LLM_CALL_REQUESTED', seq: 5, data: {} });
  for (const event of [chunk(0, 'Hel'), chunk(1, 'lo'), chunk(1, 'lo'), chunk(0, 'Hel')]) streamed.add(event);
  assert.equal(streamed.calls.get(5).text, 'Hello');
  streamed.add({ type: 'LLM_CALL_COMPLETED', seq: 9, data: { call_id: 5 } });
  assert.equal(streamed.calls.size, 0);
});

test('what a failed attempt said is void', () => {
  const streamed = new Streamed();
  streamed.add({ type: 'LLM_CALL_REQUESTED', seq: 5, data: {} });
  streamed.add(chunk(0, 'wrong'));
  streamed.add(chunk(1, 'again', { restarted: true }));
  assert.equal(streamed.calls.get(5).text, 'again');
  streamed.add({ type: 'LLM_CALL_RETRIED', seq: 8, data: { call_id: 5, attempt: 2 } });
  streamed.add(chunk(2, 'late'));
  streamed.add(chunk(0, 'new', { attempt: 2 }));
  assert.equal(streamed.calls.get(5).text, 'new');
});

test('an event that the server spoke of before the stream gave it is heard of', async (t) => {
  globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
  globalThis.sessionStorage = { getItem: () => null };
  const cloud = (seq) => `id: ${seq}\ndata: ${JSON.stringify({ type: 'rethread.NODE_STARTED.v1', sequence: String(seq), position: String(seq), data: {} })}\n\n`;
  const [stream, summary] = [new TransformStream(), { status: 'running', last_seq: 10 }];
  const writer = stream.writable.getWriter();
  t.mock.method(globalThis, 'fetch', async (path, { headers }) => {
    if (headers.Accept === 'text/event-stream') return new Response(stream.readable);
    return Response.json(path.includes('/events') ? { events: [], next: null } : summary);
  });
  const seen = [];
  let came = () => {};
  const model = new ThreadModel('t', (events) => { seen.push(...events.map(({ seq }) => seq)); came(); });
  t.after(async () => {
    model.close();
    await writer.close();
    delete globalThis.document;
    delete globalThis.sessionStorage;
  });
  const give = async (seq) => {
    const heard = new Promise((done) => { came = done; });
    await writer.write(new TextEncoder().encode(cloud(seq)));
    await heard;
  };
  await model.open();
  await give(11);
  summary.last_seq = 13;
  await model.refresh();
  await give(12);
  await give(13);
  assert.deepEqual(seen, [11, 12, 13]);
});
