// Events folded to bars: what ran when, beside what, and what it waited for.

import { cost, count, millis, line } from './format.mjs';

/** The events of a bar, which are those of its branch if it is inside one. */
export function events_of(bar, route) {
  const inside = bar.thread !== undefined;
  return { ...route, id: inside ? bar.thread : route.id, at: inside ? null : route.at, tab: 'events', seq: bar.seq };
}

/** The events that change a bar; others need not be read. */
export const TYPES = [
  'THREAD_STARTED', 'THREAD_FORKED', 'THREAD_PAUSED', 'THREAD_RESUMED', 'THREAD_RECOVERED', 'THREAD_CANCELLED',
  'THREAD_COMPLETED', 'THREAD_FAILED', 'WORKFLOW_CHANGED', 'HOOK_STARTED', 'HOOK_ENDED', 'CHECKPOINT_CREATED', 'WARNING', 'NODE_STARTED', 'NODE_COMPLETED', 'NODE_FAILED',
  'CONDITION_EVALUATION_REQUESTED', 'CONDITION_EVALUATION_COMPLETED', 'FORK_STARTED', 'AGENT_STARTED', 'BRANCH_STARTED', 'BRANCH_ENDED',
  'JOIN_COMPLETED', 'LOOP_STARTED', 'LOOP_ITERATION_STARTED', 'LOOP_ENDED', 'SUB_WORKFLOW_STARTED',
  'SUB_WORKFLOW_COMPLETED', 'SUB_WORKFLOW_FAILED', 'CONTEXT_PROCESSING_REQUESTED', 'CONTEXT_PROCESSING_RETRIED',
  'CONTEXT_PROCESSED', 'CONTEXT_PROCESSING_FAILED', 'LLM_EXECUTION_REQUEST', 'LLM_CALL_REQUESTED', 'LLM_CALL_RETRIED',
  'LLM_TRY_FAILED', 'LLM_REQUEST_CHANGED', 'LLM_CALL_COMPLETED', 'LLM_CALL_FAILED', 'GUARDRAIL_REQUESTED',
  'GUARDRAIL_RETRIED', 'GUARDRAIL_COMPLETED', 'STRATEGY_DECISION_REQUESTED',
  'STRATEGY_DECISION_RETRIED', 'STRATEGY_DECIDED', 'STRATEGY_DECISION_FAILED', 'CONTEXT_SUMMARY_REQUESTED',
  'CONTEXT_SUMMARY_COMPLETED', 'TOOL_EXECUTION_REQUEST', 'TOOL_CALL_RETRIED', 'TOOL_EXECUTION_COMPLETED',
  'TOOL_EXECUTION_FAILED', 'USER_INTERACTION_REQUESTED', 'USER_INTERACTION_PROCESSED', 'USER_INTERACTION_FAILED',
  'WAIT_STARTED', 'WAIT_CHANGED', 'WAIT_COMPLETED', 'WAIT_FAILED', 'SIGNAL_AWAITED', 'SIGNAL_RECEIVED',
  'CHILD_START_REQUESTED', 'CHILD_STARTED', 'CHILD_START_FAILED', 'THREAD_AWAITED', 'AWAITED_THREAD_ENDED',
];

// What is open when a run is ending ends so.
const STATUS = { completed: 'done', failed: 'failed', cancelled: 'cancelled' };

const named = (model) => model?.model ?? model?.profile ?? model?.provider ?? 'model';
/** The model of an attempt, and the one that failed before it. */
const attempted = ({ model, fallback_from: from }) => `${model ? ` of ${model}` : ''}${from ? ` (fallback from ${from})` : ''}`;

/**
 * The bars of one thread, in the order in which they began. A bar: `{key, kind, label, seq, start, end, endSeq, status,
 * depth, note, marks, child, fork, thread}`; `end` is null while it is open, `fork` the event behind which a branch begins,
 * `thread` the branch whose events these are.
 */
