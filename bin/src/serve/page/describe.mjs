// An event on one line.

import { line, value, duration, tokens } from './format.mjs';
import { sources } from './conversation.mjs';
import { changes } from './timeline.mjs';

const said = (message) => (message?.content ?? [])
  .map((part) => {
    switch (part.type) {
      case 'text':
      case 'reasoning':
      case 'refusal': return part.text ?? '';
      case 'tool_call': return `→ ${part.name} ${JSON.stringify(part.arguments)}`;
      default: return part.type;
    }
  })
  .join(' ');

/** The first text of a message, or what it asks for. */
export const message_line = (message, max = 160) =>
  line(typeof message?.content === 'string' ? message.content : said(message), max);

// What was done with an answer.
function used({ variables = [], message, decision }) {
  const sets = variables.map(({ name, value: set }) => `${name} = ${JSON.stringify(set)}`);
  const adds = message === null || message === undefined ? [] : [`adds the message "${message}"`];
  const decides = {
    approve: () => ['approves'],
    edit: () => [`approves with ${JSON.stringify(decision.arguments)}`],
    reject: () => [decision.reason ? `rejects: ${decision.reason}` : 'rejects'],
    answer: () => [`answers ${JSON.stringify(decision.content)}`],
  }[decision?.decision]?.() ?? [];
  return [...sets, ...adds, ...decides];
}

// What a context processor did.
function processed({ messages = [], variables = {} }) {
  const kept = messages.reduce((n, item) => n + (item.kept ? item.kept.to - item.kept.from : 0), 0);
  const fresh = messages.filter((item) => item.new).length;
  const names = Object.keys(variables);
  return [`${kept} ${kept === 1 ? 'message' : 'messages'} kept`, ...(fresh > 0 ? [`${fresh} new`] : []), ...(names.length > 0 ? [`sets ${names.join(', ')}`] : [])];
}

/** Who did it. */
function principal({ kind, id, name }) {
  if (kind === 'token') return name ? `token ${id} (${name})` : `token ${id}`;
  return name ?? { embedded: 'the application', handler: 'the interaction handler' }[kind] ?? kind;
}

/** What an event says beyond its name. */
export function describe(event) {
  const by = event.data?.by;
  const said = what_happened(event);
  return by ? line(`${said} by ${principal(by)}`.trimStart()) : said;
}

function what_happened({ type, data = {} }) {
  const failed = data.error?.message ? line(data.error.message) : null;
  switch (type) {
    case 'THREAD_STARTED': return line(`${data.workflow?.name ?? ''}: ${value(data.input, 120)}`);
    case 'THREAD_FORKED': return `from ${data.parent} at ${data.seq}`;
    case 'THREAD_PAUSED':
    case 'THREAD_CANCELLED': return line(data.reason ?? '');
    case 'THREAD_COMPLETED': return `at ${data.node_id}`;
    case 'WORKFLOW_CHANGED': return line(`${data.previous?.name} (${data.previous?.hash?.slice(0, 12)}) → ${data.workflow?.name} (${data.workflow?.hash?.slice(0, 12)})`);
    case 'HOOK_STARTED': return line(`${data.hook}, ${data.node_id}, the run ends as ${data.ending?.status}`);
    case 'HOOK_ENDED': return failed ? line(`${data.hook}: ${failed}`) : line(data.hook);
    case 'CHECKPOINT_CREATED': return line(data.label);
    case 'VARIABLES_UPDATED': return line(Object.keys(data.variables ?? {}).join(', '));
    case 'MESSAGE_ADDED': return `${data.message?.role}: ${message_line(data.message)}`;
    case 'WARNING': return line(data.detail);
    case 'NODE_STARTED': return data.attempt > 1 ? `${data.node_id}, try ${data.attempt}` : line(data.node_id);
    case 'NODE_COMPLETED': return `${line(data.node_id, 80)}, ${duration(data.duration_ms)}`;
    case 'ROUTE_TAKEN': return line(`${data.from} → ${data.to}${data.condition ? ` because ${data.condition}` : ''}`);
    case 'CONDITION_EVALUATION_REQUESTED': return line(data.condition);
    case 'CONDITION_EVALUATION_COMPLETED': return failed ?? line(`${data.model ? `${data.model}, ` : ''}${data.verdict}: ${data.answer}`);
    case 'FORK_STARTED': return `${data.n_needed} needed`;
    case 'BRANCH_STARTED': return `${data.index}: ${data.child}`;
    case 'AGENT_STARTED': return line(`${data.agent} ${JSON.stringify(data.arguments)}`);
    case 'BRANCH_SPENT': return `${data.index}: ${data.n_llm_calls} calls`;
    case 'BRANCH_ENDED': return failed ?? `${data.index}: ${value(data.output, 120)}`;
    case 'LOOP_ITERATION_STARTED': return `${data.node_id}, round ${data.index + 1}`;
    case 'LLM_EXECUTION_REQUEST': return line(`${data.model?.model ?? data.model?.profile ?? ''}: ${data.prompt}`);
    case 'LLM_CALL_REQUESTED': return `call ${data.iteration}${data.aside ? `, ${data.aside.purpose}` : ''}`;
    case 'LLM_REQUEST_CHANGED': return line(changes(data).join('; '));
    case 'LLM_EXECUTION_PROGRESS': return line(data.text ?? data.reasoning ?? '');
    case 'LLM_CALL_COMPLETED': {
      const used = data.usage?.total_tokens;
      const who = [data.model, used === undefined || used === null ? null : `${tokens(used)} tokens`].filter(Boolean).join(', ');
      const named = sources(Array.isArray(data.message?.content) ? data.message.content : []).length;
      const more = named > 0 ? ` [${named} ${named === 1 ? 'source' : 'sources'}]` : '';
      return `${line(`${who ? `${who}: ` : ''}${said(data.message)}`)}${more}`;
    }
    case 'LLM_EXECUTION_COMPLETED': return line(data.content);
    case 'TOOL_EXECUTION_REQUEST': return line(`${data.name} ${JSON.stringify(data.arguments)}`);
    case 'TOOL_EXECUTION_PROGRESS': return line(data.message);
    case 'TOOL_EXECUTION_COMPLETED': return line(`${duration(data.duration_ms)}: ${said(data)}`);
    case 'USER_INTERACTION_REQUESTED': return line(data.prompt ?? data.tool_call?.name ?? '');
    case 'USER_INTERACTION_RESPONDED': return value(data.input_data, 160);
    case 'USER_INTERACTION_PROCESSED': return line(used(data).join(', '));
    case 'USER_INTERACTION_FAILED': return line(`${data.reason}${data.detail ? `: ${data.detail}` : ''}`);
    case 'CONTEXT_PROCESSING_REQUESTED': return line(`${data.node_id}, ${data.processor}`);
    case 'CONTEXT_PROCESSED': return line(processed(data).join(', '));
    case 'GUARDRAIL_COMPLETED': return line(`${data.name}, ${data.content?.on}: ${data.outcome?.outcome}${data.outcome?.reason ? `: ${data.outcome.reason}` : ''}`);
    case 'PLAN_MADE': return line((data.steps ?? []).join('; '));
    case 'PLAN_STEP_STARTED': return line(data.step);
    default: return failed ?? line(data.node_id ?? '');
  }
}

