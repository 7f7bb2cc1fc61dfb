// Dialogs: what a fork changes, commands, a reason, the keys.

import { h, notice, say } from './dom.mjs';

/** Shows a dialog; `close` takes it away. Escape closes it, and what had the focus gets it back. */
export function dialog(title, ...children) {
  const before = document.activeElement;
  const heading = h('h2', { id: 'dialog-title' }, title);
  const close = h('button.close', { type: 'button', 'aria-label': 'Close', onclick: () => element.close() }, '×');
  const element = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('header', {}, heading, close), ...children);
  element.addEventListener('close', () => {
    element.remove();
    before?.focus?.();
  });
  document.body.append(element);
  element.showModal();
  return element;
}

/** A form in a dialog. `submit` may throw: its message is shown and the dialog stays. */
export function form_dialog(title, label, fields, submit, kind = '') {
  const fault = h('p.fault', { role: 'alert', hidden: true });
  const button = h(`button.main${kind}`, { type: 'submit' }, label);
  const form = h('form', { method: 'dialog' }, ...fields, fault, h('footer', {}, button));
  const shown = dialog(title, form);
  form.querySelector('select, input, textarea, button')?.focus();
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    fault.hidden = true;
    button.disabled = true;
    try {
      await submit();
      shown.close();
    } catch (error) {
      say(fault, error.message);
      fault.hidden = false;
    }
    button.disabled = false;
  });
  return shown;
}

/** A command with a button that copies it. */
export function command(text) {
  const code = h('code', {}, text);
  const copy = h('button', { type: 'button', onclick: () => copied(text, code) }, 'Copy');
  return h('div.command', {}, code, copy);
}

/** Copies a text; where the browser forbids it, the text is marked so that a key does it. */
export async function copied(text, element = null) {
  try {
    await navigator.clipboard.writeText(text);
    notice('Copied.');
  } catch {
    if (element) getSelection().selectAllChildren(element);
    notice('The browser does not let this page copy: the text is marked, press Ctrl+C.');
  }
}

/** A list of commands, each with what it is for. */
export function commands(title, list) {
  return dialog(title, h('dl.commands', {}, list.map(([what, text]) => [h('dt', {}, what), h('dd', {}, command(text))])));
}
