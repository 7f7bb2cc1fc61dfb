// A stream of events that stays: it comes back after every break, behind the last event that came.

import { parse } from './exact.mjs';
import { Reader, logged } from './sse.mjs';
import { unauthorized } from './api.mjs';
import { authorization } from './token.mjs';

// The server says something every 15 seconds.
const SILENCE_MS = 40_000;
const WAIT_MAX_MS = 10_000;

const streams = new Set();
const watchers = new Set();

/** How all streams are: `live`, `connecting`, `lost` or `hidden`; told to whoever watches. */
export const on_state = (watcher) => watchers.add(watcher);
function tell() {
  const states = [...streams].map((stream) => stream.state);
  const first = ['lost', 'connecting', 'live'].find((state) => states.includes(state)) ?? 'live';
  watchers.forEach((watcher) => watcher(first));
}

export class Stream {
  #stopped = false;
  #abort = null;
  #failures = 0;
  #wake = null;

  /**
   * `path` without `Last-Event-ID`; `onEvents` gets lists of events of the log, once a frame at most; `onEnd` is called
   * when nothing can follow any more.
   */
  constructor(path, { onEvents, onEnd = () => {} }) {
    this.path = path;
    this.state = 'connecting';
    this.lastId = null;
    this.onEvents = onEvents;
    this.onEnd = onEnd;
    this.seen = this.seen.bind(this);
    document.addEventListener('visibilitychange', this.seen);
    streams.add(this);
    this.#run();
  }

  /** A page that nobody sees holds no connection: a browser has six for a server. */
  seen() {
    if (document.hidden) this.#abort?.abort();
    else this.#wake?.();
  }

  stop() {
    this.#stopped = true;
    this.#abort?.abort();
    this.#wake?.();
    document.removeEventListener('visibilitychange', this.seen);
    streams.delete(this);
    tell();
  }

  #to(state) {
    this.state = state;
    tell();
  }

  async #run() {
    while (!this.#stopped) {
      if (document.hidden) {
        this.#to('hidden');
        await this.#pause(null);
        continue;
      }
      const ended = await this.#once();
      if (this.#stopped) return;
      if (ended) {
        this.stop();
        this.onEnd();
        return;
      }
      if (document.hidden) continue;
      this.#failures += 1;
      this.#to('lost');
      const wait = Math.min(WAIT_MAX_MS, 250 * 2 ** this.#failures);
      await this.#pause(wait * (0.5 + Math.random() / 2));
    }
  }

  #pause(ms) {
    return new Promise((done) => {
      const timer = ms === null ? null : setTimeout(done, ms);
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  // One connection; says whether the server has no more for good.
  async #once() {
    this.#abort = new AbortController();
    const reader = new Reader(this.lastId);
    let watch = null;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => this.#abort.abort(), SILENCE_MS);
    };
    alive();
    try {
      const headers = { Accept: 'text/event-stream', ...authorization() };
      if (this.lastId !== null) headers['Last-Event-ID'] = this.lastId;
      const response = await fetch(this.path, { headers, signal: this.#abort.signal, cache: 'no-store' });
      if (response.status === 204) return true;
      if (response.status === 401) unauthorized();
      if (response.status === 404) return true;
      if (!response.ok) return false;
      const body = response.body.pipeThrough(new TextDecoderStream()).getReader();
      this.#to('live');
      for (;;) {
        const { done, value } = await body.read();
        if (done) return false;
        alive();
        this.#failures = 0;
        const events = reader.push(value).filter((event) => event.event !== 'problem');
        this.lastId = reader.lastId;
        if (events.length > 0) this.onEvents(events.map((event) => logged(parse(event.data))));
      }
    } catch {
      return false;
    } finally {
      clearTimeout(watch);
    }
  }
}
