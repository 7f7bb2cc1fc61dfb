// Sources and media of answers, and what was changed and saved in a call.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { parts } from '../../../bin/src/serve/page/conversation.mjs';
import { describe } from '../../../bin/src/serve/page/describe.mjs';
import { Timeline, cache_saved } from '../../../bin/src/serve/page/timeline.mjs';

const source = (url, title) => ({ kind: 'url', url, title });

test('sources of an answer come after it, each once, and only addresses of the web are links', () => {
  const content = [
    { type: 'text', text: 'a', annotations: [source('https://a.example/', 'A <b>'), source('javascript:alert(1)', 'B')] },
    { type: 'text', text: 'b', annotations: [source('https://a.example/', 'again'), { kind: 'document', document: 'doc-1' }, source('http://c.example/'), source('data:text/html,x', 'D')] },
  ];
  const last = parts({ role: 'assistant', content }).at(-1);
  assert.equal(last.kind, 'sources');
  assert.deepEqual(last.sources.map(({ text, href }) => [text, href]), [
    ['A <b>', 'https://a.example/'], ['B', null], ['doc-1', null], ['http://c.example/', 'http://c.example/'], ['D', null],
  ]);
  assert.deepEqual(parts({ content: 'plain' }).map(({ kind }) => kind), ['text']);
  assert.deepEqual(parts({ content: [{ type: 'text', text: 'x', annotations: null }] }).length, 1);
});

test('only harmless images and recordings are shown, and anything else is a download without a type', () => {
  const shown = (type, media_type, more = {}) => parts({ content: [{ type, media_type, data: 'aGVsbG8=', ...more }] })[0];
  assert.deepEqual([shown('image', 'image/png').shown, shown('image', 'image/png').href], ['image', 'data:image/png;base64,aGVsbG8=']);
  assert.equal(shown('audio', 'audio/mpeg').shown, 'audio');
  for (const type of ['image/svg+xml', 'text/html', 'IMAGE/SVG+XML; x=1', '', 'image/png" onerror="x']) {
    const made = shown('image', type, { name: '../../etc/page.svg' });
    assert.deepEqual([made.shown, made.href, made.name], ['download', 'data:application/octet-stream;base64,aGVsbG8=', 'page.svg'], type);
  }
  assert.equal(shown('image', 'image/gif', { data: '-_8=' }).href, 'data:image/gif;base64,+/8=');
  const outside = shown('document', 'application/pdf', { data: null, url: 'https://a.example/x.pdf' });
  assert.deepEqual([outside.shown, outside.href], ['link', 'https://a.example/x.pdf']);
  assert.equal(shown('image', 'image/png', { data: null, url: 'javascript:x' }).href, null);
  assert.equal(shown('image', 'image/png', { data: 'no base64!' }).href, null);
});

test('a call shows what was changed of its request and what the cache of the provider saved', () => {
  const usage = { input_tokens: 1000, output_tokens: 1, total_tokens: 1001, cached_input_tokens: 800, cache_write_tokens: 100 };
  const prices = { input: 3e9, output: 15e9, cached_input: 3e8, cache_write: 3.75e9 };
  assert.equal(cache_saved({ usage, prices }), 2_085_000);
  assert.equal(cache_saved({ usage, prices, cached: true }), null);
  assert.equal(cache_saved({ usage, prices: null }), null);
  assert.equal(cache_saved({ usage: { cache_write_tokens: 1000 }, prices }), -750_000);
  const timeline = new Timeline();
  const add = (seq, type, data) => timeline.add({ seq, type, data, time: '2026-01-01T00:00:00Z' });
  add(1, 'LLM_CALL_REQUESTED', { iteration: 1 });
  const change = { seq: 2, type: 'LLM_REQUEST_CHANGED', data: { call_id: 1, changes: [{ what: 'thinking', why: 'the prompt changed', n: 2 }] } };
  add(change.seq, change.type, change.data);
  add(3, 'LLM_CALL_COMPLETED', { call_id: 1, usage, prices, message: { content: [] } });
  assert.equal(timeline.bars[0].note, "1001 tokens, 800 of them from the provider's cache, which saved $0.0021, changed: 2 thinking: the prompt changed");
  assert.equal(timeline.bars[0].marks.length, 1);
  assert.equal(describe(change), '2 thinking: the prompt changed');
});
