// A server that wants a token gets it here, and keeps it in a cookie that no script can read.

import { fill, h, say } from './dom.mjs';
import { send } from './api.mjs';

export function sign_in(main, done) {
  const token = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const fault = h('p.fault', { role: 'alert', hidden: true });
  const form = h('form.sign-in', {},
    h('h1', {}, 'Sign in'),
    h('p', {}, 'This server wants a token. Make one on its machine:'),
    h('p', {}, h('code', {}, 'rethread token create --scope operate')),
    h('label', { for: 'token' }, 'Token'), token, fault,
    h('button.main', { type: 'submit' }, 'Sign in'));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    fault.hidden = true;
    try {
      await send('/v1/session', { token: token.value });
      token.value = '';
      done();
    } catch (problem) {
      say(fault, problem.message);
      fault.hidden = false;
      token.focus();
    }
  });
  fill(main, form);
  token.focus();
}
