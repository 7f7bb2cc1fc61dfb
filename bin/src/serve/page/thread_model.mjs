// One thread: what is known of it, its events as they come, its states as they were.

import { query, read } from './api.mjs';
import { Stream } from './live.mjs';
import { Streamed } from './streamed.mjs';

export const PAGE = 200;
const PAGES_MAX = 100;
const STATES_MAX = 12;
// How far back the beginning of an answer that is being given is looked for.
const STREAM_BACK = 5_000;
const STREAM_TYPES = 'LLM_CALL_REQUESTED,LLM_CALL_RETRIED,LLM_CALL_COMPLETED,LLM_CALL_FAILED,LLM_EXECUTION_PROGRESS';

/** Keeps the last so many values that were asked for. */
class Kept {
  #values = new Map();

  constructor(max) {
    this.max = max;
  }

  get(key, make) {
    const kept = this.#values.get(key) ?? make();
    this.#values.delete(key);
    this.#values.set(key, kept);
    if (this.#values.size > this.max) this.#values.delete(this.#values.keys().next().value);
    return kept;
  }

  peek(key) {
    return this.#values.get(key);
  }

  drop(key) {
    this.#values.delete(key);
  }
}

export class ThreadModel {
  summary = null;
  last = 0;
  // The last event that the stream gave. The server may say of later ones before they come.
  #heard_to = 0;
  streamed = new Streamed();
  #pages = new Kept(PAGES_MAX);
  #states = new Kept(STATES_MAX);
  #graphs = new Kept(STATES_MAX);
  #stream = null;
  #abort = new AbortController();

  /** `onEvents(events, changed)`: what came, and whether any of it is part of the state or a streamed text. */
  constructor(id, onEvents) {
    this.id = id;
    this.path = `/v1/threads/${id}`;
    this.onEvents = onEvents;
  }

  get ended() {
    return ['completed', 'cancelled', 'error'].includes(this.summary?.status);
  }

  async open() {
    await this.refresh();
    if (this.ended || this.#abort.signal.aborted) return;
    const from = this.last + 1;
    try {
      const back = { from_seq: Math.max(0, from - STREAM_BACK), types: STREAM_TYPES, limit: STREAM_BACK };
      const { events } = await this.read(query(`${this.path}/events`, back));
      for (const event of events) if (event.seq < from) this.streamed.add(event);
    } catch {
      // Without them an answer that is being given is shown when it is complete.
    }
    this.follow();
  }

  /** Hears of what comes, until the thread has ended. It may go on with another run: then this is called again. */
  follow() {
    if (this.#stream || this.#abort.signal.aborted) return;
    this.#heard_to = this.last;
    this.#stream = new Stream(query(`${this.path}/events`, { from_seq: this.last + 1 }), {
      onEvents: (events) => this.#heard(events),
      onEnd: () => {
        this.#stream = null;
        this.refresh().then(() => this.onEvents([]), () => {});
      },
    });
  }

  async refresh() {
    this.summary = await this.read(this.path);
    this.last = Math.max(this.last, this.summary.last_seq);
  }

  #heard(events) {
    const fresh = events.filter((event) => event.seq > this.#heard_to);
    for (const event of events) {
      this.streamed.add(event);
      const page = Math.floor(event.seq / PAGE);
      const kept = this.#pages.peek(page);
      // A page that was read before the event came would go without it.
      if (kept) kept.then((known) => known.set(event.seq, event), () => {});
    }
    this.#heard_to = Math.max(this.#heard_to, ...events.map((event) => event.seq));
    this.last = Math.max(this.last, this.#heard_to);
    this.onEvents(fresh);
  }

  streamed_only(event) {
    return event.type === 'LLM_EXECUTION_PROGRESS';
  }

  read(path) {
    return read(path, this.#abort.signal);
  }

  /** The events of a page, by seq. */
  page(number) {
    return this.#pages.get(number, () => {
      const path = query(`${this.path}/events`, { from_seq: number * PAGE, limit: PAGE });
      const page = this.read(path).then(({ events }) => new Map(events.filter((event) => Math.floor(event.seq / PAGE) === number).map((event) => [event.seq, event])));
      page.then((events) => { page.events = events; }, () => this.#pages.drop(number));
      return page;
    });
  }

  /** An event that was read before; undefined when it was not. */
  known(seq) {
    return this.#pages.peek(Math.floor(seq / PAGE))?.events?.get(seq);
  }

  async event(seq) {
    const number = Math.floor(seq / PAGE);
    const found = (await this.page(number)).get(seq);
    if (found) return found;
    this.#pages.drop(number);
    return (await this.page(number)).get(seq);
  }

  /** The state after an event; the present one for `null`. */
  state(at) {
    return this.#moment(this.#states, 'state', at);
  }

  graph(at) {
    return this.#moment(this.#graphs, 'graph', at);
  }

  #moment(kept, what, at) {
    const seq = at ?? this.last;
    return kept.get(seq, () => {
      const value = this.read(query(`${this.path}/${what}`, { seq }));
      value.catch(() => kept.drop(seq));
      return value;
    });
  }

  close() {
    this.#abort.abort();
    this.#stream?.stop();
  }
}
