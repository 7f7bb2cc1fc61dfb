// Bars over time: nodes, calls, branches, waits.

import { fill, h, say, throttled, unseen } from './dom.mjs';
import { query } from './api.mjs';
import { address } from './route.mjs';
import { clock, count, duration, millis } from './format.mjs';
import { TYPES, Timeline, events_of, squeezed, ticks, words_place } from './timeline.mjs';
import { VirtualList } from './virtual.mjs';

// So many of the last events are folded at first; a button goes further back.
const BACK = 20_000;
const PAGE = 5_000;
// Branches that are opened without being asked for.
const OPENED_MAX = 8;
const CHILD_EVENTS_MAX = 10_000;
// As long a wait is drawn at most, as a part of everything that is drawn, when waits are shortened.
const WAIT_PART = 1 / 20;

export function timeline_tab(app, model) {
  let [closed, at, atTime, from, loaded] = [false, null, null, 0, false];
  let timeline = new Timeline();
  let bars = [];
  let scale = { to: () => 0, from: () => 0, length: 1 };
  let view = null;
  let held = [];
  const children = new Map();

  const axis = h('div.axis', { 'aria-hidden': 'true' });
  const shorten = h('input', { type: 'checkbox', id: 'shorten', checked: true, onchange: () => { view = null; drawn(); } });
  const earlier = h('button', { type: 'button', hidden: true, onclick: () => load(Math.max(0, from - BACK)) }, 'Earlier events');
  const total = h('span.quiet', { role: 'status' });
  const button = (label, text, run) => h('button', { type: 'button', title: label, 'aria-label': label, onclick: run }, text);
  const list = new VirtualList({ row: 26, label: 'Timeline', render: row, onOpen: open });
  list.element.classList.add('bars');
  const element = h('div.timeline', {},
    h('div.bar.small', {}, earlier,
      button('Zoom out (-)', '−', () => zoom(2)), button('Zoom in (+)', '+', () => zoom(0.5)), button('Fit all of it (0)', 'Fit', () => zoom(null)),
      h('label.check', { for: 'shorten' }, shorten, 'shorten waits'),
      h('span.legend', { 'aria-hidden': 'true' }, ['node', 'llm', 'tool', 'branch', 'wait'].map((kind) => h('span', { 'data-kind': kind }, { llm: 'model', wait: 'person, pause' }[kind] ?? kind))),
      h('span.grow'), total),
    axis, list.element);
  list.element.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const track = list.element.querySelector('.track')?.getBoundingClientRect();
    const middle = track ? Math.min(1, Math.max(0, (event.clientX - track.left) / track.width)) : 0.5;
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, middle);
    else pan(Math.sign(event.deltaY + event.deltaX) * 0.1);
  }, { passive: false });

  async function load(first) {
    loaded = false;
    const fresh = new Timeline();
    let next = first;
    try {
      while (next !== null && !closed) {
        const page = await model.read(query(`${model.path}/events`, { from_seq: next, types: TYPES.join(','), limit: PAGE }));
        for (const event of page.events) fresh.add(event);
        next = page.next;
        timeline = fresh;
        from = first;
        drawn();
      }
    } catch (problem) {
      if (!closed && problem.name !== 'AbortError') fill(axis, h('p.fault', {}, problem.message));
      return;
    }
    loaded = true;
    for (const event of held) fresh.add(event);
    held = [];
    for (const bar of fresh.bars.filter((one) => one.child).slice(-OPENED_MAX)) branch(bar);
    drawn();
  }

  // The bars of a branch, which are events of a thread of its own.
  async function branch(bar) {
    let child = children.get(bar.child);
    if (!child) {
      child = { timeline: new Timeline({ depth: bar.depth + 1, thread: bar.child }), next: bar.fork + 1, busy: false, left: CHILD_EVENTS_MAX };
      children.set(bar.child, child);
    }
    if (child.busy || child.timeline.ended) return;
    child.busy = true;
    try {
      for (;;) {
        const page = await model.read(query(`/v1/threads/${bar.child}/events`, { from_seq: child.next, types: TYPES.join(','), limit: PAGE }));
        for (const event of page.events) {
          child.next = event.seq + 1;
          child.left -= 1;
          if (event.thread_id === bar.child) child.timeline.add(event);
        }
        if (page.next === null || child.left <= 0) break;
        child.next = page.next;
      }
    } catch {
      // A branch that has not begun has no events: its bar says that it is open.
    }
    child.busy = false;
    if (!closed) drawn();
  }

  function flat(own) {
    return own.flatMap((bar) => {
      const inside = bar.child && children.get(bar.child)?.timeline.bars;
      return inside ? [bar, ...flat(inside)] : [bar];
    });
  }

  function drawn() {
    if (closed) return;
    bars = flat(timeline.bars);
    earlier.hidden = from === 0;
    say(total, `${count(bars.length)} bars${from > 0 ? ` since event ${count(from)}` : ''}`);
    const start = Math.min(...bars.map((bar) => bar.start), timeline.start ?? Infinity);
    if (!Number.isFinite(start)) {
      fill(axis, loaded ? h('span.quiet', {}, 'Nothing ran yet.') : '');
      list.refresh(0);
      return;
    }
    const last = Math.max(...bars.map((bar) => bar.end ?? bar.start), timeline.last);
    const end = timeline.ended ? last : Math.max(last, app.now());
    const whole = squeezed(bars, start, end, 0).length;
    scale = squeezed(bars, start, end, shorten.checked ? Math.max(whole * WAIT_PART, 0.5) : Infinity);
    scale.start = start;
    scale.end = end;
    const shown = view ?? { from: 0, to: Math.max(scale.length, 0.001) };
    fill(axis, h('span.corner'), h('div.track', {}, ticks(shown.to - shown.from).map((tick) => {
      const mark = h('span.tick', {}, duration(scale.from(shown.from + tick) - start));
      mark.style.left = `${(tick / (shown.to - shown.from)) * 100}%`;
      return mark;
    }), moment_line(shown)));
    list.refresh(bars.length);
  }

  const percent = (time, shown) => ((scale.to(time) - shown.from) / (shown.to - shown.from)) * 100;

  function moment_line(shown) {
    if (atTime === null) return null;
    const line = h('span.moment-line');
    line.style.left = `${Math.min(100, Math.max(0, percent(atTime, shown)))}%`;
    return line;
  }

  function row(i) {
    const bar = bars[i];
    const shown = view ?? { from: 0, to: Math.max(scale.length, 0.001) };
    const future = atTime !== null && (bar.start > atTime || (bar.start === atTime && !bar.thread && bar.seq > at));
    const end = bar.end ?? scale.end;
    const [left, right] = [percent(bar.start, shown), percent(end, shown)];
    const length = duration(end - bar.start);
    const piece = h(`span.piece.${bar.status}`, { 'data-kind': bar.kind });
    piece.style.left = `${Math.max(-1, left)}%`;
    piece.style.width = `${Math.max(0, Math.min(101, right) - Math.max(-1, left))}%`;
    if (right < 0 || left > 100) piece.hidden = true;
    const open_at = !future && atTime !== null && end > atTime;
    const veil = open_at && h('span.veil');
    if (veil) veil.style.left = `${Math.max(0, percent(atTime, shown))}%`;
    const marks = bar.marks.map((mark) => {
      const tick = h('span.retry', { title: mark.text });
      tick.style.left = `${percent(mark.at, shown)}%`;
      return tick;
    });
    const place = words_place(left, right);
    const words = h(`span.words.${place.side}`, {}, bar.kind === 'mark' ? '' : bar.status === 'open' ? `${length}, open` : length, bar.note && ` ${bar.note}`);
    words.style[place.side === 'before' ? 'right' : 'left'] = `${place.at}%`;
    if (right < 0 || left > 100) words.hidden = true;
    const name = h('span.label', {}, bar.child ? h('a', { href: address({ view: 'thread', id: bar.child, tab: 'timeline' }), tabindex: '-1' }, bar.label) : bar.label);
    name.style.paddingLeft = `${bar.depth * 12 + 6}px`;
    const more = unseen(`, ${bar.kind}, ${bar.status}${future ? ', later than the moment shown' : ''}`);
    return h(`div.bar-row${future ? '.future' : ''}`, { title: `${bar.label}\n${clock(bar.start, app.now())}, ${length}, ${bar.status}\n${bar.note}` },
      name, h('div.track', {}, piece, veil, marks, words, more));
  }

  function open(i) {
    const bar = bars[i];
    if (bar.child && !children.has(bar.child)) branch(bar);
    else if (bar.child) {
      children.delete(bar.child);
      drawn();
    } else app.go(events_of(bar, app.route));
  }

  function zoom(factor, middle = 0.5) {
    if (factor === null) view = null;
    else {
      const now = view ?? { from: 0, to: scale.length };
      const length = Math.max((now.to - now.from) * factor, 0.001);
      const centre = now.from + (now.to - now.from) * middle;
      view = { from: centre - length * middle, to: centre + length * (1 - middle) };
      keep();
    }
    drawn();
  }

  function pan(by) {
    if (!view) return;
    const step = (view.to - view.from) * by;
    view = { from: view.from + step, to: view.to + step };
    keep();
    drawn();
  }

  // Never beyond what there is.
  function keep() {
    const length = view.to - view.from;
    if (length >= scale.length) view = null;
    else if (view.from < 0) view = { from: 0, to: length };
    else if (view.to > scale.length) view = { from: scale.length - length, to: scale.length };
  }

  const soon = throttled(drawn, 200);
  // What is open grows as time goes by, and branches have events of their own.
  const clockwork = setInterval(() => {
    if (!loaded || timeline.ended || document.hidden) return;
    for (const bar of flat(timeline.bars)) if (bar.status === 'open' && children.has(bar.child)) branch(bar);
    drawn();
  }, 1_500);

  load(Math.max(0, (app.route.at ?? model.last) - BACK));
  return {
    element,
    async show(moment) {
      at = moment;
      if (moment === null) {
        atTime = null;
        drawn();
        return;
      }
      try {
        const event = await model.event(moment);
        if (closed || at !== moment || !event) return;
        atTime = millis(event.time);
        drawn();
      } catch {
        // The moment is shown by its number, above.
      }
    },
    heard(events) {
      if (!loaded) held.push(...events);
      else for (const event of events) timeline.add(event);
      for (const bar of timeline.bars.slice(-OPENED_MAX)) if (bar.child && bar.status === 'open' && !children.has(bar.child) && children.size < OPENED_MAX) branch(bar);
      soon();
    },
    key(event) {
      const run = { '+': () => zoom(0.5), '-': () => zoom(2), 0: () => zoom(null), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2) }[event.key];
      run?.();
      return run !== undefined;
    },
    close() {
      closed = true;
      clearInterval(clockwork);
      soon.cancel();
      list.close();
    },
  };
}
