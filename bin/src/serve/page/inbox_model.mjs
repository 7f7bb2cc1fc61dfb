// The open questions of all threads, for the inbox, the badge and the list of threads.

import { read } from './api.mjs';

// The server looks into every thread that has not ended: asked no more often than this, and less often where it is slow.
const REST_MS = 300;

export class InboxModel {
  open = [];
  count = '0';
  unreadable = [];
  loaded = false;
  #watchers = new Set();
  #timer = null;
  #loading = false;
  #again = false;

  watch(watcher) {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  heard(events) {
    const ends = (type) => type.startsWith('USER_INTERACTION_') || /^THREAD_(CANCELLED|FAILED|COMPLETED|PAUSED|RESUMED)$/.test(type);
    if (events.some((event) => ends(event.type))) this.refresh();
  }

  refresh(wait = 0) {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#timer ??= setTimeout(() => this.#load(), wait);
  }

  async #load() {
    this.#timer = null;
    this.#loading = true;
    const began = Date.now();
    try {
      // More are not looked at at once.
      const { interactions, unreadable, next } = await read('/v1/interactions?limit=500');
      this.open = interactions;
      this.count = `${interactions.length}${next ? '+' : ''}`;
      this.unreadable = unreadable;
      this.loaded = true;
    } catch {
      // The badge is not worth a message: the connection says that something is wrong.
    }
    this.#loading = false;
    this.#watchers.forEach((watcher) => watcher());
    if (this.#again) {
      this.#again = false;
      this.refresh(Math.max(REST_MS, 5 * (Date.now() - began)));
    }
  }
}
