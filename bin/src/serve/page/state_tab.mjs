// The state of a thread at a moment, and what led to it.

import { fill, h } from './dom.mjs';
import { diff } from './diff.mjs';
import { changes, tree } from './json_view.mjs';
import { command } from './dialog.mjs';
import { throttled } from './dom.mjs';
import * as commands from './commands.mjs';

const FIRST = ['status', 'node', 'variables', 'globals', 'scopes', 'pending', 'plan', 'output', 'error', 'usage'];

export function state_tab(app, model) {
  let [closed, at, wanted] = [false, null, 0];
  const against = h('input', { type: 'number', min: 0, id: 'against', placeholder: 'the event before', onchange: () => draw() });
  const changed = h('div.changed');
  const whole = h('div.whole');
  const copy = h('div');
  const element = h('div.columns', {},
    h('section', { 'aria-label': 'State' }, h('h2', {}, 'State'), whole, copy),
    h('section', { 'aria-label': 'Changes' }, h('div.bar.small', {}, h('h2', {}, 'Changes'), h('label', { for: 'against' }, 'since event'), against), changed));

  async function draw() {
    const turn = (wanted += 1);
    const seq = at ?? model.last;
    const from = against.value === '' ? seq - 1 : Math.min(Number(against.value), model.last);
    try {
      const [state, before] = await Promise.all([model.state(seq), from >= 0 ? model.state(from) : {}]);
      if (closed || turn !== wanted) return;
      const rest = Object.fromEntries(Object.entries(state).filter(([name]) => !FIRST.includes(name)));
      const top = Object.fromEntries(FIRST.filter((name) => state[name] !== null && state[name] !== undefined).map((name) => [name, state[name]]));
      fill(whole, tree(top, 2), h('details', {}, h('summary', {}, 'Everything else'), tree(rest)));
      fill(changed, changes(diff(before, state).filter(({ path }) => path !== '/seq' && path !== '/last_at')));
      fill(copy, command(commands.replay(model.id, at)));
    } catch (problem) {
      if (closed || turn !== wanted || problem.name === 'AbortError') return;
      fill(whole, h('p.fault', {}, problem.message));
    }
  }
  const soon = throttled(draw, 300);

  return {
    element,
    show(moment) {
      at = moment;
      draw();
    },
    heard(events) {
      if (at === null && events.some((event) => !model.streamed_only(event))) soon();
    },
    close() {
      closed = true;
      soon.cancel();
    },
  };
}
