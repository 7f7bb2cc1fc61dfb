// Starting a thread on a workflow that the log has.

import { h } from './dom.mjs';
import { once, read } from './api.mjs';
import { form_dialog } from './dialog.mjs';
import { plain } from './answers.mjs';

export async function start_dialog(app) {
  let workflows = [];
  let fault = null;
  try {
    ({ workflows } = await read('/v1/workflows'));
  } catch (problem) {
    fault = problem.message;
  }
  const name = h('select', { id: 'start-workflow' }, workflows.map((workflow) => h('option', { value: workflow.name }, workflow.name)));
  const input = h('textarea', { id: 'start-input', rows: 4, spellcheck: 'false' });
  const start = once('/v1/threads');
  const none = fault ?? 'The log has no workflow yet: put one with POST /v1/workflows, or run one with `rethread run FILE`.';
  form_dialog('Start a thread', 'Start', [
    workflows.length === 0 && h('p.fault', {}, none),
    h('label', { for: 'start-workflow' }, 'Workflow'), name,
    h('label', { for: 'start-input' }, 'Input: a text, or JSON'), input,
  ], async () => {
    const thread = await start({ workflow: name.value, input: plain(input.value) });
    app.go({ view: 'thread', id: thread.thread_id, tab: 'messages' });
  });
}
