// npm `openai` against the OpenAI-compatible door. Arguments: the base URL, and a token.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const messages = [{ role: 'user', content: 'Hello, I am Ada.' }];

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert(models.includes('chat'));
assert.equal((await client.models.retrieve('chat')).object, 'model');

const answer = await client.chat.completions.create({ model: 'chat', messages });
assert.equal(answer.choices[0].message.content, 'Hello, Ada!');
assert(answer.usage.total_tokens > 0);
const metadata = { thread_id: answer.metadata.thread_id };

const texts = [];
let usage;
const next = [{ role: 'user', content: 'What is my name?' }];
const stream = await client.chat.completions.create({
  model: 'chat', messages: next, metadata, stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  texts.push(chunk.choices[0]?.delta.content ?? '');
  usage = chunk.usage ?? usage;
}
assert.equal(texts.join(''), 'You are Ada.');
assert(usage.completion_tokens > 0);

// The helper that puts a stream together.
const whole = await client.chat.completions.stream({ model: 'chat', messages }).finalChatCompletion();
assert.equal(whole.choices[0].message.content, 'Hello, Ada!');

// The helpers that run tools.
const asked = [];
const confirm = (given) => {
  asked.push(given.what);
  return 'yes';
};
for (const [model, name] of [['pays', 'confirm'], ['brings', 'pick']]) {
  const tools = [{
    type: 'function',
    function: { name, description: 'Asks.', parameters: { type: 'object' }, parse: JSON.parse, function: confirm },
  }];
  const pay = { model, messages: [{ role: 'user', content: 'Pay.' }], tools };
  assert.equal(await client.chat.completions.runTools(pay).finalContent(), 'Paid.');
  assert.equal(await client.chat.completions.runTools({ ...pay, stream: true }).finalContent(), 'Paid.');
}
assert.deepEqual(asked, ['5 EUR', '6 EUR', '5 EUR', '6 EUR', '5 EUR', '6 EUR', '5 EUR', '6 EUR']);

await assert.rejects(client.chat.completions.create({ model: 'nothing', messages }), (error) => {
  assert(error instanceof OpenAI.NotFoundError);
  assert.equal(error.code, 'model_not_found');
  return true;
});
await assert.rejects(client.chat.completions.create({ model: 'chat', messages, n: 2 }), OpenAI.BadRequestError);
await assert.rejects(async () => {
  for await (const _ of await client.chat.completions.create({ model: 'fails', messages, stream: true }));
}, /no such key/);
await assert.rejects(new OpenAI({ baseURL, apiKey: 'wrong' }).models.list(), OpenAI.AuthenticationError);

// Responses: an answer, the next one, a stream of it, a cut one, and an error.
const hello = await client.responses.create({ model: 'chat', input: 'Hello, I am Ada.' });
assert.equal(hello.output_text, 'Hello, Ada!');
const second = { model: 'chat', input: 'What is my name?', previous_response_id: hello.id };
const kinds = [];
for await (const event of await client.responses.create({ ...second, stream: true })) kinds.push(event.type);
assert.deepEqual([kinds[0], kinds.at(-1)], ['response.created', 'response.completed']);
const final = await client.responses.stream(second).finalResponse();
assert.equal(final.output_text, 'You are Ada.');
assert.equal((await client.responses.retrieve(final.id)).output_text, 'You are Ada.');
const cut = await client.responses.create({ model: 'cut', input: 'Tell me a story.' });
assert.deepEqual([cut.status, cut.incomplete_details.reason], ['incomplete', 'max_output_tokens']);

// Tools of the client, in a stream, and what was answered.
for (const [model, name] of [['pays', 'confirm'], ['brings', 'pick']]) {
  const functions = [{ type: 'function', name, parameters: { type: 'object' }, strict: false }];
  const called = await client.responses.stream({ model, input: 'Pay.', tools: functions }).finalResponse();
  const outputs = called.output.filter((item) => item.type === 'function_call')
    .map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'yes' }));
  assert.equal(outputs.length, 2);
  const paid = await client.responses.create({
    model, input: outputs, tools: functions, previous_response_id: called.id,
  });
  assert.equal(paid.output_text, 'Paid.');
  const items = [];
  for await (const item of client.responses.inputItems.list(paid.id, { order: 'asc', limit: 1 })) items.push(item.type);
  assert.deepEqual(items, ['function_call_output', 'function_call_output']);
}
await assert.rejects(client.responses.create({ model: 'nothing', input: 'Hello.' }), OpenAI.NotFoundError);
console.log('done');
