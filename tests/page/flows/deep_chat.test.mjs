// deep-chat, a chat page of others, against the OpenAI-compatible door: from another origin, with its own code for OpenAI.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { Browser } from '../browser.mjs';
import { Place } from '../place.mjs';

const BUNDLE = readFileSync(process.env.RETHREAD_DEEP_CHAT);

/** Answers what it is told. */
const PARROT = { version: '1', variables: { instructions: '' }, nodes: [{ id: 'answer', llm: {
  provider: 'mock', model: 'scripted', system_prompt: '{{ instructions }}', user_prompt: '{{ input }}', stream: true,
  extra: { script: { answers: [{ match: 'my name', chunks: ['You ', 'are ', 'Ada.'], chunk_delay_ms: 50 }], otherwise: { chunks: ['Hello, ', 'Ada!'], chunk_delay_ms: 50 } } },
} }] };

/** The page; its requests to OpenAI go to the server. */
const page_of = (url, mode) => `<!doctype html><title>chat</title><deep-chat></deep-chat>
<script>
  const real = window.fetch;
  window.fetch = (to, how) => real(String(to).replace('https://api.openai.com/v1', '${url}/v1'), how);
</script>
<script type="module" src="/deep-chat.js"></script>
<script type="module">
  const chat = document.querySelector('deep-chat');
  chat.connect = { stream: true };
  chat.directConnection = { openAI: { key: 'none', ${mode}: { model: 'parrot', system_prompt: 'Be kind.' } } };
</script>`;

let [pages, place, browser] = [];
before(async () => {
  pages = createServer(({ url }, response) => {
    if (url === '/deep-chat.js') response.setHeader('Content-Type', 'text/javascript').end(BUNDLE);
    else response.setHeader('Content-Type', 'text/html').end(page_of(place.url, url.slice(1)));
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

for (const mode of ['completions', 'chat']) {
  test(`a person talks with a workflow in deep-chat, with its mode ${mode}`, async () => {
    const page = await browser.page(`http://127.0.0.1:${pages.address().port}/${mode}`);
    const said = "document.querySelector('deep-chat').getMessages().map(({ role, text }) => role + ': ' + text).join('\\n')";
    const talk = async (text, conversation) => {
      await page.until("document.querySelector('deep-chat')?.shadowRoot?.querySelector('#text-input')");
      await page.value("document.querySelector('deep-chat').focusInput()");
      await page.type(text);
      // The page takes no message before the answer to the last one is complete.
      const is_sent = `${said}.includes(${JSON.stringify(`user: ${text}`)})`;
      while (!(await page.value(is_sent))) await page.press('Enter');
      await page.until(`${said} === ${JSON.stringify(conversation)}`);
    };
    await talk('Hello.', 'user: Hello.\nai: Hello, Ada!');
    await talk('What is my name?', 'user: Hello.\nai: Hello, Ada!\nuser: What is my name?\nai: You are Ada.');
    // It loads a font from elsewhere.
    assert.deepEqual(page.faults.filter((fault) => !fault.includes('fonts.')), []);
  });
}
