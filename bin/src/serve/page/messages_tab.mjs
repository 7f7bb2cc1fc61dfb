// The conversation, with what is being said right now, and a field to go on with it.

import { fill, h, say, throttled, unseen } from './dom.mjs';
import { once } from './api.mjs';
import { same } from './diff.mjs';
import { parts, with_future } from './conversation.mjs';
import { count } from './format.mjs';
import { long_text } from './json_view.mjs';
import { tree } from './json_view.mjs';

// So many of the last messages are shown at first.
const SHOWN = 200;

export function messages_tab(app, model) {
  let [closed, at, wanted, most, following] = [false, null, 0, SHOWN, true];
  const said = h('div.said');
  const now = h('div.now', { 'aria-live': 'polite', 'aria-busy': 'false' });
  const end = h('div.end');
  const messages = h('div.messages', { tabindex: '0', 'aria-label': 'Conversation', role: 'region' }, said, now, end);
  messages.addEventListener('scroll', () => {
    following = messages.scrollTop + messages.clientHeight > messages.scrollHeight - 40;
  }, { passive: true });
  const text = h('textarea', { rows: 2, 'aria-label': 'Message', placeholder: 'Message: Enter sends it, Shift and Enter begin a line' });
  const policy = h('select', { 'aria-label': 'While a run is in progress' },
    [['queue', 'after this run'], ['steer', 'to this run'], ['interrupt', 'now: interrupt']].map(([value, name]) => h('option', { value }, name)));
  const button = h('button.main', { type: 'submit' }, 'Send');
  const fault = h('p.fault', { role: 'alert', hidden: true });
  const compose = h('form.compose', { hidden: true }, text, policy, button, fault);
  const element = h('div.conversation', {}, messages, compose);
  // Sent again after a failure, a message counts once; the same words said again are another message.
  let deliver = once(`${model.path}/runs`);
  let [sending, again] = [false, false];

  text.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    compose.requestSubmit();
  });
  compose.addEventListener('submit', async (event) => {
    event.preventDefault();
    const input = text.value;
    if (input.trim() === '') return;
    if (sending) {
      again = true;
      return;
    }
    sending = true;
    fault.hidden = true;
    // What is typed from now on is the next message.
    text.value = '';
    try {
      await deliver({ input, ...(model.ended ? {} : { on_message: policy.value }) });
      deliver = once(`${model.path}/runs`);
      following = true;
      model.follow();
    } catch (problem) {
      text.value = [input, text.value].filter((one) => one !== '').join('\n');
      again = false;
      say(fault, problem.message);
      fault.hidden = false;
    }
    sending = false;
    if (again) {
      again = false;
      compose.requestSubmit();
    }
  });

  function drawn() {
    compose.hidden = at !== null || !app.can('operate') || Boolean(model.summary.branch_of);
    policy.hidden = model.ended;
  }

  function turn({ message, future }) {
    return h(`article.turn.${role(message)}${future ? '.future' : ''}`, {},
      h('header', {}, message.role, future && unseen(', later than the moment shown')), parts(message).map(part));
  }

  const role = (message) => (['system', 'user', 'assistant', 'tool'].includes(message.role) ? message.role : 'other');

  const outside = (href, text) => h('a', { href, target: '_blank', rel: 'noopener noreferrer' }, text);

  function file({ text, name, shown, href }) {
    if (href === null) return long_text(text, 'p.words');
    if (shown === 'image') return [h('img.made', { src: href, alt: text }), h('p.quiet', {}, h('a', { href, download: name }, text))];
    if (shown === 'audio') return [h('audio.made', { src: href, controls: true, preload: 'metadata' }), h('p.quiet', {}, text)];
    return h('p.words', {}, shown === 'link' ? outside(href, text) : h('a', { href, download: name }, text));
  }

  function part({ kind, text, name, ...more }) {
    if (kind === 'file') return h('div.part.file', {}, file({ text, name, ...more }));
    if (kind === 'sources') {
      return h('div.part.sources', {}, h('span.label', {}, 'sources'),
        h('ol', {}, more.sources.map((source) => h('li', { title: source.quote }, source.href ? outside(source.href, source.text) : source.text))));
    }
    if (kind === 'call') return h('div.part.call', {}, h('span.label', {}, `asks for ${name}`), long_text(text, 'pre'));
    if (kind === 'result' || kind === 'error') {
      return h(`details.part.${kind}`, { open: text.length < 2_000 }, h('summary', {}, `${kind === 'error' ? 'error' : 'result'}${name ? ` of ${name}` : ''}`), long_text(text, 'pre'));
    }
    if (kind === 'reasoning') return h('details.part.reasoning', {}, h('summary', {}, 'reasoning'), long_text(text, 'p.words'));
    return h(`div.part.${kind}`, {}, long_text(text, 'p.words'));
  }

  async function draw() {
    const mine = (wanted += 1);
    try {
      const state = await model.state(null);
      const then = at === null ? state : await model.state(at);
      if (closed || mine !== wanted) return;
      const turns = with_future(state.messages, then.messages, same);
      const first = Math.max(0, turns.length - most);
      const earlier = first > 0 && h('button.more', { type: 'button', onclick: () => { most += 1_000; draw(); } }, `${count(first)} earlier messages`);
      fill(said, earlier, turns.length === 0 && h('p.empty', {}, 'Nothing was said yet.'), turns.slice(first).map(turn));
      const output = then.output;
      fill(end, output !== null && output !== undefined && typeof output !== 'string' && [h('h3', {}, 'Output'), tree(output, 2)]);
      live();
      if (at === null && following) messages.scrollTop = messages.scrollHeight;
      else if (at !== null) said.querySelector('.future')?.scrollIntoView({ block: 'end' });
    } catch (problem) {
      if (!closed && mine === wanted && problem.name !== 'AbortError') fill(said, h('p.fault', {}, problem.message));
    }
  }
  const soon = throttled(draw, 250);

  const texts = new Map();
  function live() {
    const calls = [...model.streamed.calls.values()];
    now.hidden = at !== null;
    now.setAttribute('aria-busy', String(calls.length > 0));
    for (const [call, shown] of texts) {
      if (model.streamed.calls.has(call)) continue;
      shown.element.remove();
      texts.delete(call);
    }
    for (const { call, text, reasoning } of calls) {
      let shown = texts.get(call);
      if (!shown) {
        const [words, thoughts] = [h('p.words'), h('p.words.reasoning')];
        shown = { words, thoughts, element: h('article.turn.assistant.streaming', {}, h('header', {}, 'assistant, answering'), thoughts, words) };
        texts.set(call, shown);
        now.append(shown.element);
      }
      say(shown.thoughts, reasoning);
      say(shown.words, text || (reasoning ? '' : '…'));
    }
    if (at === null && following) messages.scrollTop = messages.scrollHeight;
  }

  return {
    element,
    show(moment) {
      at = moment;
      drawn();
      draw();
    },
    drawn,
    heard(events) {
      if (events.some((event) => !model.streamed_only(event)) || events.length === 0) soon();
      // What is complete stands in the conversation once that is read: until then its text stays.
      const done = events.some((event) => event.type === 'LLM_CALL_COMPLETED');
      if (!done) live();
    },
    close() {
      closed = true;
      soon.cancel();
    },
  };
}
