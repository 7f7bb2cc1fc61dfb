// One thread: what it is, the moment that is looked at, and the ways to look.

import { fill, h, notice, say, throttled } from './dom.mjs';
import { send } from './api.mjs';
import { TABS, address } from './route.mjs';
import { clock, cost, count, duration, line, millis, short, tokens } from './format.mjs';
import { ThreadModel } from './thread_model.mjs';
import { commands, form_dialog, command as shown_command } from './dialog.mjs';
import { fork_dialog } from './fork_dialog.mjs';
import { question_card } from './question.mjs';
import { describe } from './describe.mjs';
import * as command from './commands.mjs';
import { timeline_tab } from './timeline_tab.mjs';
import { events_tab } from './events_tab.mjs';
import { graph_tab } from './graph_tab.mjs';
import { state_tab } from './state_tab.mjs';
import { messages_tab } from './messages_tab.mjs';

const MAKE = { timeline: timeline_tab, events: events_tab, graph: graph_tab, state: state_tab, messages: messages_tab };
const NAMES = { timeline: 'Timeline', events: 'Events', graph: 'Graph', state: 'State', messages: 'Messages' };

export function thread_view(app, route) {
  let [closed, at, tab, name, asked] = [false, route.at, null, null, 0];
  let was_ended = null;
  const cards = new Map();
  const model = new ThreadModel(route.id, heard);

  const title = h('h1', {}, short(route.id));
  const facts = h('p.facts');
  const fault = h('div.banner.bad', { hidden: true });
  const asks = h('div.asks');
  const pause = h('button.operate', { type: 'button', onclick: toggle_pause });
  const cancel = h('button.operate', { type: 'button', onclick: cancel_dialog }, 'Cancel…');
  const fork = h('button.operate', { type: 'button', title: 'Fork from here (f)', onclick: () => fork_dialog(app, model, marked()) }, 'Fork from here…');
  const slider = h('input', { type: 'range', min: 0, max: 0, step: 1, 'aria-label': 'The moment that is shown, as the number of an event', oninput: slide });
  const where = h('output.where', { 'aria-live': 'polite' });
  const what = h('span.what');
  const step = (label, text, by) => h('button', { type: 'button', 'aria-label': label, title: label, onclick: by }, text);
  const present = h('button', { type: 'button', title: 'To the present (})', onclick: () => move(null) }, 'Now');
  const tabs = h('div.tabs', { role: 'tablist', 'aria-label': 'Ways to look' }, TABS.map((id, i) => h('a', {
    role: 'tab', id: `tab-${id}`, 'aria-controls': 'panel', title: `${NAMES[id]} (${i + 1})`,
    onkeydown: arrows,
  }, NAMES[id])));
  const panel = h('div.panel', { role: 'tabpanel', id: 'panel' });
  const element = h('section.view.thread', { 'aria-label': 'Thread' },
    h('div.bar', {}, title, facts, h('span.grow'), pause, cancel, fork,
      h('button', { type: 'button', title: 'Copy as command (c)', onclick: copy }, 'Command')),
    fault, asks,
    h('div.moment', { role: 'group', 'aria-label': 'Moment' },
      step('To the first event ({)', '|◀', () => move(0)), step('Step back ([)', '◀', () => move((at ?? model.last) - 1)),
      slider, step('Step forth (])', '▶', () => move((at ?? model.last) + 1)), present, where, what),
    tabs, panel);

  // The event that is marked in the list of events, or the moment that is shown.
  const marked = () => (app.route.tab === 'events' && app.route.seq !== null ? app.route.seq : at);

  function arrows(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = TABS[(TABS.indexOf(app.route.tab) + by + TABS.length) % TABS.length];
    app.go({ ...app.route, tab: next, seq: null });
    document.getElementById(`tab-${next}`).focus();
    event.preventDefault();
  }

  async function open() {
    try {
      await model.open();
    } catch (problem) {
      if (closed || problem.name === 'AbortError') return;
      const text = problem.status === 404 ? `There is no thread ${route.id} in this log.` : problem.message;
      fill(element, h('p.empty', {}, text, ' ', h('a', { href: '#/threads' }, 'All threads')));
      return;
    }
    if (closed) return;
    drawn();
    show(app.route);
    if (document.activeElement === document.body) document.getElementById(`tab-${name}`).focus({ preventScroll: true });
  }

  function drawn() {
    const { summary } = model;
    const { usage } = summary;
    const span = (model.ended ? millis(summary.last_at) : app.now()) - millis(summary.started_at);
    say(title, line(summary.workflow ?? '(no workflow)', 80));
    const link = (id, text, more = {}) => h('a', { href: address({ view: 'thread', id, tab: 'timeline', ...more }) }, text);
    fill(facts,
      h('span.pill', { 'data-status': summary.status }, summary.status),
      h('span', { title: clock(summary.started_at, app.now()) }, duration(span)),
      usage && h('span', { title: `${count(usage.input_tokens)} in${usage.cached_input_tokens > 0 ? ` (${count(usage.cached_input_tokens)} from the provider’s cache)` : ''}, ${count(usage.output_tokens)} out` }, `${tokens(usage.total_tokens)} tokens`),
      usage && cost(usage.cost_nanousd) && h('span', {}, cost(usage.cost_nanousd)),
      summary.node && !model.ended && h('span', {}, `in ${line(summary.node, 60)}`),
      summary.hook && h('span', {}, `hook ${summary.hook}`),
      summary.forked_from && h('span', {}, 'forked from ', link(summary.forked_from.thread_id, `${short(summary.forked_from.thread_id)} at ${summary.forked_from.seq}`, { at: summary.forked_from.seq })),
      summary.branch_of && h('span', {}, `branch ${summary.branch_of.index} of `, link(summary.branch_of.thread_id, short(summary.branch_of.thread_id))),
      h('span.id', { title: 'The thread’s id' }, route.id));
    const may = app.can('operate');
    pause.hidden = cancel.hidden = !may || model.ended;
    fork.hidden = !may;
    say(pause, summary.status === 'paused' ? 'Resume' : 'Pause');
    pause.title = `${pause.textContent} (p)`;
    slider.max = model.last;
    if (at === null) slider.value = model.last;
    if (model.ended !== was_ended) questions();
    tab?.drawn?.();
    was_ended = model.ended;
    if (summary.status === 'error') failed();
    else fault.hidden = true;
  }

  async function failed() {
    try {
      const { error } = await model.state(null);
      if (!error || closed) return;
      fill(fault, h('strong', {}, `Failed: ${error.kind}. `), line(error.message, 600), error.source && h('div.quiet', {}, line(error.source, 600)));
      fault.hidden = false;
    } catch {
      fault.hidden = true;
    }
  }

  // Its own and those of its branches. A question that somebody is answering here keeps its card and what was typed.
  async function questions() {
    let open = [];
    const turn = (asked += 1);
    if (!model.ended && app.inbox.open.length > 0) {
      try {
        ({ interactions: open } = await model.read(`${model.path}/interactions`));
      } catch {
        return;
      }
    }
    if (closed || turn !== asked) return;
    for (const [id, card] of cards) {
      if (open.some((question) => question.id === id)) continue;
      card.gone();
      cards.delete(id);
    }
    for (const question of open) {
      if (cards.has(question.id)) continue;
      const card = question_card(app, question, route.id);
      cards.set(question.id, card);
      asks.append(card.element);
    }
  }

  function show(now) {
    at = now.at !== null && now.at < model.last ? now.at : null;
    slider.value = at ?? model.last;
    moment();
    for (const id of TABS) {
      const link = document.getElementById(`tab-${id}`);
      link.setAttribute('aria-selected', String(id === now.tab));
      link.tabIndex = id === now.tab ? 0 : -1;
      link.href = address({ ...now, tab: id, seq: null });
    }
    panel.setAttribute('aria-labelledby', `tab-${now.tab}`);
    if (name !== now.tab) {
      tab?.close();
      name = now.tab;
      tab = MAKE[name](app, model, { move });
      fill(panel, tab.element);
    }
    tab.show(at, now);
  }

  function moment() {
    const seq = at ?? model.last;
    say(where, at === null ? `now, event ${count(seq)}` : `event ${count(at)} of ${count(model.last)}`);
    element.classList.toggle('past', at !== null);
    present.disabled = at === null;
    const describe_it = (event) => {
      if (!closed && event && seq === (at ?? model.last)) say(what, line(`${event.type} ${describe(event)}`, 120));
    };
    const known = model.known(seq);
    if (known) describe_it(known);
    else if (at === null) say(what, '');
    else model.event(seq).then(describe_it, () => {});
  }

  function move(seq) {
    const to = seq === null || seq >= model.last ? null : Math.max(0, seq);
    app.go({ ...app.route, at: to }, { replace: true });
  }

  const slid = throttled(() => move(Number(slider.value)), 60);
  function slide() {
    const seq = Number(slider.value);
    say(where, seq >= model.last ? `now, event ${count(seq)}` : `event ${count(seq)} of ${count(model.last)}`);
    slid();
  }

  const again = throttled(async () => {
    try {
      await model.refresh();
    } catch {
      return;
    }
    if (!closed) drawn();
  }, 400);

  function heard(events) {
    if (closed) return;
    slider.max = model.last;
    if (at === null) {
      slider.value = model.last;
      moment();
    } else {
      say(where, `event ${count(at)} of ${count(model.last)}`);
    }
    tab?.heard?.(events);
    if (events.some((event) => !model.streamed_only(event)) || events.length === 0) again();
  }

  async function toggle_pause() {
    pause.disabled = true;
    try {
      await send(`${model.path}/${model.summary.status === 'paused' ? 'resume' : 'pause'}`);
      await model.refresh();
      drawn();
    } catch (problem) {
      notice(problem.message, 'bad');
    }
    pause.disabled = false;
  }

  function cancel_dialog() {
    const reason = h('input', { id: 'reason' });
    const shown = h('div', {}, shown_command(command.cancel(route.id)));
    reason.addEventListener('input', () => fill(shown, shown_command(command.cancel(route.id, reason.value))));
    form_dialog('Cancel this thread', 'End it', [
      h('p', {}, 'It ends with its branches, in good order: each open call gets its last event. This cannot be undone; a fork can go on from any moment of it.'),
      h('label', { for: 'reason' }, 'Reason, for whoever reads the log'), reason, shown,
    ], async () => {
      await send(`${model.path}/cancel`, reason.value ? { reason: reason.value } : {});
      await model.refresh();
      drawn();
    }, '.danger');
  }

  function copy() {
    const list = command.about(route.id, at);
    if (app.can('operate') && !model.ended) {
      list.push(model.summary?.status === 'paused' ? ['Go on', command.resume(route.id)] : ['Let it begin nothing new', command.pause(route.id)]);
      list.push(['End it', command.cancel(route.id)]);
    }
    commands('As commands', list);
  }

  // Another run may have been given to it elsewhere.
  const deaf = app.hear((events) => {
    if (model.summary && events.some((event) => event.thread_id === route.id && event.type === 'RUN_STARTED')) model.follow();
  });
  const unwatch = app.inbox.watch(() => model.summary && questions());
  const clockwork = setInterval(() => model.summary && !model.ended && drawn(), 5_000);
  open();
  return {
    element,
    update: (now) => model.summary && show(now),
    key(event) {
      if (event.key === '[') move((at ?? model.last) - 1);
      else if (event.key === ']') move((at ?? model.last) + 1);
      else if (event.key === '{') move(0);
      else if (event.key === '}') move(null);
      else if (event.key === 'c') copy();
      else if (event.key === 'f' && !fork.hidden) fork_dialog(app, model, marked());
      else if (event.key === 'p' && !pause.hidden) toggle_pause();
      else return tab?.key?.(event) ?? false;
      return true;
    },
    close() {
      closed = true;
      unwatch();
      deaf();
      clearInterval(clockwork);
      again.cancel();
      slid.cancel();
      tab?.close();
      model.close();
    },
  };
}
