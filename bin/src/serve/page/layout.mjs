// Places for the nodes of a graph: in rows along the arrows, sorted within a row so that few arrows cross.

const SWEEPS = 6;

/**
 * Lays out `nodes` (`{number, width, height}`) and `arrows` (`{from, to}` by number). Gives `{width, height, places,
 * back}`: `places` maps a number to `{x, y}` of its centre, `back` holds the arrows that lead back up.
 */
export function layout(nodes, arrows, { gapX = 36, gapY = 48 } = {}) {
  const known = new Set(nodes.map((node) => node.number));
  const used = arrows.filter((arrow) => known.has(arrow.from) && known.has(arrow.to));
  const back = backward(nodes, used);
  const down = used.filter((arrow) => !back.has(arrow) && arrow.from !== arrow.to);
  const rows = ranked(nodes, down);
  sort(rows, down);
  return { ...placed(rows, gapX, gapY), back };
}

// Arrows that close a circle when the graph is walked from its first node.
function backward(nodes, arrows) {
  const out = new Map(nodes.map((node) => [node.number, []]));
  for (const arrow of arrows) out.get(arrow.from).push(arrow);
  const [back, state] = [new Set(), new Map()];
  for (const root of nodes) {
    if (state.has(root.number)) continue;
    // Without recursion: a workflow may have thousands of nodes in a row.
    const stack = [{ number: root.number, next: 0 }];
    state.set(root.number, 'open');
    while (stack.length > 0) {
      const top = stack.at(-1);
      const arrow = out.get(top.number)[top.next];
      top.next += 1;
      if (!arrow) {
        state.set(top.number, 'done');
        stack.pop();
      } else if (state.get(arrow.to) === 'open') {
        back.add(arrow);
      } else if (!state.has(arrow.to)) {
        state.set(arrow.to, 'open');
        stack.push({ number: arrow.to, next: 0 });
      }
    }
  }
  return back;
}

// Each node one row below the lowest that leads to it.
function ranked(nodes, down) {
  const [rank, left, out] = [new Map(), new Map(), new Map()];
  for (const { number } of nodes) {
    rank.set(number, 0);
    left.set(number, 0);
    out.set(number, []);
  }
  for (const { from, to } of down) {
    left.set(to, left.get(to) + 1);
    out.get(from).push(to);
  }
  const ready = nodes.map((node) => node.number).filter((number) => left.get(number) === 0);
  for (let i = 0; i < ready.length; i += 1) {
    for (const to of out.get(ready[i])) {
      rank.set(to, Math.max(rank.get(to), rank.get(ready[i]) + 1));
      left.set(to, left.get(to) - 1);
      if (left.get(to) === 0) ready.push(to);
    }
  }
  const rows = [];
  for (const node of nodes) (rows[rank.get(node.number)] ??= []).push(node);
  return rows.filter(Boolean);
}

// By the middle of the neighbours in the row above, then below, and again.
function sort(rows, down) {
  const [above, below] = [new Map(), new Map()];
  for (const { from, to } of down) {
    above.set(to, [...(above.get(to) ?? []), from]);
    below.set(from, [...(below.get(from) ?? []), to]);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const up = sweep % 2 === 1;
    const place = new Map();
    const note = () => rows.forEach((row) => row.forEach((node, i) => place.set(node.number, (i + 1) / (row.length + 1))));
    note();
    for (const row of up ? [...rows].reverse() : rows) {
      const weight = new Map();
      row.forEach((node, i) => {
        const near = (up ? below : above).get(node.number) ?? [];
        const sum = near.reduce((total, number) => total + place.get(number), 0);
        weight.set(node.number, near.length > 0 ? sum / near.length : (i + 1) / (row.length + 1));
      });
      row.sort((a, b) => weight.get(a.number) - weight.get(b.number));
      row.forEach((node, i) => place.set(node.number, (i + 1) / (row.length + 1)));
    }
  }
}

function placed(rows, gapX, gapY) {
  const lengths = rows.map((row) => row.reduce((sum, node) => sum + node.width + gapX, -gapX));
  const width = Math.max(0, ...lengths);
  const places = new Map();
  let y = 0;
  rows.forEach((row, i) => {
    const tall = Math.max(...row.map((node) => node.height));
    let x = (width - lengths[i]) / 2;
    for (const node of row) {
      places.set(node.number, { x: x + node.width / 2, y: y + tall / 2 });
      x += node.width + gapX;
    }
    y += tall + gapY;
  });
  return { width, height: Math.max(0, y - gapY), places };
}
