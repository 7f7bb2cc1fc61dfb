// A server that wants a token gets it here.

import { fill, h, say } from './dom.mjs';
import { request } from './api.mjs';
import { keep } from './token.mjs';

export function sign_in(main, done) {
  const token = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const fault = h('p.fault', { role: 'alert', hidden: true });
  const form = h('form.sign-in', {},
    h('h1', {}, 'Sign in'),
    h('p', {}, 'This server wants a token: the one in the address that it printed when it started, or one that was made on its machine:'),
    h('p', {}, h('code', {}, 'rethread token create --scope operate')),
    h('label', { for: 'token' }, 'Token'), token, fault,
    h('button.main', { type: 'submit' }, 'Sign in'));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    fault.hidden = true;
    try {
      const given = token.value.trim();
      await request('GET', '/v1/info', { token: given });
      keep(given);
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
