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
console.log('done');
