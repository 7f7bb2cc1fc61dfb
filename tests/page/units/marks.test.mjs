// Marks for hidden characters, on the table that the Rust side is tested on.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { marked, marked_json } from '../../../bin/src/serve/page/marks.mjs';

const table = JSON.parse(readFileSync(new URL('../../../events/tests/marks.json', import.meta.url), 'utf8'));

test('texts of the shared table get their marks', () => {
  for (const { what, text, shown } of table.cases) {
    assert.equal(marked(text), shown, what);
    assert.equal(marked(shown), shown, 'marks are not marked again');
  }
});

test('every character of Unicode is marked as the shared table says', () => {
  const ranges = table.marked_between_letters.map(([first, last]) => [parseInt(first, 16), parseInt(last, 16)]);
  for (let code = 0; code <= 0x10ffff; code += 1) {
    const text = `a${String.fromCodePoint(code)}b`;
    const is_listed = ranges.some(([first, last]) => code >= first && code <= last);
    if ((marked(text) !== text) !== is_listed) assert.fail(`U+${code.toString(16)}`);
  }
});

test('marked JSON means the same', () => {
  const value = { path: 'public/\u202etxt\u007f\u{e0041}', family: '👨\u200d👩\u200d👧' };
  assert.deepEqual(JSON.parse(marked_json(value)), value);
  assert.equal(marked_json(value), '{"path":"public/\\u202etxt\\u007f\\udb40\\udc41","family":"👨\u200d👩\u200d👧"}');
  const spaces = { nested: [[[{ command: `ls${' '.repeat(9)}; rm` }]]], few: 'a  b' };
  for (const json of [marked_json(spaces), marked_json(spaces, 2)]) {
    assert.deepEqual(JSON.parse(json), spaces);
    assert.ok(json.includes(`ls${'\\u0020'.repeat(9)}; rm`) && json.includes('a  b'), json);
  }
});
