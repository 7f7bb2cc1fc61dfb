// The MCP clients of npm against rethread: version 1 of the SDK, which begins with `initialize`, and version 2 with
// 2026-07-28. Arguments: `legacy` or `modern`, the address, and a token.
import assert from 'node:assert/strict';

const [generation, address, token] = process.argv.slice(2);
const isModern = generation === 'modern';

async function sdk() {
  if (isModern) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    return { Client, Transport: StreamableHTTPClientTransport, elicitation: 'elicitation/create' };
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  return { Client, Transport: StreamableHTTPClientTransport, elicitation: ElicitRequestSchema };
}

const { Client, Transport, elicitation } = await sdk();

async function connect(bearer, onElicit) {
  const options = { capabilities: onElicit ? { elicitation: {} } : {} };
  if (isModern) options.versionNegotiation = { mode: { pin: '2026-07-28' } };
  const client = new Client({ name: 'test', version: '1' }, options);
  if (onElicit) client.setRequestHandler(elicitation, onElicit);
  const requestInit = { headers: { Authorization: `Bearer ${bearer}` } };
  await client.connect(new Transport(new URL(address), { requestInit }));
  return client;
}

const call = (client, name, args = {}, options = {}) =>
  isModern
    ? client.callTool({ name, arguments: args }, options)
    : client.callTool({ name, arguments: args }, undefined, options);
const text = (result) => result.content[0].text;

const client = await connect(token);
const { tools } = await client.listTools();
const named = Object.fromEntries(tools.map((tool) => [tool.name, tool]));
assert.equal(named.explain.annotations.readOnlyHint, true);
assert.deepEqual(named.typed.inputSchema.required, ['colour']);

const nodes = [];
const done = await call(client, 'two', { input: 'x' }, { onprogress: ({ message }) => nodes.push(message) });
assert.equal(text(done), 'second');
assert.deepEqual(nodes, ['node one', 'node two']);
const thread = done.structuredContent.thread_id;
assert.match(text(await call(client, 'explain', { thread })), /completed in/);
const { events } = (await call(client, 'events', { thread, types: 'NODE_STARTED' })).structuredContent;
assert.equal(events.length, 2);

const failed = await call(client, 'fails', { input: 'x' });
assert.equal(failed.isError, true);
assert.match(text(failed), /no such key/);
assert.match(text(await call(client, 'explain', { thread: failed.structuredContent.thread_id })), /authentication/);
await assert.rejects(call(client, 'nothing'), /unknown tool/);

const waits = await call(client, 'asks', { input: 'x' });
assert.equal(waits.structuredContent.status, 'waiting');
const [question] = waits.structuredContent.questions;
assert.equal(text(await call(client, 'respond', { interaction: question.id, answer: 'blue' })), 'Painted blue.');

// A request that is aborted cancels its run.
const aborting = new AbortController();
const hangs = call(client, 'hangs', { input: 'x' }, { signal: aborting.signal }).catch((error) => error);
const status = async () => (await call(client, 'threads', { workflow: 'hangs' })).structuredContent.threads[0]?.status;
const until = async (wanted) => {
  for (let i = 0; i < 600; i++) {
    if ((await status()) === wanted) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail(`${await status()} is not ${wanted}`);
};
await until('running');
aborting.abort();
assert(await hangs instanceof Error);
await until('cancelled');
await client.close();

const asked = [];
const asking = await connect(token, async ({ params }) => {
  asked.push(params.message);
  return { action: 'accept', content: { answer: 'blue' } };
});
assert.equal(text(await call(asking, 'asks', { input: 'x' })), 'Painted blue.');
assert.match(asked[0], /^Which colour/);
await asking.close();

const refusing = await connect(token, async () => ({ action: 'decline' }));
assert.equal((await call(refusing, 'asks', { input: 'x' })).structuredContent.status, 'waiting');
await refusing.close();

await assert.rejects(connect('wrong'));
console.log('done');
