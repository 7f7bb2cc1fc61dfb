// The workflow as a graph: where the thread is, and the way that it took.

import { fill, h, s, throttled } from './dom.mjs';
import { layout } from './layout.mjs';
import { count, line } from './format.mjs';

const CHAR = 7.2;
const LINE = 16;
const WIDTH_MAX = 300;
// Room on the right for arrows that lead back up.
const LANE = 18;
const VISITS = 200;

export function graph_tab(app, model, { move }) {
  let [closed, at, wanted, revealed] = [false, null, 0, null];
  const picture = h('div.picture', { tabindex: '0', role: 'region', 'aria-label': 'Graph of the workflow' });
  const path = h('ol.path');
  const element = h('div.split.graph', {}, picture, h('nav.detail', { 'aria-label': 'The way so far' }, h('h2', {}, 'The way so far'), path));

  async function draw() {
    const turn = (wanted += 1);
    try {
      const [graph, present] = await Promise.all([model.graph(at), at === null ? null : model.graph(null)]);
      if (closed || turn !== wanted) return;
      const later = new Map((present?.parts ?? []).flatMap((part) => part.nodes).map((node) => [node.number, node.visits]));
      fill(picture, graph.parts.map((part) => part_element(part, later, graph)));
      way(graph, present);
      reveal();
    } catch (problem) {
      if (!closed && turn === wanted && problem.name !== 'AbortError') fill(picture, h('p.fault', {}, problem.message));
    }
  }

  // Brings the node that the thread is in into sight, when it came to be that one.
  function reveal() {
    const here = picture.querySelector('.current');
    const name = here?.getAttribute('aria-label') ?? null;
    if (here && name !== revealed) {
      const [node, frame] = [here.getBoundingClientRect(), picture.getBoundingClientRect()];
      if (node.bottom > frame.bottom || node.top < frame.top) picture.scrollTop += node.top - frame.top - frame.height / 3;
    }
    revealed = name;
  }

  function way(graph, present) {
    const visits = (present ?? graph).path;
    const dropped = (present ?? graph).path_dropped + Math.max(0, visits.length - VISITS);
    fill(path, dropped > 0 && h('li.quiet', {}, `${count(dropped)} before`),
      visits.slice(-VISITS).map((visit) => h('li', {}, h(`button.link${visit.seq > graph.seq ? '.future' : ''}`, { type: 'button', title: `To event ${visit.seq}`, onclick: () => move(visit.seq) },
        `${line(visit.node, 60)}${visit.attempt > 1 ? `, try ${visit.attempt}` : ''}`))));
  }

  function part_element(part, later, graph) {
    const nodes = part.nodes.map((node) => {
      const lines = node.lines.map((text) => line(text, 40));
      const longest = Math.max(4, ...lines.map((text) => text.length), node.kind.length + 4);
      return { ...node, lines, width: Math.min(WIDTH_MAX, longest * CHAR + 24), height: lines.length * LINE + 26 };
    });
    const { width, height, places, back } = layout(nodes, part.arrows);
    const sides = [...back].length;
    const pad = 16;
    const whole = [width + pad * 2 + sides * LANE + 60, height + pad * 2];
    const sizes = new Map(nodes.map((node) => [node.number, node]));
    let lane = 0;
    const arrows = part.arrows.filter((arrow) => places.has(arrow.from) && places.has(arrow.to)).map((arrow) => {
      const [a, b] = [places.get(arrow.from), places.get(arrow.to)];
      const [from, to] = [sizes.get(arrow.from), sizes.get(arrow.to)];
      let [d, label] = ['', { x: 0, y: 0 }];
      if (back.has(arrow) || arrow.from === arrow.to) {
        lane += 1;
        const x = width + lane * LANE;
        d = `M${a.x + from.width / 2},${a.y} C${x},${a.y} ${x},${a.y} ${x},${a.y - 20} L${x},${b.y + 20} C${x},${b.y} ${x},${b.y} ${b.x + to.width / 2 + 5},${b.y}`;
        if (Math.abs(a.y - b.y) < 50) d = `M${a.x + from.width / 2},${a.y + 6} C${x},${a.y + 14} ${x},${b.y - 14} ${b.x + to.width / 2 + 5},${b.y - 6}`;
        label = { x: x + 4, y: (a.y + b.y) / 2 };
      } else {
        const [top, bottom] = [a.y + from.height / 2, b.y - to.height / 2 - 5];
        const bend = Math.max(20, (bottom - top) / 2);
        d = `M${a.x},${top} C${a.x},${top + bend} ${b.x},${bottom - bend} ${b.x},${bottom}`;
        label = { x: (a.x + b.x) / 2 + 6, y: (top + bottom) / 2 + 4 };
      }
      return s(`g.arrow.${arrow.kind}${arrow.taken > 0 ? '.taken' : ''}`, {},
        s('path', { d, 'marker-end': arrow.taken > 0 ? 'url(#tip-taken)' : 'url(#tip)' }),
        arrow.label && s('text', label, line(arrow.label, 28), s('title', {}, arrow.label)));
    });
    const boxes = nodes.map((node) => {
      const { x, y } = places.get(node.number);
      const ahead = node.visits === 0 && (later.get(node.number) ?? 0) > 0;
      const failed = node.outcome === 'failed';
      const mark = node.is_current ? '.current' : failed ? '.failed' : node.visits > 0 ? '.visited' : ahead ? '.future' : '.untouched';
      const visits = node.visits > 1 ? ` ×${count(node.visits)}` : '';
      const said = `${node.id ?? node.kind}, ${node.kind}${node.is_current ? ', the thread is here' : ''}${failed ? ', failed' : ''}, entered ${node.visits} times`;
      return s(`g.node${mark}`, { transform: `translate(${x - node.width / 2},${y - node.height / 2})`, 'data-kind': node.kind, role: 'img', 'aria-label': said },
        s('title', {}, said),
        s('rect', { width: node.width, height: node.height, rx: ['entry', 'start', 'end'].includes(node.kind) ? node.height / 2 : 6 }),
        s('text.kind', { x: 10, y: 16 }, `${node.kind.replace('_', ' ')}${visits}${failed ? ', failed' : ''}`),
        node.lines.map((text, i) => s(`text${i === 0 ? '.first' : ''}`, { x: 10, y: 32 + i * LINE }, text)));
    });
    const into = graph.arrows.filter((arrow) => sizes.has(arrow.to));
    return h('figure', {},
      part.name && h('figcaption', {}, `sub-workflow ${part.name}${into.length > 1 ? `, used ${into.length} times` : ''}`),
      s('svg', { viewBox: `${-pad} ${-pad} ${whole[0]} ${whole[1]}`, width: whole[0], height: whole[1], role: 'group', 'aria-label': part.name ?? 'workflow' },
        s('defs', {}, ['tip', 'tip-taken'].map((id) => s('marker', { id, viewBox: '0 0 8 8', refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, s(`path.${id}`, { d: 'M0,0 L8,4 L0,8 z' })))),
        arrows, boxes));
  }

  const soon = throttled(draw, 500);
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