export class Timeline {
  bars = [];
  #open = new Map();
  #depth = 0;
  #thread;
  #model = 'model';
  #names = [];
  #fork = 0;
  #seq = -1;
  start = null;
  last = null;
  ended = false;

  constructor({ depth = 0, thread } = {}) {
    this.#depth = depth;
    this.#thread = thread;
  }

  /** Folds an event in. Events are to be given in the order of the thread; one that is given again changes nothing. */
  add(event) {
    const { type, seq, data } = event;
    if (seq <= this.#seq) return;
    this.#seq = seq;
    const at = millis(event.time);
    this.start ??= at;
    this.last = Math.max(this.last ?? at, at);
    const begin = (key, kind, label, more = {}) => this.#begin(key, { kind, label, seq, start: at, ...more });
    const end = (key, status, note) => this.#end(key, status, note, seq, at);
    const call = `call ${data.call_id}`;
    switch (type) {
      case 'NODE_STARTED':
        end(`node ${data.node_id}`, 'failed');
        begin(`node ${data.node_id}`, 'node', data.node_id, { note: data.attempt > 1 ? `try ${data.attempt}` : '' });
        break;
      case 'NODE_COMPLETED': this.#close_below(`node ${data.node_id}`, seq, at); end(`node ${data.node_id}`, 'done'); break;
      case 'NODE_FAILED': end(`node ${data.node_id}`, 'failed', data.error.message); break;
      case 'LOOP_STARTED': begin(`loop ${data.node_id}`, 'loop', `loop ${data.node_id}`); break;
      case 'LOOP_ITERATION_STARTED':
        end(`iteration ${data.node_id}`, 'done');
        begin(`iteration ${data.node_id}`, 'loop', `round ${data.index + 1}`);
        break;
      case 'LOOP_ENDED':
        end(`iteration ${data.node_id}`, data.error ? 'failed' : 'done');
        end(`loop ${data.node_id}`, data.error ? 'failed' : 'done', data.error?.message);
        break;
      case 'SUB_WORKFLOW_STARTED': begin(`sub ${data.node_id}`, 'loop', `${data.workflow}`); break;
      case 'SUB_WORKFLOW_COMPLETED': end(`sub ${data.node_id}`, 'done'); break;
      case 'SUB_WORKFLOW_FAILED': end(`sub ${data.node_id}`, 'failed', data.error.message); break;
      case 'LLM_EXECUTION_REQUEST': this.#model = named(data.model); break;
      case 'LLM_CALL_REQUESTED':
        begin(`call ${seq}`, 'llm', this.#model, { note: data.aside ? data.aside.purpose : '' });
        break;
      case 'LLM_CALL_COMPLETED': end(call, 'done', spent(data)); break;
      case 'LLM_CALL_FAILED': end(call, 'failed', data.error.message); break;
      case 'LLM_CALL_RETRIED':
      case 'TOOL_CALL_RETRIED':
      case 'GUARDRAIL_RETRIED':
      case 'STRATEGY_DECISION_RETRIED':
      case 'CONTEXT_PROCESSING_RETRIED': this.#mark(call, seq, at, `attempt ${data.attempt}`); break;
      case 'LLM_TRY_FAILED': this.#mark(call, seq, at, `try ${data.try_number}${attempted(data)} failed: ${data.error.message}`); break;
      case 'LLM_REQUEST_CHANGED': this.#mark(call, seq, at, `changed: ${changes(data).join('; ')}`); break;
      case 'CONDITION_EVALUATION_REQUESTED': begin(`call ${seq}`, 'llm', `judge: ${line(data.condition, 80)}`); break;
      case 'CONDITION_EVALUATION_COMPLETED':
        end(call, data.error ? 'failed' : 'done', data.error?.message ?? String(data.verdict ?? 'no verdict'));
        break;
      case 'CONTEXT_SUMMARY_REQUESTED': begin(`call ${seq}`, 'llm', 'summary'); break;
      case 'CONTEXT_SUMMARY_COMPLETED': end(call, data.error ? 'failed' : 'done', data.error?.message); break;
      case 'CONTEXT_PROCESSING_REQUESTED': begin(`call ${seq}`, 'tool', data.processor); break;
      case 'CONTEXT_PROCESSED': end(call, 'done'); break;
      case 'CONTEXT_PROCESSING_FAILED': end(call, 'failed', data.error.message); break;
      case 'GUARDRAIL_REQUESTED': begin(`call ${seq}`, 'tool', 'guardrail'); break;
      case 'GUARDRAIL_COMPLETED':
        if (data.call_id === seq) begin(`call ${seq}`, 'tool', `guardrail ${line(data.name, 60)}`);
        end(call, data.error ? 'failed' : 'done', data.outcome?.reason ? `${data.outcome.outcome}: ${data.outcome.reason}` : data.outcome?.outcome);
        break;
      case 'STRATEGY_DECISION_REQUESTED': begin(`call ${seq}`, 'tool', `strategy ${data.name}`); break;
      case 'STRATEGY_DECIDED': end(call, 'done', data.next?.decision); break;
      case 'STRATEGY_DECISION_FAILED': end(call, 'failed', data.error.message); break;
      case 'TOOL_EXECUTION_REQUEST':
        begin(`call ${seq}`, 'tool', data.name, { note: line(JSON.stringify(data.arguments), 120) });
        break;
      case 'TOOL_EXECUTION_COMPLETED': end(call, 'done'); break;
      case 'TOOL_EXECUTION_FAILED': end(call, 'failed', data.error.message); break;
      case 'USER_INTERACTION_REQUESTED':
        begin(`ask ${seq}`, 'wait', line(data.prompt ?? data.tool_call?.name ?? 'a question', 120));
        break;
      case 'USER_INTERACTION_PROCESSED': end(`ask ${data.interaction_id}`, 'done', data.results.decision?.decision); break;
      case 'USER_INTERACTION_FAILED': end(`ask ${data.interaction_id}`, 'failed', data.reason); break;
      case 'WAIT_STARTED': begin(`wait ${seq}`, 'wait', `until ${data.until}`); break;
      case 'SIGNAL_AWAITED': begin(`wait ${seq}`, 'wait', `signal ${data.name}`); break;
      case 'SIGNAL_RECEIVED': end(`wait ${data.wait_id}`, 'done'); break;
      case 'THREAD_AWAITED': begin(`wait ${seq}`, 'wait', `thread ${data.thread}`); break;
      case 'AWAITED_THREAD_ENDED': end(`wait ${data.wait_id}`, 'done'); break;
      case 'CHILD_START_REQUESTED': begin(`start ${seq}`, 'wait', `starts ${data.workflow}`); break;
      case 'CHILD_STARTED': end(`start ${data.call_id}`, 'done'); break;
      case 'CHILD_START_FAILED': end(`start ${data.call_id}`, 'failed', data.error.message); break;
      case 'WAIT_CHANGED': this.#marker(seq, at, `wait until ${data.until}`); break;
      case 'WAIT_COMPLETED': end(`wait ${data.wait_id}`, 'done'); break;
      case 'WAIT_FAILED': end(`wait ${data.wait_id}`, 'failed', data.error.message); break;
      case 'FORK_STARTED':
        this.#names = branch_names(data.branches);
        this.#fork = seq;
        break;
      case 'BRANCH_STARTED':
        begin(`branch ${data.child}`, 'branch', this.#names[data.index] ?? `branch ${data.index}`, { child: data.child, fork: this.#fork });
        break;
      case 'AGENT_STARTED':
        begin(`branch ${data.child}`, 'branch', data.agent, { child: data.child, fork: seq, note: line(JSON.stringify(data.arguments), 120) });
        break;
      case 'BRANCH_ENDED': end(`branch ${data.child}`, data.error ? 'failed' : 'done', data.error?.message); break;
      case 'THREAD_PAUSED': begin('paused', 'wait', data.reason ? `paused: ${line(data.reason, 80)}` : 'paused'); break;
      case 'THREAD_RESUMED': end('paused', 'done'); break;
      case 'THREAD_RECOVERED': this.#marker(seq, at, 'came back after a crash'); break;
      case 'WORKFLOW_CHANGED': this.#marker(seq, at, `migrated to ${data.workflow?.name}`); break;
      case 'CHECKPOINT_CREATED': this.#marker(seq, at, `checkpoint ${data.label}`); break;
      case 'WARNING': this.#marker(seq, at, `warning: ${data.detail}`); break;
      case 'HOOK_STARTED':
        this.#end_all(STATUS[data.ending?.status] ?? 'done', seq, at);
        begin(`hook ${data.hook}`, 'loop', `hook ${data.hook}`, { note: `the run ends as ${data.ending?.status}` });
        break;
      case 'HOOK_ENDED':
        end(`hook ${data.hook}`, data.error ? 'failed' : 'done', data.error?.message);
        this.#end_all(data.error ? 'failed' : 'done', seq, at);
        break;
      case 'THREAD_COMPLETED': this.#finish('done', seq, at); break;
      case 'THREAD_FAILED': this.#finish('failed', seq, at, data.error.message); break;
      case 'THREAD_CANCELLED': this.#finish('cancelled', seq, at); break;
      default:
    }
  }

  #begin(key, bar) {
    const inside = ['node', 'loop'].map((kind) => this.#inner(kind)).reduce((a, b) => Math.max(a, b), this.#depth - 1);
    const whole = { key: `${bar.seq} ${key}`, end: null, endSeq: null, status: 'open', note: '', marks: [], thread: this.#thread, ...bar };
    whole.depth = inside + 1;
    this.bars.push(whole);
    this.#open.set(key, whole);
  }

  // The depth of the innermost open bar of a kind.
  #inner(kind) {
    let depth = this.#depth - 1;
    for (const bar of this.#open.values()) if (bar.kind === kind) depth = Math.max(depth, bar.depth);
    return depth;
  }

  #end(key, status, note, seq, at) {
    const bar = this.#open.get(key);
    if (!bar) return;
    Object.assign(bar, { end: at, endSeq: seq, status });
    const changed = bar.marks.filter((mark) => mark.text.startsWith('changed: ')).map((mark) => mark.text);
    if (note || changed.length > 0) bar.note = line([note || bar.note, ...changed].filter(Boolean).join(', '), 200);
    this.#open.delete(key);
  }

  // What a node left open when it was completed, such as a call whose answer nobody needs, ends with it.
  #close_below(key, seq, at) {
    const node = this.#open.get(key);
    if (!node) return;
    for (const [other, bar] of this.#open) {
      if (bar.depth > node.depth && bar.kind !== 'node' && bar.kind !== 'loop') this.#end(other, 'cancelled', '', seq, at);
    }
  }

  #mark(key, seq, at, text) {
    this.#open.get(key)?.marks.push({ seq, at, text });
  }

  #marker(seq, at, label) {
    const more = { seq, thread: this.#thread, start: at, end: at, endSeq: seq, status: 'done', note: '', marks: [], depth: this.#depth };
    this.bars.push({ key: `${seq} mark`, kind: 'mark', label: line(label, 120), ...more });
  }

  #end_all(status, seq, at, note) {
    for (const key of [...this.#open.keys()]) this.#end(key, status, note, seq, at);
  }

  #finish(status, seq, at, note) {
    this.ended = true;
    this.#end_all(status, seq, at, note);
  }
}

const spent = (data) => {
  const { usage, cached } = data;
  const n = usage?.total_tokens ?? (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  const [read, saved] = [cached ? 0 : usage?.cached_input_tokens ?? 0, cache_saved(data)];
  const of_provider = read > 0 ? `, ${count(read)} of them from the provider's cache` : '';
  const money = saved === null || saved === 0 ? '' : saved > 0 ? `, which saved ${cost(saved)}` : `, writing to the provider's cache cost ${cost(-saved)}`;
  return `${n} tokens${cached ? ', from the cache' : of_provider + money}`;
};

/** How what a model was sent differs from what was asked for, in words. */
export const changes = ({ changes: made = [] }) => made.map(({ what, why, n }) => `${n ? `${n} ` : ''}${what}: ${why}`);

/**
 * What the provider's cache of prompts saved in a call, in billionths of a dollar: what its tokens would have cost as a
 * prompt, less what they cost. Null if it had no part in the call, or the prices are not known.
 */
export function cache_saved({ usage, prices, cached }) {
  const [read, written] = [usage?.cached_input_tokens ?? 0, usage?.cache_write_tokens ?? 0];
  if (cached || !prices || (read === 0 && written === 0)) return null;
  const long = Math.min(usage.cache_write_long_tokens ?? 0, written);
  const write = prices.cache_write ?? prices.input;
  const parts = [[read, prices.cached_input ?? prices.input], [written - long, write], [long, prices.cache_write_long ?? write]];
  return Math.floor(parts.reduce((sum, [tokens, price]) => sum + tokens * (prices.input - price), 0) / 1e6);
}

function branch_names(branches) {
  if (branches?.named) return branches.named.map((branch) => branch.name);
  return (branches?.each?.items ?? []).map((item, i) => `${i}: ${line(typeof item === 'string' ? item : JSON.stringify(item), 60)}`);
}

/**
 * Time as it is drawn: stretches in which nothing but waiting went on, and which are longer than `most`, take `most`.
 * Gives `{to, from, length}`: `to(time)` is the place of a time in milliseconds of drawn time, `from(place)` the time.
 */
export function squeezed(bars, start, end, most = Infinity) {
  const work = bars.filter((bar) => bar.kind !== 'wait' && bar.kind !== 'node' && bar.kind !== 'loop' && bar.kind !== 'mark');
  const busy = work.map((bar) => [bar.start, bar.end ?? end]);
  const points = bars.flatMap((bar) => [bar.start, bar.end ?? end]).map((at) => [at, at]);
  const spans = merged([[start, start], [end, end], ...busy, ...points]);
  const cuts = [];
  let drawn = 0;
  for (let i = 0; i < spans.length; i += 1) {
    const [from, to] = spans[i];
    cuts.push({ at: from, drawn });
    drawn += to - from;
    cuts.push({ at: to, drawn });
    if (i + 1 < spans.length) drawn += Math.min(most, spans[i + 1][0] - to);
  }
  const between = (value, x, y) => {
    if (value <= cuts[0][x]) return cuts[0][y];
    let [low, high] = [0, cuts.length - 1];
    if (value >= cuts[high][x]) return cuts[high][y];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (cuts[middle][x] <= value) low = middle;
      else high = middle;
    }
    const [a, b] = [cuts[low], cuts[high]];
    return b[x] === a[x] ? a[y] : a[y] + ((value - a[x]) / (b[x] - a[x])) * (b[y] - a[y]);
  };
  return { to: (time) => between(time, 'at', 'drawn'), from: (place) => between(place, 'drawn', 'at'), length: drawn };
}

function merged(spans) {
  spans.sort((a, b) => a[0] - b[0]);
  const all = [];
  for (const [from, to] of spans) {
    const last = all.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else all.push([from, to]);
  }
  return all;
}

/**
 * Where the words about a bar stand that begins at `left` and ends at `right` percent of the track: behind it, before it,
 * or in it where it takes nearly all of the track. Never over a bar that they would hide.
 */
export function words_place(left, right) {
  const [from, to] = [Math.max(0, left), Math.min(100, right)];
  if (to <= 70) return { side: 'behind', at: to };
  if (from >= 30) return { side: 'before', at: 100 - from };
  return { side: 'inside', at: from };
}

/** Round steps for a scale of `length` milliseconds: about `n` of them. */
export function ticks(length, n = 6) {
  if (!(length > 0)) return [0];
  const raw = length / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 5, 10].find((times) => times * power >= raw) * power;
  return Array.from({ length: Math.floor(length / unit) + 1 }, (_, i) => i * unit);
}
