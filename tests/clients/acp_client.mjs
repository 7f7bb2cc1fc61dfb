// The ACP client of npm with `rethread acp` as its agent. Arguments: a folder, the program and its arguments. With
// `team.yaml` among them, the agent makes a plan and calls agents.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

const [folder, program, ...args] = process.argv.slice(2);
const { agent: agents, client: clients } = acp.methods;

/** Runs the agent, and `work` with it. */
async function withAgent(editor, work) {
  const child = spawn(program, args, { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const app = acp.client({ name: 'test' })
    .onNotification(clients.session.update, ({ params }) => { editor.updates.push(params.update); })
    .onRequest(clients.session.requestPermission, ({ params }) => {
      editor.asked.push(params.toolCall);
      return { outcome: { outcome: 'selected', optionId: params.options[0].optionId } };
    })
    .onRequest(clients.fs.readTextFile, ({ params }) => ({ content: editor.files[params.path] ?? '' }))
    .onRequest(clients.fs.writeTextFile, ({ params }) => { editor.files[params.path] = params.content; return {}; });
  await app.connectWith(stream, async (agent) => {
    const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: false };
    const began = await agent.request(agents.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities });
    assert.equal(began.protocolVersion, 1);
    assert.equal(began.agentCapabilities.loadSession, true);
    await work(agent);
  });
  child.stdin.end();
  assert.equal(await new Promise((resolve) => child.on('exit', resolve)), 0);
}

const newEditor = () => ({ updates: [], asked: [], files: {} });
const texts = (editor, kind = 'agent_message_chunk') => editor.updates
  .filter((update) => update.sessionUpdate === kind).map((update) => update.content.text).join('');
const prompt = (agent, sessionId, text) =>
  agent.request(agents.session.prompt, { sessionId, prompt: [{ type: 'text', text }] });

let editor = newEditor();
let sessionId;
if (args.includes('team.yaml')) {
  await withAgent(editor, async (agent) => {
    ({ sessionId } = await agent.request(agents.session.new, { cwd: folder, mcpServers: [] }));
    assert.deepEqual(await prompt(agent, sessionId, 'Ada'), { stopReason: 'end_turn' });
    const plans = editor.updates.filter((update) => update.sessionUpdate === 'plan')
      .map(({ entries }) => entries.map(({ content, status }) => `${content} ${status}`));
    assert.equal(plans.length, 8);
    assert.deepEqual(plans[3], ['Look. completed', 'Count. in_progress']);
    assert.deepEqual(plans[7], ['Answer. completed']);
    assert(!texts(editor).includes('steps'), texts(editor));
    const calls = editor.updates.filter((update) => update.sessionUpdate === 'tool_call');
    const last = (call) => editor.updates.findLast((update) =>
      update.sessionUpdate === 'tool_call_update' && update.toolCallId === call.toolCallId).status;
    const shown = calls.map((call) => [call.title, call.rawInput, last(call)]);
    assert.deepEqual(shown, [['helper', { topic: 'tea' }, 'completed'], ['broken', { topic: 'tea' }, 'failed']]);
  });
  console.log('done');
  process.exit(0);
}
await withAgent(editor, async (agent) => {
  ({ sessionId } = await agent.request(agents.session.new, { cwd: folder, mcpServers: [] }));
  assert.deepEqual(await prompt(agent, sessionId, 'hello'), { stopReason: 'end_turn' });
  assert.equal(texts(editor), 'Hello, Ada!');

  editor.updates = [];
  assert.deepEqual(await prompt(agent, sessionId, 'write'), { stopReason: 'end_turn' });
  const path = `${realpathSync(folder)}/new.txt`;
  assert.deepEqual(editor.files, { [path]: 'one\nthree\n' });
  const call = editor.updates.find((update) => update.sessionUpdate === 'tool_call');
  assert.deepEqual(call.content, [{ type: 'diff', path, newText: 'one\nthree\n' }]);
  assert.equal(editor.asked[0].toolCallId, call.toolCallId);
  const statuses = editor.updates.filter((update) => update.toolCallId === call.toolCallId).map((it) => it.status);
  assert.deepEqual(statuses.slice(-2), ['in_progress', 'completed']);

  // The editor has no terminals, and --allow-commands was not given: the tool does not exist.
  editor.updates = [];
  await prompt(agent, sessionId, 'run');
  const failed = editor.updates.filter((update) => update.sessionUpdate === 'tool_call_update');
  assert.equal(failed.at(-1).status, 'failed');

  const waiting = prompt(agent, sessionId, 'wait');
  while (!texts(editor).includes('Well')) await new Promise((resolve) => setTimeout(resolve, 10));
  await agent.notify(agents.session.cancel, { sessionId });
  assert.deepEqual(await waiting, { stopReason: 'cancelled' });

  await assert.rejects(prompt(agent, 'nobody', 'hello'), (error) => error.code === -32002);
  await assert.rejects(
    agent.request(agents.session.new, { cwd: folder, mcpServers: [{ type: 'sse', name: 'x', url: 'http://x', headers: [] }] }),
    (error) => error.code === -32602,
  );
});

editor = newEditor();
await withAgent(editor, async (agent) => {
  await agent.request(agents.session.load, { sessionId, cwd: folder, mcpServers: [] });
  assert.equal(texts(editor, 'user_message_chunk'), 'hellowriterunwait');
  assert(texts(editor).startsWith('Hello, Ada!I write.Done.'));
  editor.updates = [];
  assert.deepEqual(await prompt(agent, sessionId, 'hello'), { stopReason: 'end_turn' });
  assert.equal(texts(editor), 'Hello, Ada!');
});
console.log('done');
