// Keys that work everywhere but in fields.

import { h } from './dom.mjs';
import { dialog } from './dialog.mjs';
import { TABS } from './route.mjs';

const LISTED = [
  ['?', 'Show these keys'],
  ['g t', 'The list of threads'],
  ['g i', 'The inbox'],
  ['/', 'To the filter'],
  ['↑ ↓ or k j', 'Move in a list; Page Up, Page Down, Home, End'],
  ['Enter', 'Open what is marked'],
  ['n', 'Start a thread'],
  ['1 … 5', 'Of a thread: timeline, events, graph, state, messages'],
  ['[ ]', 'Step back, step forth'],
  ['{ }', 'To the first event, to the present'],
  ['+ − 0', 'Zoom the timeline in, out, to fit; ← → move it'],
  ['f', 'Fork from here'],
  ['c', 'The commands for what is shown'],
  ['p', 'Pause, or resume'],
  ['Esc', 'Close'],
];

export function keys(app) {
  let prefix = null;
  app.help = () => dialog('Keys', h('dl.keys', {}, LISTED.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])));
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest('input, textarea, select, dialog, [contenteditable]')) {
      // A slider has its own keys and lets the others through.
      if (event.target.type !== 'range' || /^(Arrow|Page|Home|End)/.test(event.key)) return;
    }
    const first = prefix;
    prefix = null;
    if (first === 'g') {
      if (event.key === 't') app.go({ view: 'threads' });
      else if (event.key === 'i') app.go({ view: 'inbox' });
      else return;
    } else if (event.key === 'g') prefix = 'g';
    else if (event.key === '?') app.help();
    else if (event.key === '/') document.querySelector('[data-filter]')?.focus();
    else if (/^[1-5]$/.test(event.key) && app.route.view === 'thread') {
      app.go({ ...app.route, tab: TABS[Number(event.key) - 1], seq: null });
    } else if (!app.view?.key?.(event)) return;
    event.preventDefault();
  });
}
