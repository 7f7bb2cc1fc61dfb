// Another way on from a moment, with changes.

import { fill, h } from './dom.mjs';
import { once, read, send } from './api.mjs';
import { count, line } from './format.mjs';
import { object } from './answers.mjs';
import { command, form_dialog } from './dialog.mjs';
import { marked_json } from './marks.mjs';
import * as commands from './commands.mjs';

/** The body of the request, out of what the form holds; throws an error that says what is wrong. */
export function changes({ at, variables, prompts, profile, workflow }) {
  const body = {};
  if (at !== null) body.seq = at;
  if (variables.trim() !== '') body.variables = object(variables, 'variables');
  const given = Object.fromEntries(prompts.filter(({ node, text }) => node && text !== '').map(({ node, text }) => [node, text]));
  if (Object.keys(given).length > 0) body.prompts = given;
  if (profile) body.profile = profile;
  if (workflow) body.workflow = workflow;
  return body;
}

// The moment to fork when none is marked: the present, and of a thread that has ended the one before its last node.
async function going_on(model) {
  if (!model.ended) return model.last;
  const { path } = await model.state(null).catch(() => ({ path: [] }));
  const first_try = path.findLast((visit) => visit.attempt === 1);
  return Math.max(0, (first_try?.seq ?? model.last) - 1);
}

export async function fork_dialog(app, model, at) {
  const moment = at ?? (await going_on(model));
  const event = h('input', { id: 'fork-at', type: 'number', min: 0, max: model.last, required: true, value: String(moment) });
  const variables = h('textarea', { id: 'fork-variables', rows: 3, spellcheck: 'false', placeholder: '{"name": "another value"}' });
  const node = h('select', { id: 'fork-node' }, h('option', { value: '' }, 'no other prompt'));
  const prompt = h('textarea', { id: 'fork-prompt', rows: 3, 'aria-label': 'The prompt of this node' });
  const profile = h('select', { id: 'fork-profile' }, h('option', { value: '' }, 'as it is'));
  const workflow = h('select', { id: 'fork-workflow' }, h('option', { value: '' }, 'the same definition'));
  const now = h('details', { hidden: true });
  const shown = h('div');
  const fork = once(`${model.path}/fork`);
  const given = () => changes({ at: Number(event.value), variables: variables.value, prompts: [{ node: node.value, text: prompt.value }], profile: profile.value, workflow: workflow.value });

  function preview() {
    try {
      const body = given();
      const text = commands.fork(model.id, { ...body, at: body.seq });
      fill(shown, body.workflow ? h('p.quiet', {}, 'As a command, a fork takes the workflow from a file: --workflow FILE.') : command(text));
    } catch (error) {
      fill(shown, h('p.quiet', {}, error.message));
    }
  }
  for (const field of [event, variables, node, prompt, profile, workflow]) field.addEventListener('input', preview);
  preview();
  form_dialog('Fork from here', 'Fork', [
    h('p', {}, 'A new thread goes on behind this event. This one stays as it is. Calls that were open at that moment are treated as after a crash.'),
    h('label', { for: 'fork-at' }, `Behind event, of ${count(model.last)}`), event,
    h('label', { for: 'fork-variables' }, 'Set variables: a JSON object'), variables, now,
    h('label', { for: 'fork-node' }, 'Another prompt for the node'), node, prompt,
    h('div.pair', {}, h('div', {}, h('label', { for: 'fork-profile' }, 'Profile of every model call'), profile),
      h('div', {}, h('label', { for: 'fork-workflow' }, 'Go on with the newest'), workflow)),
    shown,
  ], async () => {
    let thread;
    try {
      thread = await fork(given());
    } catch (problem) {
      // The thread has ended there: the server says from where there is something to do.
      if (problem.place?.fork_at !== undefined) {
        event.value = String(problem.place.fork_at);
        preview();
      }
      throw problem;
    }
    app.go({ view: 'thread', id: thread.thread_id, tab: 'timeline' });
  });
  const fill_in = async (load) => load().catch(() => {});
  if (!app.is_bound()) fill_in(async () => {
    const { profiles } = await read('/v1/profiles');
    profile.append(...profiles.map(({ name }) => h('option', { value: name }, name)));
  });
  if (!app.is_bound()) fill_in(async () => {
    const { workflows } = await read('/v1/workflows');
    workflow.append(...workflows.map(({ name }) => h('option', { value: name }, name)));
  });
  fill_in(async () => {
    const graph = await model.graph(moment);
    const models = graph.parts.flatMap((part) => part.nodes).filter((one) => one.kind === 'llm' && one.id);
    node.append(...models.map(({ id }) => h('option', { value: id }, id)));
  });
  fill_in(async () => {
    const state = await model.state(moment);
    const names = Object.entries(state.variables).filter(([name]) => !['llm_calls', 'tool_calls'].includes(name));
    if (names.length === 0) return;
    now.hidden = false;
    fill(now, h('summary', {}, 'The variables at this moment'), names.map(([name, value]) => h('button.link', {
      type: 'button', title: 'Put it into the field',
      onclick: () => {
        let set = {};
        try { set = object(variables.value || '{}', ''); } catch { return; }
        variables.value = marked_json({ ...set, [name]: value }, 2);
        preview();
      },
    }, `${name} = ${line(JSON.stringify(value), 80)}`)));
  });
}
