// Starting a thread on a workflow that the log has.

import { h, notice } from './dom.mjs';
import { once, read } from './api.mjs';
import { form_dialog } from './dialog.mjs';
import { plain, sample } from './answers.mjs';
import { tree } from './json_view.mjs';
import { marked_json } from './marks.mjs';

export async function start_dialog(app) {
  let workflows = [];
  let fault = null;
  try {
    if (!app.is_bound()) ({ workflows } = await read('/v1/workflows'));
  } catch (problem) {
    fault = problem.message;
  }
  const name = app.is_bound()
    ? h('input', { id: 'start-workflow', required: true, spellcheck: 'false' })
    : h('select', { id: 'start-workflow' }, workflows.map((workflow) => h('option', { value: workflow.name }, workflow.name)));
  const input = h('textarea', { id: 'start-input', rows: 4, spellcheck: 'false' });
  const start = once('/v1/threads');
  const shape = h('details', { hidden: true });
  let filled = '';
  // An example of the input, for the workflow that is chosen; what was typed stays.
  async function describe() {
    const newest = workflows.find((workflow) => workflow.name === name.value)?.newest;
    const schema = newest && (await read(`/v1/definitions/${newest}`)).definition.input_schema;
    shape.hidden = schema === undefined || schema === null;
    if (input.value === filled) {
      filled = shape.hidden ? '' : marked_json(sample(schema), 2);
      input.value = filled;
    }
    if (!shape.hidden) shape.replaceChildren(h('summary', {}, 'What it must look like'), tree(schema, 2));
  }
  const described = () => describe().catch((problem) => notice(problem.message));
  name.addEventListener('change', described);
  described();
  const none = fault ?? 'The log has no workflow yet: put one with POST /v1/workflows, or run one with `rethread run FILE`.';
  form_dialog('Start a thread', 'Start', [
    workflows.length === 0 && !app.is_bound() && h('p.fault', {}, none),
    h('label', { for: 'start-workflow' }, 'Workflow'), name,
    h('label', { for: 'start-input' }, 'Input: a text, or JSON'), input, shape,
  ], async () => {
    const thread = await start({ workflow: name.value, input: input.value === '' ? undefined : plain(input.value) });
    app.go({ view: 'thread', id: thread.thread_id, tab: 'messages' });
  });
}
