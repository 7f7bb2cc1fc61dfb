// A question that waits for a person, with a form that fits it.

import { fill, h } from './dom.mjs';
import { key, read, send } from './api.mjs';
import { address } from './route.mjs';
import { age, line, short } from './format.mjs';
import { answer, form, options, sample } from './answers.mjs';
import { is_blurred } from './exact.mjs';
import { commands } from './dialog.mjs';
import { long_text, tree } from './json_view.mjs';
import { marked_json } from './marks.mjs';
import * as command from './commands.mjs';

const DECISIONS = [['approve', 'Approve: it runs'], ['edit', 'Edit: it runs with other arguments'], ['reject', 'Reject: it does not run'], ['answer', 'Answer in its place']];
const CONTENT_DECISIONS = [['approve', 'Approve: it is used'], ['reject', 'Reject: it is not used'], ['answer', 'Another text in its place']];
const UNSEEN = 'Read it to its end first: scroll down in it.';
let cards = 0;

// All of what is to be approved; `seen()` is told when its end has been in sight.
function whole(what, text, seen) {
  const end = h('span.end', {}, `end of the ${what}`);
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    seen();
  }, { threshold: 1 });
  watch.observe(end);
  return h('pre', { tabindex: '0', role: 'region', 'aria-label': what }, text, '\n', end);
}