/** What an event is about, for its colour: `node`, `llm`, `tool`, `person`, `branch`, `bad` or `thread`. */
export function family(type) {
  if (/_FAILED$|^WARNING$|^BUDGET_EXCEEDED$/.test(type)) return 'bad';
  if (/^(LLM_|CONDITION_|CONTEXT_SUMMAR|CANDIDATE|PLAN_|STRATEGY_|GUARDRAIL_)/.test(type)) return 'llm';
  if (/^(TOOL_|CONTEXT_PROCESS)/.test(type)) return 'tool';
  if (/^USER_/.test(type)) return 'person';
  if (/^(FORK_|BRANCH_|JOIN_)/.test(type)) return 'branch';
  if (/^(NODE_|ROUTE_|LOOP_|SUB_|HOOK_)/.test(type)) return 'node';
  return 'thread';
}

/** Choices of events to look at: a label, and the names; no names for all. */
export const CHOICES = {
  '': ['All events', []],
  people: ['People', ['USER_INTERACTION_REQUESTED', 'USER_INTERACTION_RESPONDED', 'USER_INTERACTION_PROCESSED', 'USER_INTERACTION_FAILED']],
  models: ['Models', ['LLM_EXECUTION_REQUEST', 'LLM_CALL_REQUESTED', 'LLM_REQUEST_CHANGED', 'LLM_CALL_RETRIED', 'LLM_CALL_COMPLETED', 'LLM_CALL_FAILED', 'LLM_EXECUTION_COMPLETED', 'LLM_EXECUTION_FAILED', 'CONDITION_EVALUATION_REQUESTED', 'CONDITION_EVALUATION_COMPLETED', 'GUARDRAIL_REQUESTED', 'GUARDRAIL_COMPLETED']],
  tools: ['Tools', ['TOOL_EXECUTION_REQUEST', 'TOOL_CALL_RETRIED', 'TOOL_EXECUTION_PROGRESS', 'TOOL_EXECUTION_COMPLETED', 'TOOL_EXECUTION_FAILED']],
  nodes: ['Nodes', ['NODE_STARTED', 'NODE_COMPLETED', 'NODE_FAILED', 'ROUTE_TAKEN', 'FORK_STARTED', 'AGENT_STARTED', 'BRANCH_STARTED', 'BRANCH_SPENT', 'BRANCH_ENDED', 'JOIN_COMPLETED', 'LOOP_STARTED', 'LOOP_ITERATION_STARTED', 'LOOP_ENDED', 'SUB_WORKFLOW_STARTED', 'SUB_WORKFLOW_COMPLETED', 'SUB_WORKFLOW_FAILED', 'CHILD_START_REQUESTED', 'CHILD_STARTED', 'CHILD_START_FAILED', 'HOOK_STARTED', 'HOOK_ENDED']],
  trouble: ['Failures and warnings', ['THREAD_FAILED', 'THREAD_CANCELLED', 'THREAD_RECOVERED', 'WARNING', 'BUDGET_EXCEEDED', 'NODE_FAILED', 'LLM_TRY_FAILED', 'LLM_CALL_FAILED', 'LLM_EXECUTION_FAILED', 'TOOL_EXECUTION_FAILED', 'USER_INTERACTION_FAILED', 'SUB_WORKFLOW_FAILED', 'CHILD_START_FAILED', 'CONTEXT_PROCESSING_FAILED', 'PLAN_STEP_FAILED', 'STRATEGY_DECISION_FAILED']],
};
