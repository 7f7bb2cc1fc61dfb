// All events of a thread; of the one that is marked, its JSON and what it changed.

import { fill, h, notice, say, unseen } from './dom.mjs';
import { query } from './api.mjs';
import { CHOICES, describe, family } from './describe.mjs';
import { clock, count, duration, millis } from './format.mjs';
import { diff } from './diff.mjs';
import { changes, tree } from './json_view.mjs';
import { PAGE } from './thread_model.mjs';
import { VirtualList } from './virtual.mjs';
import { command, copied } from './dialog.mjs';
import * as commands from './commands.mjs';

// The most events of a choice that are kept; more of them are read a page at a time all the same.
const CHOSEN_MAX = 50_000;
const CHOSEN_PAGE = 2_000;

export function events_tab(app, model, { move }) {
  let [closed, at, only, chosen, shown] = [false, null, null, null, null];
  const asked = new Set();
  const choice = h('select', { 'aria-label': 'Which events', 'data-filter': true, onchange: () => app.go({ ...app.route, only: choice.value, seq: null }) },
    Object.entries(CHOICES).map(([id, [label]]) => h('option', { value: id }, label)));
  const total = h('span.quiet', { role: 'status' });
  const list = new VirtualList({
    row: 28,
    label: 'Events, the first one first',
    render: row,
    onOpen: (i) => open(seq_of(i)),
    onActive: (i) => open(seq_of(i)),
    onRange: in_sight,
  });
  list.element.classList.add('events');
  const detail = h('div.detail', { role: 'region', 'aria-label': 'The marked event', tabindex: '0' });
  const element = h('div.split', {}, h('div.left', {}, h('div.bar.small', {}, choice, total), list.element), detail);

  const seq_of = (i) => (chosen ? chosen[i]?.seq : i);
  const index_of = (seq) => {
    if (!chosen) return seq;
    return chosen.findIndex((event) => event.seq === seq);
  };

  function row(i) {
    const event = chosen ? chosen[i] : model.known(i);
    const seq = seq_of(i);
    const future = at !== null && seq > at;
    if (!event) return h('div.event-row.unread', {}, h('span.seq', {}, count(seq)), h('span.type', {}, '…'));
    return h(`div.event-row${future ? '.future' : ''}${seq === at ? '.here' : ''}`, {},
      h('span.seq', {}, count(seq), future && unseen(', later than the moment shown')),
      h('span.time', {}, clock(event.time, app.now())),
      h('span.type', { 'data-family': family(event.type) }, event.type),
      h('span.text', {}, describe(event)));
  }

  function in_sight(first, end) {
    if (chosen || end === 0) return;
    const pages = new Set();
    for (let i = first; i < Math.min(end, model.last + 1); i += 1) if (!model.known(i)) pages.add(Math.floor(i / PAGE));
    for (const page of pages) {
      if (asked.has(page)) continue;
      asked.add(page);
      model.page(page).then(() => closed || refreshed(page), (problem) => {
        if (!closed && problem.name !== 'AbortError') notice(problem.message, 'bad');
      }).finally(() => asked.delete(page));
    }
  }

  function refreshed(page) {
    for (let i = page * PAGE; i < (page + 1) * PAGE; i += 1) list.refresh_row(i);
  }

  async function choose(id) {
    only = id;
    choice.value = id;
    chosen = id === '' ? null : [];
    counted();
    list.refresh(chosen ? 0 : model.last + 1);
    let from = 0;
    while (id !== '' && only === id && from !== null && chosen.length < CHOSEN_MAX && !closed) {
      let page;
      try {
        page = await model.read(query(`${model.path}/events`, { from_seq: from, types: CHOICES[id][1].join(','), limit: CHOSEN_PAGE }));
      } catch (problem) {
        if (problem.name !== 'AbortError') notice(problem.message, 'bad');
        return;
      }
      if (only !== id || closed) return;
      chosen.push(...page.events);
      from = page.next;
      list.refresh(chosen.length);
      counted();
    }
  }

  function counted() {
    const n = chosen ? chosen.length : model.last + 1;
    say(total, `${count(n)} events${chosen && n >= CHOSEN_MAX ? ', the first of them' : ''}`);
  }

  function open(seq) {
    if (seq === undefined) return;
    app.go({ ...app.route, seq }, { replace: true });
  }

  async function detailed(seq) {
    shown = seq;
    if (seq === null) {
      fill(detail, h('p.empty', {}, 'Mark an event to see all of it: ↑ ↓, or a click.'));
      return;
    }
    let event;
    try {
      event = chosen?.find((one) => one.seq === seq) ?? (await model.event(seq));
    } catch (problem) {
      if (problem.name !== 'AbortError') fill(detail, h('p.fault', {}, problem.message));
      return;
    }
    if (closed || shown !== seq) return;
    if (!event) {
      fill(detail, h('p.empty', {}, `The thread has no event ${seq}.`));
      return;
    }
    const before = seq > 0 ? model.known(seq - 1) : null;
    const after = before ? duration(millis(event.time) - millis(before.time)) : '';
    const changed = h('div', {}, h('p.quiet', {}, '…'));
    const json = JSON.stringify(event, null, 2);
    fill(detail,
      h('h2', {}, h('span.type', { 'data-family': family(event.type) }, event.type)),
      h('p.facts', {}, h('span', {}, `event ${count(seq)}`), h('span', {}, clock(event.time, app.now())), after && h('span', {}, `${after} after the one before`),
        event.thread_id !== model.id && h('span', {}, 'inherited from ', h('a', { href: `#/threads/${event.thread_id}/events?seq=${seq}` }, event.thread_id.slice(-8)))),
      h('div.bar.small', {},
        h('button', { type: 'button', onclick: () => move(seq) }, 'Go to this moment'),
        h('button', { type: 'button', onclick: () => copied(json) }, 'Copy JSON')),
      h('h3', {}, 'What it changed'), changed,
      h('h3', {}, 'Data'), tree(event.data, 3),
      h('details', {}, h('summary', {}, 'Record'), tree({ ...event, data: undefined })),
      seq > 0 && command(commands.diff(model.id, seq - 1, seq)));
    try {
      const then = await model.state(seq);
      const earlier = seq > 0 ? await model.state(seq - 1) : {};
      if (closed || shown !== seq) return;
      fill(changed, changes(diff(earlier, then).filter(({ path }) => path !== '/seq' && path !== '/last_at')));
    } catch (problem) {
      if (!closed && problem.name !== 'AbortError') fill(changed, h('p.fault', {}, problem.message));
    }
  }

  return {
    element,
    async show(moment, route) {
      const moved = at !== moment;
      at = moment;
      if (only !== route.only) choose(route.only in CHOICES ? route.only : '');
      else if (moved) list.refresh();
      const seq = route.seq ?? moment;
      if (seq !== null) list.activate(index_of(seq), { tell: false });
      else if (list.active < 0 && !chosen) list.reveal(model.last);
      if (seq !== shown || seq === null) detailed(seq);
      counted();
    },
    heard(events) {
      if (chosen) {
        const names = new Set(CHOICES[only][1]);
        const last = chosen.at(-1)?.seq ?? -1;
        chosen.push(...events.filter((event) => names.has(event.type) && event.seq > last));
        list.grow(chosen.length);
      } else {
        const stay = !list.at_end || at !== null;
        list.grow(model.last + 1);
        for (const event of events) list.refresh_row(event.seq);
        if (!stay) list.reveal(model.last);
      }
      counted();
    },
    close() {
      closed = true;
      list.close();
    },
  };
}
