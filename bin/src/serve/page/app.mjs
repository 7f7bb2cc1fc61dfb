// The page: which view is shown, what it shares with the others, and what stands above them all.

import { parse, address } from './route.mjs';
import { fill, h, notice, say, unseen } from './dom.mjs';
import { on_unauthorized, read } from './api.mjs';
import { Stream, on_state } from './live.mjs';
import { InboxModel } from './inbox_model.mjs';
import { keys } from './keys.mjs';
import { sign_in } from './sign_in.mjs';
import { threads_view } from './threads_view.mjs';
import * as token from './token.mjs';

// What changes a list of threads or the inbox.
const TOLD = [
  'THREAD_STARTED', 'RUN_STARTED', 'THREAD_FORKED', 'THREAD_PAUSED', 'THREAD_RESUMED', 'THREAD_CANCELLED', 'THREAD_COMPLETED',
  'THREAD_FAILED', 'NODE_STARTED', 'LLM_CALL_COMPLETED', 'USER_INTERACTION_REQUESTED', 'USER_INTERACTION_RESPONDED',
  'USER_INTERACTION_PROCESSED', 'USER_INTERACTION_FAILED',
];
const SCOPES = ['read', 'operate', 'admin'];
// What is not the first view is loaded when it is asked for.
const VIEWS = {
  threads: async () => threads_view,
  thread: async () => (await import('./thread_view.mjs')).thread_view,
  inbox: async () => (await import('./inbox_view.mjs')).inbox_view,
};

class App {
  route = parse(location.hash);
  info = null;
  inbox = new InboxModel();
  #view = null;
  #shown = null;
  #listeners = new Set();
  #skew = 0;
  #turn = 0;
  #feed = null;

  async start() {
    on_state((state) => this.#connection(state));
    on_unauthorized(() => this.#sign_in());
    addEventListener('hashchange', () => (token.take() ? location.reload() : this.#routed()));
    keys(this);
    document.getElementById('help').addEventListener('click', () => this.help());
    document.getElementById('sign-out').addEventListener('click', () => this.#sign_out());
    document.getElementById('sign-out').hidden = token.kept() === null;
    this.inbox.watch(() => this.#badge());
    await this.#begin();
  }

  /** The server's time, by this machine's clock. */
  now() {
    return Date.now() + this.#skew;
  }

  /** Whether whoever looks may do what takes this scope. */
  can(scope) {
    return this.info !== null && !this.info.read_only && SCOPES.indexOf(this.info.scope) >= SCOPES.indexOf(scope);
  }

  /** Whether the token is for threads with some labels only. The lists of workflows and profiles are not for it. */
  is_bound() {
    return Object.keys(this.info?.labels ?? {}).length > 0;
  }

  /** Goes to another view; `replace` leaves no trace for the back button. */
  go(route, { replace = false } = {}) {
    const to = address(route);
    if (to === location.hash) return;
    // Not by `location.hash`, which tells of it later: a key that comes before that would start from the old address.
    if (replace) history.replaceState(null, '', to);
    else history.pushState(null, '', to);
    this.#routed();
  }

  /** Hears of what happens in all threads, as lists of events. Gives what ends it. */
  hear(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get view() {
    return this.#view;
  }

  async #begin() {
    try {
      this.info = await read('/v1/info');
    } catch (problem) {
      if (problem.status === 401) return;
      this.#connection('lost');
      fill(document.getElementById('main'), h('p.empty', {}, problem.message));
      setTimeout(() => this.#begin(), 2_000);
      return;
    }
    this.#skew = Date.parse(this.info.now) - Date.now();
    document.body.classList.toggle('read-only', !this.can('operate'));
    this.#feed ??= new Stream(`/v1/events?after=now&types=${TOLD.join(',')}`, {
      onEvents: (events) => {
        this.inbox.heard(events);
        this.#listeners.forEach((listener) => listener(events));
      },
    });
    this.inbox.refresh();
    this.#routed();
  }

  async #routed() {
    if (this.info === null) return;
    this.route = parse(location.hash);
    const { view, id } = this.route;
    const shown = `${view} ${id ?? ''}`;
    for (const name of ['threads', 'inbox']) {
      const is_here = name === view || (name === 'threads' && view === 'thread');
      const link = document.getElementById(`nav-${name}`);
      if (is_here) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (shown === this.#shown) {
      this.#view.update(this.route);
      return;
    }
    const turn = (this.#turn += 1);
    let make;
    try {
      make = await VIEWS[view]();
    } catch {
      notice('The page cannot load this view: is the server there? Try again.', 'bad');
      return;
    }
    if (turn !== this.#turn || this.info === null) return;
    this.#view?.close();
    this.#shown = shown;
    this.#view = make(this, this.route);
    fill(document.getElementById('main'), this.#view.element);
    this.#view.focus?.();
  }

  #sign_in() {
    this.info = null;
    this.#feed?.stop();
    this.#feed = null;
    this.#view?.close();
    this.#view = null;
    this.#shown = null;
    this.#connection('signed out');
    document.getElementById('sign-out').hidden = true;
    sign_in(document.getElementById('main'), () => {
      document.getElementById('sign-out').hidden = false;
      this.#begin();
    });
  }

  #sign_out() {
    token.keep(null);
    this.#sign_in();
  }

  #connection(state) {
    const words = {
      live: 'live', connecting: 'connecting…', lost: 'connection lost, trying again…', hidden: 'resting', 'signed out': 'signed out',
    };
    const element = document.getElementById('connection');
    element.dataset.state = state;
    say(element, words[state]);
  }

  #badge() {
    const badge = document.getElementById('inbox-count');
    const n = this.inbox.count;
    badge.hidden = n === '0';
    fill(badge, n, unseen(' open'));
    document.title = n === '0' ? 'rethread' : `(${n}) rethread`;
  }
}

token.take();
new App().start();
