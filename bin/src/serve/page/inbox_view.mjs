// What waits for a person, in all threads, the oldest threads first.

import { fill, h, say } from './dom.mjs';
import { address } from './route.mjs';
import { short } from './format.mjs';
import { question_card } from './question.mjs';
import { commands } from './dialog.mjs';
import * as command from './commands.mjs';

// So many are shown at once; the others follow as these are answered.
const SHOWN = 50;

export function inbox_view(app) {
  const cards = new Map();
  const total = h('span.quiet', { role: 'status' });
  const list = h('div.questions');
  const empty = h('p.empty', {});
  const unreadable = h('div');
  const element = h('section.view.inbox', { 'aria-label': 'Inbox', tabindex: '-1' },
    h('div.bar', {}, h('h1', {}, 'Inbox'), total, h('span.grow'), h('button', { type: 'button', title: 'Copy as command (c)', onclick: copy }, 'Command')),
    list, empty, unreadable);

  function copy() {
    commands('As a command', [['What waits for a person', command.inbox()]]);
  }

  function drawn() {
    const { open, count: n, loaded } = app.inbox;
    const ids = new Set(open.map((question) => question.id));
    for (const [id, card] of cards) {
      if (ids.has(id)) card.aged();
      else {
        card.gone();
        cards.delete(id);
      }
    }
    for (const question of open.slice(0, SHOWN)) {
      if (cards.has(question.id)) continue;
      const card = question_card(app, question);
      cards.set(question.id, card);
      list.append(card.element);
    }
    say(total, loaded ? `${n} open${open.length > SHOWN ? `, the first ${SHOWN} shown` : ''}` : '…');
    empty.hidden = open.length > 0 || list.children.length > 0;
    fill(empty, loaded ? 'Nobody is asked anything.' : 'Looking…');
    fill(unreadable, app.inbox.unreadable.map(({ thread_id: id, problem }) => h('p.banner.bad', {},
      'What ', h('a', { href: address({ view: 'thread', id, tab: 'events' }) }, short(id)), ' asks cannot be read: ', problem.detail ?? problem.title)));
  }

  const unwatch = app.inbox.watch(drawn);
  const ages = setInterval(drawn, 10_000);
  drawn();
  app.inbox.refresh();
  return {
    element,
    update: drawn,
    focus: () => element.focus({ preventScroll: true }),
    key(event) {
      const shown = [...cards.values()];
      const here = shown.findIndex((card) => card.element.contains(document.activeElement));
      if (event.key === 'j' || event.key === 'ArrowDown') shown[Math.min(here + 1, shown.length - 1)]?.focus();
      else if (event.key === 'k' || event.key === 'ArrowUp') shown[Math.max(here - 1, 0)]?.focus();
      else if (event.key === 'c') copy();
      else return false;
      return true;
    },
    close() {
      unwatch();
      clearInterval(ages);
    },
  };
}
