// A server of its own with a log of its own, for a test of the page.

import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const PROGRAM = process.env.RETHREAD_PROGRAM;
export const HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script><b>bold</b>&amp;';

/** Streams an answer slowly enough to be watched, then asks a person, then ends. */
export const GREETING = {
  version: '1', name: 'greeting', variables: { mood: 'plain' },
  nodes: [
    { id: 'greet', llm: { provider: 'mock', model: 'scripted', user_prompt: 'Greet {{ input }}', stream: true, extra: { script: { answers: [{ chunks: ['Hello, ', 'Ada! ', 'How ', 'are ', 'you?'], chunk_delay_ms: 400 }] } } } },
    { id: 'ask', user_interaction: { operation_type: 'UPDATE_VARIABLES', prompt: 'Is that all?', variables: [{ variable_name: 'done', expression: '{{ input }}' }] } },
  ],
  edges: [{ from: 'greet', to: 'ask' }],
};

/** Asks at once. */
export const ASKING = { version: '1', name: 'asking', nodes: [{ id: 'ask', user_interaction: { operation_type: 'UPDATE_VARIABLES', prompt: 'Which colour?', variables: [{ variable_name: 'colour', expression: '{{ input }}' }] } }] };

/** Repeats what it is told, slowly enough to be watched. */
export const CHATTING = { version: '1', name: 'chatting', nodes: [{ id: 'answer', llm: {
  provider: 'mock', model: 'scripted', user_prompt: '{{ input }}', stream: true,
  extra: { script: { otherwise: { chunks: ['I ', 'am ', 'here.'], chunk_delay_ms: 200 } } },
} }] };

/** A model asks for a tool that a person has to approve of. */
export const APPROVING = {
  version: '1', name: 'approving',
  nodes: [{ id: 'look', llm: {
    provider: 'mock', model: 'scripted', user_prompt: 'Look around', tool_mode: 'auto', available_tools: ['list_folder'], approve_tools: ['list_folder'],
    extra: { script: { answers: [{ tool_calls: [{ name: 'list_folder', arguments: { path: 'nowhere' } }] }, { text: 'I have looked.' }] } },
  } }],
};

/** Two branches, one of which fails. */
export const BRANCHING = {
  version: '1', name: 'branching',
  nodes: [
    { id: 'look', llm: { provider: 'mock', model: 'scripted', user_prompt: 'Look', extra: { script: { answers: [{ text: 'I see.', delay_ms: 200 }] } } } },
    { id: 'split', fork: { branches: { good: 'work', bad: 'break' }, join: 'both' } },
    { id: 'work', llm: { provider: 'mock', model: 'scripted', user_prompt: 'Work', extra: { script: { answers: [{ text: 'Done.' }] } } } },
    { id: 'break', llm: { provider: 'mock', model: 'scripted', user_prompt: 'Break', extra: { script: { answers: [{ error: { kind: 'authentication', message: 'it broke, and this is why: the reason is long enough to take most of a line' } }] } } } },
    { id: 'both', join: { mode: 'all' } },
  ],
  edges: [{ from: 'look', to: 'split' }, { from: 'work', to: 'both' }, { from: 'break', to: 'both' }],
};

export class Place {
  listen = '127.0.0.1:0';

  /** A folder for a log, with no server yet. */
  static folder(...options) {
    const place = new Place();
    place.folder = mkdtempSync(join(tmpdir(), 'rethread-page-'));
    mkdirSync(join(place.folder, 'workspace'));
    place.options = options;
    return place;
  }

  static async open(...options) {
    const place = Place.folder(...options);
    await place.start();
    return place;
  }

  async start(listen = this.listen) {
    this.server = spawn(PROGRAM, ['serve', '--listen', listen, ...this.options], { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
    this.url = await new Promise((yes, no) => {
      createInterface(this.server.stderr).on('line', (line) => {
        const found = /serving .* at (http:\/\/\S+)/.exec(line);
        if (found) yes(found[1]);
      });
      this.server.once('exit', (code) => no(new Error(`the server ended with ${code}`)));
    });
    this.listen = new URL(this.url).host;
  }

  async kill() {
    const ended = new Promise((done) => this.server.once('exit', done));
    this.server.kill('SIGKILL');
    await ended;
  }

  run(...words) {
    return execFileSync(PROGRAM, words, { cwd: this.folder }).toString();
  }

  /** `body` is a value, or JSON as it is to be sent. */
  async ask(method, path, body) {
    const text = body && typeof body !== 'string' ? JSON.stringify(body) : body;
    const response = await fetch(`${this.url}${path}`, { method, headers: { 'Content-Type': 'application/json' }, body: text });
    const value = await response.json();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(value)}`);
    return value;
  }

  async thread(definition, input = 'Ada') {
    return (await this.ask('POST', '/v1/threads', { definition, input })).thread_id;
  }

  outcome(id) {
    return this.ask('GET', `/v1/threads/${id}/outcome?wait_ms=30000`);
  }

  async question(id) {
    await this.outcome(id);
    return (await this.ask('GET', `/v1/threads/${id}/interactions`)).interactions[0];
  }

  async close() {
    if (this.server && this.server.exitCode === null && this.server.signalCode === null) await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
