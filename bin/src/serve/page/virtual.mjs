// A list of any length that holds only the rows in sight, with one row that is the active one.

import { h } from './dom.mjs';
import { height, offset, range, scroll } from './window.mjs';

let lists = 0;

export class VirtualList {
  #rows = new Map();
  #frame = null;

  /**
   * `row` is the height of a row; `render(i)` gives its element; `onOpen(i)` is Enter or a click; `onRange(first, end)`
   * says what is in sight, `onActive(i)` which row was moved to.
   */
  constructor({ row, label, render, onOpen = () => {}, onRange = () => {}, onActive = () => {} }) {
    Object.assign(this, { row, render, onOpen, onRange, onActive, n: 0, active: -1 });
    this.id = `list-${(lists += 1)}`;
    this.space = h('div.space', { role: 'rowgroup' });
    this.element = h('div.virtual', { role: 'grid', tabindex: '0', 'aria-label': label, id: this.id }, this.space);
    this.element.addEventListener('scroll', () => this.draw_soon(), { passive: true });
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.element.addEventListener('click', (event) => this.#click(event));
    this.watch = new ResizeObserver(() => this.draw_soon());
    this.watch.observe(this.element);
  }

  close() {
    this.watch.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** Sets how many rows there are, and draws all that are in sight anew. */
  refresh(n = this.n) {
    this.n = n;
    this.active = Math.min(this.active, n - 1);
    this.space.style.height = `${height(n, this.row)}px`;
    for (const element of this.#rows.values()) element.remove();
    this.#rows.clear();
    this.draw_soon();
  }

  /** Rows came at the end: those that are there stay. */
  grow(n) {
    this.n = n;
    this.space.style.height = `${height(n, this.row)}px`;
    this.draw_soon();
  }

  refresh_row(i) {
    this.#rows.get(i)?.remove();
    if (this.#rows.delete(i)) this.draw_soon();
  }

  get top() {
    return offset(this.element.scrollTop, this.n, this.row, this.element.clientHeight);
  }

  get at_end() {
    return this.top + this.element.clientHeight >= this.n * this.row - this.row;
  }

  /** Brings a row into sight, in the middle unless it is there already. */
  reveal(i) {
    const sight = this.element.clientHeight;
    const [top, from] = [this.top, i * this.row];
    if (from >= top && from + this.row <= top + sight) return;
    const wanted = Math.max(0, Math.min(from - (sight - this.row) / 2, this.n * this.row - sight));
    this.element.scrollTop = scroll(wanted, this.n, this.row, sight);
    this.draw_soon();
  }

  activate(i, { reveal = true, tell = true } = {}) {
    const now = Math.max(-1, Math.min(i, this.n - 1));
    const before = this.active;
    this.active = now;
    if (now >= 0 && reveal) this.reveal(now);
    for (const index of [before, now]) this.#mark(index);
    if (now >= 0) this.element.setAttribute('aria-activedescendant', `${this.id}-${now}`);
    else this.element.removeAttribute('aria-activedescendant');
    if (tell && now >= 0 && now !== before) this.onActive(now);
  }

  #mark(i) {
    const element = this.#rows.get(i);
    element?.classList.toggle('active', i === this.active);
    element?.setAttribute('aria-selected', String(i === this.active));
  }

  draw_soon() {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = null;
      this.draw();
    });
  }

  draw() {
    const sight = this.element.clientHeight;
    if (sight === 0) return;
    const top = this.top;
    const { first, end } = range(top, this.n, this.row, sight);
    for (const [i, element] of this.#rows) {
      if (i < first || i >= end) {
        element.remove();
        this.#rows.delete(i);
      }
    }
    for (let i = first; i < end; i += 1) {
      let element = this.#rows.get(i);
      if (!element) {
        element = this.render(i);
        element.classList.add('row');
        element.id = `${this.id}-${i}`;
        element.dataset.index = i;
        // A row of a grid may hold links; what is said of it is what is in it.
        element.setAttribute('role', 'row');
        element.setAttribute('aria-rowindex', i + 1);
        for (const cell of element.children) cell.setAttribute('role', 'gridcell');
        this.#rows.set(i, element);
        this.space.append(element);
        this.#mark(i);
      }
      element.style.transform = `translateY(${i * this.row - top + this.element.scrollTop}px)`;
    }
    this.element.setAttribute('aria-rowcount', this.n);
    this.onRange(first, end);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.row) - 1);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      const from = this.active < 0 && moves[event.key] > 0 ? -1 : this.active;
      this.activate(Math.max(0, Math.min(this.n - 1, from + moves[event.key])));
    } else if (event.key === 'Enter' && this.active >= 0) {
      this.onOpen(this.active, event);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #click(event) {
    const row = event.target.closest('.row');
    if (!row || event.target.closest('a, button')) return;
    const i = Number(row.dataset.index);
    this.activate(i, { reveal: false });
    this.onOpen(i, event);
  }
}
