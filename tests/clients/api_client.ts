// The types of `openapi-typescript` with `openapi-fetch` against our own API. Arguments: the base URL, and a token.
import assert from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './rethread';

const [baseUrl, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

// A workflow as JSON, which is checked and stored.
const definition = {
  version: '1',
  name: 'typed',
  nodes: [
    { id: 'greet', llm: { provider: 'mock', model: 'scripted', user_prompt: 'Greet {{ input }}', extra: { script: { answers: [{ match: 'Ada', text: 'Hello, Ada!' }] } } } },
    { id: 'ask', user_interaction: { operation_type: 'UPDATE_VARIABLES', prompt: 'Is that all?', variables: [{ variable_name: 'done', expression: "{{ input == 'yes' }}" }] } },
  ],
  edges: [{ from: 'greet', to: 'ask' }],
};
const checked = await client.POST('/v1/workflows', { params: { query: { dry_run: true } }, body: definition });
assert.equal(checked.data?.name, 'typed');
const yaml = await client.POST('/v1/workflows', {
  body: 'name: x', bodySerializer: (text) => text as string, headers: { 'Content-Type': 'application/yaml' },
});
assert.equal(yaml.response.status, 422);
assert.equal(yaml.error?.type, 'urn:rethread:problem:invalid-workflow');
assert((yaml.error?.faults ?? []).length > 0);

// Start it.
const started = await client.POST('/v1/threads', {
  body: { definition, input: 'Ada', labels: { user: '42' } },
  params: { header: { 'Idempotency-Key': 'order-8' } },
});
assert.equal(started.response.status, 201, started.error?.detail);
const { thread_id: thread, labels } = started.data!;
assert.equal(labels.user, '42');
const params = { path: { thread } };

async function atRest(): Promise<components['schemas']['Outcome']> {
  for (;;) {
    const { data, error } = await client.GET('/v1/threads/{thread}/outcome', { params: { ...params, query: { wait_ms: 20000 } } });
    if (!data) throw new Error(error.detail);
    if (!['pending', 'running'].includes(data.status)) return data;
  }
}

/** A page of events: with other values of `Accept`, the same address is a stream, which is a text. */
async function page(query: NonNullable<paths['/v1/threads/{thread}/events']['get']['parameters']['query']>) {
  const { data, error } = await client.GET('/v1/threads/{thread}/events', { params: { ...params, query } });
  if (!data || typeof data === 'string') throw new Error(error?.detail);
  return data;
}

// Follow it until it asks.
assert.equal((await atRest()).status, 'waiting');
const types: string[] = [];
for (let from_seq: number | null | undefined = 0; from_seq != null; ) {
  const { events, next }: components['schemas']['ThreadEvents'] = await page({ from_seq, limit: 3 });
  types.push(...events.map((event) => event.type));
  from_seq = next;
}
assert.equal(types[0], 'THREAD_STARTED');
assert.equal(types.at(-1), 'USER_INTERACTION_REQUESTED');

// Answer, and answer differently.
const open = await client.GET('/v1/threads/{thread}/interactions', { params });
const [question] = open.data!.interactions;
assert.equal(question.prompt, 'Is that all?');
const respond = (answer: unknown) =>
  client.POST('/v1/interactions/{interaction}/respond', { params: { path: { interaction: question.id } }, body: { answer } });
assert.equal((await respond('yes')).data?.status, 'answered');
const other = await respond('no');
assert.equal(other.response.status, 409);
assert.equal(other.error?.type, 'urn:rethread:problem:interaction-closed');

// The result, and the end of a stream, which `fetch` reads.
const outcome = await atRest();
assert.equal(outcome.status, 'completed');
assert.equal(outcome.success, true);
assert.equal(outcome.usage.llm_calls, 1);
const run = await client.GET('/v1/threads/{thread}/runs/{run}/outcome', { params: { path: { thread, run: 0 } } });
assert.deepEqual(run.data?.output, outcome.output);
const state = await client.GET('/v1/threads/{thread}/state', { params });
assert.equal(state.data?.variables.done, true);
assert(JSON.stringify(state.data?.messages).includes('Hello, Ada!'));
const some = await page({ types: ['THREAD_STARTED', 'THREAD_COMPLETED'] });
assert.deepEqual(some.events.map((event) => event.type), ['THREAD_STARTED', 'THREAD_COMPLETED']);
const stream = await client.GET('/v1/threads/{thread}/events', {
  params, headers: { Accept: 'text/event-stream' }, parseAs: 'stream',
});
let text = '';
for await (const piece of stream.data!.pipeThrough(new TextDecoderStream())) text += piece;
assert(text.includes('THREAD_COMPLETED'), text);
console.log('done');

// What the document forbids is an error of types.
// @ts-expect-error two of `workflow`, `hash` and `definition`
export const both: components['schemas']['Start'] = { workflow: 'typed', hash: 'x' };
// @ts-expect-error no answer
export const none: components['schemas']['Answer'] = {};
