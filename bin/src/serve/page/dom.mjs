// Elements. What comes from threads only ever becomes text, with visible marks for hidden characters: nothing here
// reads HTML.

import { marked } from './marks.mjs';

/** An element: `h('a.link', {href}, 'text', child, …)`. Names that begin with `on` are listeners. */
export function h(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length > 0) element.className = classes.join(' ');
  return filled(element, properties, children);
}

/** The same in SVG. */
export function s(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  if (classes.length > 0) element.setAttribute('class', classes.join(' '));
  return filled(element, properties, children);
}

// Attributes that people read, or hear.
const READ = new Set(['title', 'aria-label', 'placeholder', 'label']);

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'disabled') element[name] = value;
    else element.setAttribute(name, value === true ? '' : READ.has(name) ? marked(value) : String(value));
  }
  element.append(...flat(children));
  return element;
}

const flat = (children) => children.flat(Infinity)
  .filter((child) => child !== null && child !== undefined && child !== false)
  .map((child) => (child instanceof Node ? child : marked(child)));

/** Words for those who listen, which those who see have otherwise. */
export const unseen = (text) => h('span.unseen', {}, text);

/** Replaces all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Sets a text only where it is another one, so that nobody's selection is lost. */
export function say(element, text) {
  const shown = marked(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** Says something at the edge of the page for some seconds; a failure stays until it is closed. */
export function notice(text, kind = 'info') {
  const box = document.getElementById('notices');
  const close = h('button', { type: 'button', 'aria-label': 'Close', onclick: () => shown.remove() }, '×');
  const shown = h(`div.notice.${kind}`, kind === 'bad' ? { role: 'alert' } : {}, h('span', {}, text), close);
  box.append(shown);
  while (box.children.length > 4) box.firstChild.remove();
  if (kind !== 'bad') setTimeout(() => shown.remove(), 6_000);
}

/** Runs something no more than once in `ms`, the last time behind all calls. */
export function throttled(run, ms) {
  let [timer, last] = [null, 0];
  const now = () => {
    timer = null;
    last = Date.now();
    run();
  };
  const call = () => {
    timer ??= setTimeout(now, Math.max(0, last + ms - Date.now()));
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}
