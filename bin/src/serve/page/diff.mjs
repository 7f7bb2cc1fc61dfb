// What is different between two JSON values, as RFC 6902 names places and operations.

import { digits } from './exact.mjs';

const CHANGES_MAX = 500;

const kind = (value) => (digits(value) !== null ? 'digits' : value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);
const step = (name) => String(name).replaceAll('~', '~0').replaceAll('/', '~1');

/** Whether two values are the same; the order of names does not count. */
export function same(a, b) {
  if (a === b) return true;
  const of = kind(a);
  if (of !== kind(b)) return false;
  if (of === 'digits') return digits(a) === digits(b);
  if (of === 'array') return a.length === b.length && a.every((item, i) => same(item, b[i]));
  if (of !== 'object') return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}

/**
 * The changes that lead from one value to another, in the order in which they have to be made: `{op, path, before,
 * after}`. At most 500; `changes.more` says how many places were not looked into after that.
 */
export function diff(before, after) {
  const changes = [];
  changes.more = 0;
  walk('', before, after, changes);
  return changes;
}

function add(changes, change) {
  if (changes.length < CHANGES_MAX) changes.push(change);
  else changes.more += 1;
}

function walk(path, before, after, changes) {
  if (same(before, after)) return;
  const of = kind(before);
  if (of !== kind(after) || (of !== 'object' && of !== 'array')) {
    add(changes, { op: 'replace', path, before, after });
  } else if (of === 'object') {
    for (const name of Object.keys(before)) {
      if (!Object.hasOwn(after, name)) add(changes, { op: 'remove', path: `${path}/${step(name)}`, before: before[name] });
      else walk(`${path}/${step(name)}`, before[name], after[name], changes);
    }
    for (const name of Object.keys(after)) {
      if (!Object.hasOwn(before, name)) add(changes, { op: 'add', path: `${path}/${step(name)}`, after: after[name] });
    }
  } else {
    list(path, before, after, changes);
  }
}

// What stands before and behind the change stays; between, items are matched by their places.
function list(path, before, after, changes) {
  let first = 0;
  while (first < before.length && first < after.length && same(before[first], after[first])) first += 1;
  let behind = 0;
  const most = Math.min(before.length, after.length) - first;
  while (behind < most && same(before[before.length - 1 - behind], after[after.length - 1 - behind])) behind += 1;
  const [n, m] = [before.length - behind, after.length - behind];
  const both = Math.min(n, m);
  for (let i = first; i < both; i += 1) walk(`${path}/${i}`, before[i], after[i], changes);
  for (let i = n - 1; i >= both; i -= 1) add(changes, { op: 'remove', path: `${path}/${i}`, before: before[i] });
  for (let i = both; i < m; i += 1) add(changes, { op: 'add', path: `${path}/${i}`, after: after[i] });
}