/** The card; `gone()` is told when the question is not open any more. `here` is the thread whose page it stands on. */
export function question_card(app, question, here = null) {
  const id = `question-${(cards += 1)}`;
  const kind = form(question);
  const approves = kind === 'approve' || kind === 'content';
  const state = { decision: approves ? 'approve' : null, text: '', json: false };
  // Nothing is approved that was not shown whole.
  let is_seen = !approves;
  let [done, sending, is_gone] = [false, false, false];
  const result = h('p.result', { role: 'status' });
  const fields = h('div.fields');
  const unseen = h('p.quiet', {}, UNSEEN);
  const send_it = h('button.main', { type: 'submit' }, 'Send');
  // A tool that does nothing but ask has said so in the prompt.
  const shows_call = question.tool_call && (kind === 'approve' || question.tool_call.arguments?.question !== question.prompt);
  const why = h('form', { 'aria-describedby': `${id}-prompt` }, fields, unseen, result,
    h('footer', {}, send_it, h('button', { type: 'button', onclick: copy }, 'Command')));
  const since = h('span', {}, `asked ${age(question.requested_at, app.now())} ago`);
  const content = String(question.metadata?.on ?? 'message');
  const prompt = {
    approve: () => `${question.metadata?.guardrail ? `Guardrail ${question.metadata.guardrail} stopped this call: ${question.metadata.reason}. ` : ''}May the tool ${question.tool_call.name} run with these arguments?`,
    content: () => `May this ${content} be used?`,
  }[kind]?.() ?? question.prompt;
  const element = h('article.question', { 'aria-labelledby': `${id}-prompt`, 'data-question': question.id },
    question.thread_id !== here && h('p.facts', {},
      h('a', { href: address({ view: 'thread', id: question.thread_id, tab: 'messages' }) }, `${line(question.workflow ?? 'thread', 60)} ${short(question.thread_id)}`),
      h('span', {}, `node ${line(question.node, 60)}`), since,
      question.deadline && h('span', {}, `until ${question.deadline}`)),
    h('h3.prompt', { id: `${id}-prompt` }, long_text(prompt ?? 'Your answer')),
    shows_call && h('div.part.call', {}, h('span.label', {}, `tool ${question.tool_call.name}`),
      kind === 'approve' ? whole('arguments', JSON.stringify(question.tool_call.arguments, null, 2), seen) : long_text(JSON.stringify(question.tool_call.arguments, null, 2), 'pre')),
    kind === 'content' && h('div.part', {}, whole(content, question.prompt, seen)),
    app.can('operate') ? why : h('p.quiet', {}, 'You may look, and not answer.'));

  function seen() {
    is_seen = true;
    allow();
  }

  const may_send = () => is_seen || !['approve', 'edit'].includes(state.decision);

  function allow() {
    send_it.disabled = done || sending || !may_send();
    unseen.hidden = done || may_send();
  }

  const area = (label, value, rows = 3) => {
    state.text = value;
    const input = h('textarea', { id: `${id}-text`, rows, spellcheck: 'false', value, oninput: () => { state.text = input.value; } });
    return [h('label', { for: `${id}-text` }, label), input];
  };

  // They would run with other numbers than the ones that were asked for.
  function blurred() {
    state.text = '';
    return h('p.fault', {}, 'This browser cannot show all digits of the numbers in these arguments: edit them with the command line, or in a newer browser.');
  }

  function decide(decision) {
    state.decision = decision;
    const extra = {
      approve: () => [],
      edit: () => (is_blurred(question.tool_call?.arguments) ? blurred() : area('Arguments', marked_json(question.tool_call?.arguments ?? {}, 2), 6)),
      reject: () => area(kind === 'content' ? 'Reason' : 'Reason, which the model reads', ''),
      answer: () => area(kind === 'content' ? 'The text' : 'The result, which the model reads: a text, or JSON', ''),
    }[decision]();
    fill(fields, h('fieldset', {}, h('legend', {}, 'What shall become of it?'),
      (kind === 'content' ? CONTENT_DECISIONS : DECISIONS).map(([value, label]) => h('label.check', {}, h('input', { type: 'radio', name: id, value, checked: value === decision, onchange: () => { decide(value); fields.querySelector(`[value=${value}]`).focus(); } }), label))), extra);
    send_it.textContent = { approve: 'Approve', edit: 'Approve with these', reject: 'Reject', answer: 'Send' }[decision];
    send_it.classList.toggle('danger', decision === 'reject');
    allow();
  }

  const choices = () => h('div.choices', { role: 'group', 'aria-label': 'Choices' },
    options(question).map(([label, value]) => h('button', { type: 'button', onclick: () => respond(value) }, line(label, 120))));

  // A question that says of what type its answer is.
  function typed() {
    const { schema } = question.answer;
    if (kind === 'options') fill(fields, choices());
    else if (kind === 'number') {
      const input = h('input', { id: `${id}-text`, inputmode: 'decimal', autocomplete: 'off', oninput: () => { state.text = input.value; } });
      fill(fields, h('label', { for: `${id}-text` }, 'Your answer, a number'), input);
    } else if (kind === 'schema') {
      fill(fields, area('Your answer, as JSON', marked_json(sample(schema), 2), 6), h('details', {}, h('summary', {}, 'What it must look like'), tree(schema, 2)));
    } else fill(fields, area('Your answer, a text', ''));
    send_it.textContent = 'Answer';
    send_it.hidden = kind === 'options';
  }

  function plain() {
    const json = h('input', { type: 'checkbox', id: `${id}-json`, onchange: () => { state.json = json.checked; } });
    fill(fields,
      kind === 'choice' && choices(),
      area(kind === 'choice' ? 'Or something else' : 'Your answer', ''),
      h('label.check', { for: `${id}-json` }, json, 'as JSON'));
    send_it.textContent = 'Answer';
  }

  function informing() {
    const reject = h('button', { type: 'button', onclick: () => respond({ decision: 'reject' }) }, 'Give no answer');
    // The address is text, for the eye to judge: what a tool's server names is not made a link of.
    if (kind === 'link') fill(fields, h('p', {}, 'It asks to open this address, and to say when that is done: ', h('code', {}, String(question.metadata?.url ?? ''))), reject);
    else fill(fields, area('Your answer, as JSON', marked_json(sample({ type: 'object', ...question.metadata?.schema }), 2), 6), reject);
    send_it.textContent = kind === 'link' ? 'It is done' : 'Answer';
  }

  function copy() {
    if (!may_send()) return told('bad', UNSEEN);
    try {
      const all = kind === 'options' ? options(question) : [['This answer', answer(question, state)]];
      commands('As a command', all.map(([label, value]) => [label, command.respond(question, value)]));
    } catch (error) {
      told('bad', error.message);
    }
  }

  function told(mood, ...text) {
    result.dataset.mood = mood;
    fill(result, ...text);
  }

  function closed(mood, ...text) {
    done = true;
    element.classList.add('closed');
    why.querySelectorAll('input, textarea, button').forEach((field) => { field.disabled = true; });
    unseen.hidden = true;
    told(mood, ...text);
  }

  async function respond(value) {
    if (done || sending) return;
    if (!may_send()) return told('bad', UNSEEN);
    sending = true;
    allow();
    told('', 'Sending…');
    try {
      await send(`/v1/interactions/${question.id}/respond`, { answer: value }, key());
      closed('good', 'Answered.');
    } catch (problem) {
      if (problem.kind === 'interaction-closed') {
        closed('bad', h('strong', {}, 'Somebody else was faster. '), 'This answer was not used. ', await theirs());
      } else {
        told('bad', problem.message);
      }
    }
    sending = false;
    allow();
    if (is_gone) gone();
    app.inbox.refresh();
  }

  // What was typed and not sent is not thrown away before somebody has seen why.
  function gone() {
    is_gone = true;
    // That the question is closed may be known before the answer to the request that closed it.
    if (sending) return;
    if (!done && (state.text !== '' || element.contains(document.activeElement))) {
      closed('bad', h('strong', {}, 'Somebody else was faster. '), 'The question is not open any more.');
      theirs().then((text) => text && result.append(h('span', {}, ` ${text}`)));
    }
    if (done) setTimeout(() => element.remove(), result.dataset.mood === 'good' ? 1_500 : 60_000);
    else element.remove();
  }

  // What was answered instead, where it can be read.
  async function theirs() {
    try {
      const call = Number(question.id.slice(question.thread_id.length + 1));
      const { events } = await read(`/v1/threads/${question.thread_id}/events?from_seq=${call}&types=USER_INTERACTION_RESPONDED,USER_INTERACTION_FAILED&limit=20`);
      const event = events.find(({ data }) => data.interaction_id === call);
      if (!event) return '';
      if (event.type === 'USER_INTERACTION_FAILED') return `It was closed: ${event.data.reason}.`;
      return `The answer was: ${line(typeof event.data.input_data === 'string' ? event.data.input_data : JSON.stringify(event.data.input_data), 300)}`;
    } catch {
      return '';
    }
  }

  why.addEventListener('submit', (event) => {
    event.preventDefault();
    try {
      respond(answer(question, state));
    } catch (error) {
      told('bad', error.message);
    }
  });
  why.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) why.requestSubmit();
  });
  if (approves) decide('approve');
  else if (kind === 'fields' || kind === 'link') informing();
  else if (question.answer) typed();
  else plain();
  allow();

  return {
    element,
    gone,
    aged: () => { since.textContent = `asked ${age(question.requested_at, app.now())} ago`; },
    focus: () => (fields.querySelector('textarea, input, button') ?? send_it).focus(),
  };
}
