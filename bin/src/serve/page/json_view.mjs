// A JSON value as a tree that opens where somebody looks.

import { fill, h } from './dom.mjs';
import { digits } from './exact.mjs';
import { line } from './format.mjs';

const ITEMS_MAX = 100;
const CHARS_MAX = 20_000;

/** The tree; its first levels are open. */
export function tree(value, open = 1) {
  return h('div.json', {}, node(value, null, open));
}

function node(value, name, open) {
  const label = name === null ? null : h('span.name', {}, `${name}: `);
  if (value === null || typeof value !== 'object' || digits(value) !== null) return h('div.leaf', {}, label, scalar(value));
  const list = Array.isArray(value);
  const names = list ? value.map((_, i) => i) : Object.keys(value);
  if (names.length === 0) return h('div.leaf', {}, label, h('span.empty', {}, list ? '[ ]' : '{ }'));
  const inside = h('div.inside');
  const gist = h('span.gist', {}, list ? `[ ${names.length} ]` : `{ ${line(names.join(', '), 60)} }`);
  const details = h('details', {}, h('summary', {}, label, gist), inside);
  let from = 0;
  const more = () => {
    const part = names.slice(from, from + ITEMS_MAX);
    from += part.length;
    inside.append(...part.map((key) => node(value[key], key, open - 1)));
    if (from < names.length) {
      const button = h('button.more', { type: 'button', onclick: () => { button.remove(); more(); } }, `${names.length - from} more`);
      inside.append(button);
    }
  };
  // Filled when it is first opened: a state may hold a hundred thousand values.
  details.addEventListener('toggle', () => details.open && from === 0 && more());
  if (open > 0) {
    details.open = true;
    more();
  }
  return details;
}

function scalar(value) {
  if (digits(value) !== null) return h('span.number', {}, digits(value));
  if (typeof value !== 'string') return h(`span.${value === null ? 'null' : typeof value}`, {}, String(value));
  return long_text(value, 'span.string');
}

/** A text, cut where it is very long, with a button for the rest. */
export function long_text(text, name = 'span') {
  if (text.length <= CHARS_MAX) return h(name, {}, text);
  const element = h(name, {}, text.slice(0, CHARS_MAX));
  const button = h('button.more', {
    type: 'button',
    onclick: () => fill(element, text),
  }, `${text.length - CHARS_MAX} more characters`);
  element.append(button);
  return element;
}

/** Changes between two values, one a line. */
export function changes(list) {
  if (list.length === 0) return h('p.quiet', {}, 'Nothing is different.');
  const show = (value) => (value === undefined ? '' : long_text(typeof value === 'string' ? value : JSON.stringify(value)));
  const rows = list.map(({ op, path, before, after }) => h(`div.change.${op}`, {},
    h('span.op', {}, { add: '+', remove: '−', replace: '~' }[op]),
    h('span.path', {}, path || '(everything)'),
    op !== 'add' && h('del', {}, show(before)),
    op !== 'remove' && h('ins', {}, show(after))));
  return h('div.changes', {}, rows, list.more > 0 && h('p.quiet', {}, `${list.more} more changes are not shown.`));
}
