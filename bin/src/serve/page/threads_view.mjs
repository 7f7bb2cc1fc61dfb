// All threads, live, the newest first.

import { fill, h, notice, say, throttled } from './dom.mjs';
import { query, read } from './api.mjs';
import { address } from './route.mjs';
import { age, clock, cost, count, line, short, tokens } from './format.mjs';
import { ThreadsModel } from './threads_model.mjs';
import { VirtualList } from './virtual.mjs';
import { commands } from './dialog.mjs';
import { start_dialog } from './start_dialog.mjs';
import * as command from './commands.mjs';

const FIRST = 60;
const PAGE = 500;
// What is in sight is looked into one by one, so many at a time.
const LOOKS_MAX = 4;
const STATUSES = ['pending', 'running', 'interrupted', 'waiting', 'suspended', 'queued', 'paused', 'completed', 'cancelled', 'error'];

export function threads_view(app, route) {
  const model = new ThreadsModel();
  let [closed, loading, abort] = [false, false, new AbortController()];
  let [wanted, looking] = [[], 0];
  const stale = new Set();

  const status = h('select', { id: 'status', 'data-filter': true, onchange: () => filter({ status: status.value }) },
    h('option', { value: '' }, 'any status'),
    h('option', { value: 'pending,running,interrupted,waiting,suspended,queued,paused' }, 'not ended'),
    STATUSES.map((name) => h('option', { value: name }, name)));
  const workflow = h('input', { id: 'workflow', type: 'search', placeholder: 'any workflow', list: 'workflows', onchange: () => filter({ workflow: workflow.value.trim() }) });
  const search = h('input', { id: 'search', type: 'search', placeholder: 'order_id=4711', title: 'A variable that the workflow lists under `search`, and its value; commas separate several', onchange: () => filter({ search: search.value.trim() }) });
  const branches = h('input', { id: 'branches', type: 'checkbox', onchange: () => filter({ branches: branches.checked }) });
  const known = h('datalist', { id: 'workflows' });
  const total = h('span.quiet', { role: 'status' });
  const empty = h('p.empty', { hidden: true });
  const list = new VirtualList({
    row: 46,
    label: 'Threads, the newest first',
    render: row,
    onOpen: (i, event) => open(i, event),
    onRange: in_sight,
  });
  list.element.classList.add('threads');
  const element = h('section.view', { 'aria-label': 'Threads' },
    h('div.bar', {},
      h('h1', {}, 'Threads'),
      h('label', { for: 'status' }, 'Status'), status,
      h('label', { for: 'workflow' }, 'Workflow'), workflow, known,
      h('label', { for: 'search' }, 'Search'), search,
      h('label.check', {}, branches, 'branches, too'),
      h('span.grow'), total,
      h('button', { type: 'button', title: 'Copy as command (c)', onclick: copy }, 'Command'),
      h('button.main.operate', { type: 'button', onclick: () => start_dialog(app) }, 'Start a thread')),
    h('div.thread-row.head', { 'aria-hidden': 'true' },
      ['Status', 'Workflow', 'At', 'Started', 'Tokens', 'Cost', 'Thread'].map((name) => h('span', {}, name))),
    list.element, empty);

  function filter(change) {
    app.go({ ...app.route, ...change });
  }

  function parameters(more) {
    const { status: statuses, workflow: name, search: values, branches: all } = app.route;
    return { status: statuses, workflow: name, search: values, branch_of: all ? '' : 'none', ...more };
  }

  async function load() {
    abort.abort();
    abort = new AbortController();
    loading = true;
    try {
      model.reset(await read(query('/v1/threads', parameters({ limit: FIRST })), abort.signal));
      loading = false;
      drawn();
    } catch (problem) {
      loading = false;
      if (problem.name === 'AbortError') return;
      fill(empty, problem.message);
      empty.hidden = false;
    }
  }

  async function more() {
    if (loading || model.next === null || closed) return;
    loading = true;
    try {
      model.append(await read(query('/v1/threads', parameters({ limit: PAGE, cursor: model.next })), abort.signal));
      list.grow(model.rows.length);
      counted();
    } catch (problem) {
      if (problem.name !== 'AbortError') notice(problem.message, 'bad');
      model.next = problem.name === 'AbortError' ? model.next : null;
    }
    loading = false;
    list.draw_soon();
  }

  function drawn() {
    list.refresh(model.rows.length);
    counted();
    empty.hidden = model.rows.length > 0;
    if (model.rows.length === 0) {
      const { status: statuses, workflow: name, search: values } = app.route;
      const filtered = Boolean(statuses || name || values);
      fill(empty, filtered ? 'No thread is like that.' : 'There is no thread yet: start one here, or with ',
        !filtered && h('code', {}, 'rethread run FILE'));
    }
  }

  function counted() {
    say(total, `${count(model.rows.length)}${model.next === null ? '' : ' and more'}`);
  }

  function row(i) {
    const thread = model.rows[i];
    const { usage } = thread;
    const asked = app.inbox.open.find((question) => question.thread_id === thread.thread_id);
    const at = asked ? `asks: ${line(asked.prompt ?? asked.tool_call?.name, 90)}` : line(thread.node ?? '', 90);
    const href = address({ view: 'thread', id: thread.thread_id, tab: 'timeline' });
    return h('div.thread-row', {},
      h('span', {}, h('span.pill', { 'data-status': thread.status }, thread.status)),
      h('span.name', {}, h('a', { href, tabindex: '-1' }, line(thread.workflow ?? '(no workflow)', 60)),
        thread.forked_from && h('span.tag', { title: `forked from ${thread.forked_from.thread_id}` }, 'fork'),
        thread.branch_of && h('span.tag', {}, `branch ${thread.branch_of.index}`)),
      h('span.at', { title: at }, at),
      h('span.age', { title: clock(thread.started_at, app.now()) }, age(thread.started_at, app.now())),
      h('span.number', {}, tokens(usage?.total_tokens)),
      h('span.number', {}, cost(usage?.cost_nanousd)),
      h('span.id', { title: thread.thread_id }, short(thread.thread_id)));
  }

  function open(i, event) {
    const route = { view: 'thread', id: model.rows[i].thread_id, tab: 'timeline' };
    if (event?.ctrlKey || event?.metaKey) globalThis.open(address(route));
    else app.go(route);
  }

  // Tokens and the present node cost a look into each thread: only for those in sight, and when they changed.
  function in_sight(first, end) {
    if (end >= model.rows.length - 30) more();
    wanted = model.rows.slice(first, end).filter((thread) => thread.usage === undefined || stale.has(thread.thread_id)).map((thread) => thread.thread_id);
    while (looking < LOOKS_MAX && wanted.length > 0) look(wanted.shift());
  }

  const again = throttled(() => list.refresh(model.rows.length), 150);

  async function look(id) {
    looking += 1;
    stale.delete(id);
    try {
      const thread = await read(`/v1/threads/${id}`, abort.signal);
      const { status: statuses } = app.route;
      if (statuses && !statuses.split(',').includes(thread.status)) model.remove(id);
      else model.update({ usage: null, ...thread });
    } catch (problem) {
      if (problem.status === 404) model.remove(id);
      else model.update({ thread_id: id, usage: null });
    }
    looking -= 1;
    if (closed) return;
    again();
    if (wanted.length > 0) look(wanted.shift());
  }

  const newest = throttled(async () => {
    try {
      model.newest(await read(query('/v1/threads', parameters({ limit: FIRST })), abort.signal));
      if (!closed) drawn();
    } catch {
      // The connection says that something is wrong; the next event tries again.
    }
  }, 700);

  const unhear = app.hear((events) => {
    let fresh = false;
    for (const { thread_id: id, type } of events) {
      if (model.place(id) >= 0) stale.add(id);
      fresh ||= type === 'THREAD_STARTED' || type === 'THREAD_FORKED' || (app.route.status !== '' && model.place(id) < 0);
    }
    if (fresh) newest();
    list.draw_soon();
  });
  const unwatch = app.inbox.watch(again);
  const ages = setInterval(again, 10_000);

  function copy() {
    commands('As a command', [['This list', command.list(app.route)]]);
  }

  function update(now) {
    status.value = now.status;
    workflow.value = now.workflow;
    search.value = now.search;
    branches.checked = now.branches;
    load();
  }

  if (!app.is_bound()) read('/v1/workflows').then(({ workflows }) => fill(known, workflows.map(({ name }) => h('option', { value: name }))), () => {});
  update(route);
  return {
    element,
    update,
    focus: () => list.element.focus(),
    key(event) {
      if (event.key === 'n' && app.can('operate')) start_dialog(app);
      else if (event.key === 'c') copy();
      else return false;
      return true;
    },
    close() {
      closed = true;
      abort.abort();
      unhear();
      unwatch();
      clearInterval(ages);
      again.cancel();
      newest.cancel();
      list.close();
    },
  };
}
