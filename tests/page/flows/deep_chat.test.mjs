// deep-chat, a chat page of others, against the OpenAI-compatible door: from another origin, with its own code for OpenAI.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { Browser } from '../browser.mjs';
import { Place } from '../place.mjs';

const BUNDLE = readFileSync(process.env.RETHREAD_DEEP_CHAT);

/** Answers what it is told. If it is to wait, it says something, calls a tool, and then says nothing for an hour. */
const PARROT = { version: '1', variables: { instructions: '' }, nodes: [{ id: 'answer', llm: {
  provider: 'mock', model: 'scripted', system_prompt: '{{ instructions }}', user_prompt: '{{ input }}', stream: true, tool_mode: 'auto',
  extra: { script: {
    answers: [
      { match: 'my name', text: 'You are Ada.' },
      { match: 'Hello', text: 'Hello, Ada!' },
      { match: 'Wait', chunks: ['One moment'], tool_calls: [{ name: 'list_folder', arguments: {} }] },
    ],
    otherwise: { text: 'never', delay_ms: 3_600_000 },
  } },
} }] };

/** The page; its requests to OpenAI go to the server. */
const page_of = (url, mode, stream) => `<!doctype html><title>chat</title><body></body>
<script>
  const real = window.fetch;
  window.fetch = (to, how) => real(String(to).replace('https://api.openai.com/v1', '${url}/v1'), how);
</script>
<script type="module">
  await import('/deep-chat.js');
  const chat = document.createElement('deep-chat');
  chat.connect = { stream: ${stream} };
  chat.directConnection = { openAI: { key: 'none', ${mode}: { model: 'parrot', system_prompt: 'Be kind.' } } };
  chat.onComponentRender = () => { window.is_ready = true; };
  document.body.append(chat);
</script>`;

let [pages, place, browser] = [];
before(async () => {
  pages = createServer(({ url }, response) => {
    if (url === '/deep-chat.js') response.setHeader('Content-Type', 'text/javascript').end(BUNDLE);
    else response.setHeader('Content-Type', 'text/html').end(page_of(place.url, ...url.slice(1).split('/')));
  });
  await new Promise((listens) => pages.listen(0, '127.0.0.1', listens));
  place = await Place.open('--allow-origin', `http://127.0.0.1:${pages.address().port}`);
  // In its mode `completions` the page asks for the model of its own choice.
  for (const name of ['parrot', 'gpt-4o']) await place.ask('POST', '/v1/workflows', { ...PARROT, name });
  browser = await Browser.launch();
});
after(async () => {
  await browser?.close();
  await place?.close();
  pages?.close();
});

/** What was said, one line for each message. */
const SAID = "document.querySelector('deep-chat').getMessages().map(({ role, text }) => role + ': ' + text).join('\\n')";

async function talk(page, text, conversation) {
  await page.until('window.is_ready');
  await page.value("document.querySelector('deep-chat').focusInput()");
  await page.type(text);
  // The page takes no message before the answer to the last one is complete.
  const is_sent = `${SAID}.includes(${JSON.stringify(`user: ${text}`)})`;
  while (!(await page.value(is_sent))) await page.press('Enter');
  await page.until(`${SAID} === ${JSON.stringify(conversation)}`);
  // It loads a font from elsewhere.
  assert.deepEqual(page.faults.filter((fault) => !fault.includes('fonts.')), []);
}

for (const mode of ['completions', 'chat']) {
  const open = (stream) => browser.page(`http://127.0.0.1:${pages.address().port}/${mode}/${stream}`);

  test(`a person talks with a workflow in deep-chat, with its mode ${mode}`, async () => {
    const page = await open(false);
    await talk(page, 'Hello.', 'user: Hello.\nai: Hello, Ada!');
    await talk(page, 'What is my name?', 'user: Hello.\nai: Hello, Ada!\nuser: What is my name?\nai: You are Ada.');
  });

  // Not up to the end: the page sometimes drops a piece that arrives together with the end of the stream.
  test(`deep-chat shows an answer before it is complete, with its mode ${mode}`, async () => {
    await talk(await open(true), 'Wait.', 'user: Wait.\nai: One moment');
  });
}
