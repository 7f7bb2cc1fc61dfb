// What is done here, as the command line does it.

import { has_hidden, marked_json } from './marks.mjs';

// A byte between `$'` and `'`: hidden characters are written by their bytes, so that the command that is read is the
// command that runs.
const byte_of = (byte) => (byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`);

/** A word as a shell takes it: POSIX, of 2024 where it holds hidden characters. */
export function quote(word) {
  const text = String(word);
  if (has_hidden(text)) return `$'${[...new TextEncoder().encode(text)].map(byte_of).join('')}'`;
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const command = (...words) => ['rethread', ...words.map(quote)].join(' ');
const moment = (at) => (at === null || at === undefined ? [] : ['--to', at]);

export const list = ({ status, search, branches } = {}) =>
  command('threads', ...(status ? ['--status', status] : []), ...(search ? ['--search', search] : []), ...(branches ? ['--all'] : []));
export const show = (id) => command('show', id);
export const events = (id) => command('events', id);
export const replay = (id, at) => command('replay', id, ...moment(at));
export const explain = (id, at) => command('explain', id, ...(at === null || at === undefined ? [] : ['--at', at]));
export const diff = (id, from, to) => command('diff', `${id}@${from}`, `${id}@${to}`);
export const tree = (id) => command('tree', id);
export const exported = (id) => command('export', id);
export const pause = (id, reason) => command('pause', id, ...(reason ? ['--reason', reason] : []));
export const resume = (id) => command('resume', id);
export const cancel = (id, reason) => command('cancel', id, ...(reason ? ['--reason', reason] : []));
export const inbox = () => command('inbox');

/** A fork with changes; `workflow` has no command, because the command line takes a file. */
export function fork(id, { at = null, variables = {}, prompts = {}, profile = '' } = {}) {
  const words = at === null ? [] : ['--at', at];
  for (const [name, value] of Object.entries(variables)) words.push('--set', `${name}=${marked_json(value)}`);
  for (const [node, text] of Object.entries(prompts)) words.push('--prompt', `${node}=${text}`);
  if (profile) words.push('--profile', profile);
  return command('fork', id, ...words);
}

/** An answer to a question. */
export function respond(question, answer) {
  if (['APPROVE_TOOL', 'APPROVE_CONTENT'].includes(question.operation_type.toUpperCase())) {
    if (answer?.decision === 'approve') return command('respond', question.id, '--approve');
    if (answer?.decision === 'edit') return command('respond', question.id, '--edit', marked_json(answer.arguments));
    if (answer?.decision === 'reject') return command('respond', question.id, '--reject', answer.reason ?? '');
  }
  if (typeof answer === 'string') return command('respond', question.id, '--text', answer);
  return command('respond', question.id, '--value', marked_json(answer));
}

/** All that can be asked about a thread at a moment, each with what it is for. */
export function about(id, at) {
  const all = [
    ['What it did, what it costs, what it waits for', show(id)],
    ['Its events', events(id)],
    [at === null ? 'Its state now' : `Its state after event ${at}`, replay(id, at)],
    ['What happened, and why', explain(id, at)],
    ['Its forks and branches', tree(id)],
    [at === null ? 'Another way on from here' : `Another way on from event ${at}`, fork(id, { at })],
    ['As JSON lines, to be imported elsewhere', exported(id)],
  ];
  if (at !== null && at > 0) all.splice(3, 0, [`What event ${at} changed`, diff(id, at - 1, at)]);
  return all;
}
