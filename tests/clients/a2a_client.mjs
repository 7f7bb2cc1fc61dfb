// npm `@a2a-js/sdk` against the A2A door, in both bindings. Arguments: the base URL of the agents, and a token.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} from '@a2a-js/sdk/client';
import {
  ContentTypeNotSupportedError, PushNotificationNotSupportedError, TaskNotCancelableError, TaskNotFoundError,
  UnsupportedOperationError, VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

const [base, token] = process.argv.slice(2);

const fetchWith = (bearer) => (url, init = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${bearer}` } });

async function connect(agent, Factory, bearer = token) {
  const fetchImpl = fetchWith(bearer);
  const factory = new ClientFactory({
    transports: [new Factory({ fetchImpl })], cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  return factory.createFromUrl(`${base}/${agent}/`);
}

const text = (value) => ({ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' });
const data = (value) => ({ content: { $case: 'data', value }, metadata: undefined, filename: '', mediaType: '' });
const raw = (value, mediaType) => ({ content: { $case: 'raw', value }, metadata: undefined, filename: '', mediaType });

function request(parts, fields = {}, configuration = undefined) {
  const message = {
    messageId: randomUUID(), contextId: '', taskId: '', role: Role.ROLE_USER,
    parts: typeof parts === 'string' ? [text(parts)] : parts,
    metadata: undefined, extensions: [], referenceTaskIds: [], ...fields,
  };
  return { tenant: '', message, configuration, metadata: undefined };
}

const configured = (fields) =>
  ({ acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false, ...fields });
const said = (task) => task.artifacts.map((artifact) => artifact.parts.map((part) => part.content.value).join('')).join('|');

/** The states and the artifact that a stream tells of. `begun` is called when it has begun. */
async function follow(stream, begun = () => {}) {
  let task;
  let answer = '';
  let last = false;
  const states = [];
  for await (const { payload } of stream) {
    if (task === undefined) {
      assert.equal(payload.$case, 'task');
      task = payload.value;
      states.push(task.status.state);
      begun();
    } else if (payload.$case === 'statusUpdate') {
      assert.equal(payload.value.taskId, task.id);
      assert.equal(payload.value.contextId, task.contextId);
      states.push(payload.value.status.state);
      task.status = payload.value.status;
    } else {
      assert.equal(payload.$case, 'artifactUpdate');
      assert.equal(last, false);
      const piece = payload.value.artifact.parts.map((part) => part.content.value).join('');
      answer = payload.value.append ? answer + piece : piece;
      last = payload.value.lastChunk;
    }
  }
  return { task, states, answer, last };
}

async function both(Factory) {
  const chat = await connect('chat', Factory);
  const card = await chat.getAgentCard();
  assert.equal(card.name, 'chat');
  assert.deepEqual(card.supportedInterfaces.map((at) => [at.protocolBinding, at.protocolVersion]),
    [['JSONRPC', '1.0'], ['HTTP+JSON', '1.0']]);
  assert.equal(card.skills.length, 1);
  assert.equal(card.securitySchemes.bearer.scheme.$case, 'httpAuthSecurityScheme');

  // A task, as an answer that is waited for; the next one in its context, as a stream.
  const hello = await chat.sendMessage(request('Hello, I am Ada.'));
  assert.equal(hello.status.state, TaskState.TASK_STATE_COMPLETED);
  assert.equal(said(hello), 'Hello, Ada!');
  assert.equal(hello.history[0].parts[0].content.value, 'Hello, I am Ada.');
  const next = await follow(chat.sendMessageStream(request('What is my name?', { contextId: hello.contextId })));
  assert.deepEqual(next.states,
    [TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED]);
  assert.deepEqual([next.answer, next.last, next.task.contextId], ['You are Ada.', true, hello.contextId]);
  assert.notEqual(next.task.id, hello.id);

  // Get and list.
  const got = await chat.getTask({ tenant: '', id: next.task.id, historyLength: 0 });
  assert.deepEqual([said(got), got.history], ['You are Ada.', []]);
  const listed = { tenant: '', contextId: hello.contextId, status: 0, pageToken: '', statusTimestampAfter: undefined };
  const first = await chat.listTasks({ ...listed, pageSize: 1, includeArtifacts: true });
  assert.deepEqual([first.tasks.map((task) => task.id), first.totalSize, said(first.tasks[0])], [[next.task.id], 2, 'You are Ada.']);
  const second = await chat.listTasks({ ...listed, pageSize: 1, pageToken: first.nextPageToken });
  assert.deepEqual([second.tasks.map((task) => task.id), second.nextPageToken, second.tasks[0].artifacts], [[hello.id], '', []]);
  const failed = await chat.listTasks({ ...listed, status: TaskState.TASK_STATE_FAILED });
  assert.deepEqual([failed.tasks, failed.totalSize], [[], 0]);
  const later = await chat.listTasks({ ...listed, statusTimestampAfter: '2200-01-01T00:00:00Z' });
  assert.equal(later.totalSize, 0);

  // A repeated message is the same task.
  const once = request('Hello again.');
  const tasks = [await chat.sendMessage(once), await chat.sendMessage(once)];
  assert.equal(tasks[0].id, tasks[1].id);
  assert.equal((await follow(chat.sendMessageStream(once))).answer, 'Hello, Ada!');
  const other = request('Something else.', { messageId: once.message.messageId });
  await assert.rejects(chat.sendMessage(other), /used for another message/);

  // A question and its answer, as a text and as a value.
  const asks = await connect('asks', Factory);
  for (const answer of [[text('blue')], [data('blue')]]) {
    const asked = await follow(asks.sendMessageStream(request('Paint.')));
    assert.equal(asked.states.at(-1), TaskState.TASK_STATE_INPUT_REQUIRED);
    const [words, value] = asked.task.status.message.parts.map((part) => part.content.value);
    assert.match(words, /Which colour\?/);
    assert.deepEqual(value.schema, { type: 'string', enum: ['red', 'blue'] });
    await assert.rejects(asks.sendMessage(request('green', { taskId: asked.task.id })), /one of `red`, `blue`/);
    const painted = await follow(asks.sendMessageStream(request(answer, { taskId: asked.task.id, contextId: asked.task.contextId })));
    assert.deepEqual([painted.task.id, painted.answer], [asked.task.id, 'Painted blue.']);
    const { history } = await asks.getTask({ tenant: '', id: asked.task.id });
    assert.deepEqual(history.map((message) => [message.role, message.parts[0].content.value]),
      [[Role.ROLE_USER, 'Paint.'], [Role.ROLE_AGENT, 'Which colour?'], [Role.ROLE_USER, 'blue']]);
    await assert.rejects(asks.sendMessage(request('red', { taskId: asked.task.id })), UnsupportedOperationError);
  }

  // A decision is a value, and no text.
  const approves = await connect('approves', Factory);
  const waits = await approves.sendMessage(request('Hello.'));
  assert.equal(waits.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  assert.equal(waits.status.message.parts[1].content.value.toolCall.name, 'list_folder');
  await assert.rejects(approves.sendMessage(request('yes', { taskId: waits.id })), /a text is none/);
  const done = await approves.sendMessage(request([data({ decision: 'approve' })], { taskId: waits.id }));
  assert.deepEqual([done.status.state, said(done)], [TaskState.TASK_STATE_COMPLETED, 'Looked.']);

  // A task that goes on: not waited for, left and subscribed to again, cancelled.
  const hangs = await connect('hangs', Factory);
  const began = await hangs.sendMessage(request('Hello.', {}, configured({ returnImmediately: true })));
  assert([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(began.status.state));
  const pieces = [];
  for (let n = 0; n < 2; n += 1) {
    const stop = new AbortController();
    for await (const { payload } of hangs.resubscribeTask({ tenant: '', id: began.id }, { signal: stop.signal })) {
      if (payload.$case === 'artifactUpdate') {
        pieces.push(payload.value.artifact.parts[0].content.value);
        break;
      }
    }
    stop.abort();
  }
  assert.deepEqual(pieces, ['Well, ', 'Well, ']);
  let subscribed;
  await new Promise((begun, failed) => {
    subscribed = follow(hangs.resubscribeTask({ tenant: '', id: began.id }), begun);
    subscribed.catch(failed);
  });
  const cancelled = await hangs.cancelTask({ tenant: '', id: began.id, metadata: undefined });
  assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
  assert.equal((await subscribed).states.at(-1), TaskState.TASK_STATE_CANCELED);
  await assert.rejects(hangs.cancelTask({ tenant: '', id: began.id, metadata: undefined }), TaskNotCancelableError);
  await assert.rejects(follow(hangs.resubscribeTask({ tenant: '', id: began.id })), (error) =>
    error instanceof UnsupportedOperationError || error.cause instanceof UnsupportedOperationError);

  // What a model says before it calls a tool is in the artifact until it says more.
  const looks = await connect('looks', Factory);
  const seen = await follow(looks.sendMessageStream(request('Hello.')));
  assert.deepEqual([seen.answer, seen.last], ['There is nothing.', true]);

  // A failed run, and what is refused.
  const fails = await connect('fails', Factory);
  const failure = await fails.sendMessage(request('Hello.'));
  assert.equal(failure.status.state, TaskState.TASK_STATE_FAILED);
  assert.match(failure.status.message.parts[0].content.value, /no such key/);
  await assert.rejects(chat.getTask({ tenant: '', id: 'nothing' }), TaskNotFoundError);
  await assert.rejects(asks.getTask({ tenant: '', id: hello.id }), TaskNotFoundError);
  await assert.rejects(asks.sendMessage(request('Hello.', { contextId: hello.contextId })), TaskNotFoundError);
  await assert.rejects(chat.sendMessage(request([raw(Buffer.from('a'), 'audio/wav')])), ContentTypeNotSupportedError);
  await assert.rejects(chat.sendMessage(request('Hello.', {}, configured({ acceptedOutputModes: ['audio/wav'] }))),
    ContentTypeNotSupportedError);
  const push = configured({
    taskPushNotificationConfig: { tenant: '', id: '', taskId: '', url: 'http://127.0.0.1:1', token: '', authentication: undefined },
  });
  await assert.rejects(chat.sendMessage(request('Hello.', {}, push)), PushNotificationNotSupportedError);
  await assert.rejects(
    chat.transport.sendMessage(request('Hello.'), { serviceParameters: { 'A2A-Version': '2.0' } }), VersionNotSupportedError);
  const as = await connect('data', Factory);
  const value = await as.sendMessage(request([data({ name: 'Ada' })]));
  assert.deepEqual(value.artifacts[0].parts[0].content, { $case: 'data', value: { name: 'Ada', age: 36 } });
  await assert.rejects(as.sendMessage(request([data({ name: 1 })])), /name/);
  await assert.rejects(connect('chat', Factory, 'wrong'), /401/);
  await assert.rejects(connect('nothing', Factory), /404/);
}

await both(JsonRpcTransportFactory);
await both(RestTransportFactory);
console.log('done');
