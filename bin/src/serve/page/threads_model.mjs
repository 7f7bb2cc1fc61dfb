// A list of threads that grows at both ends: the newest first, pages of older ones behind.

export class ThreadsModel {
  rows = [];
  #places = new Map();
  /** The cursor of the next page; null when there is none. */
  next = null;

  get(id) {
    const place = this.#places.get(id);
    return place === undefined ? undefined : this.rows[place];
  }

  place(id) {
    return this.#places.get(id) ?? -1;
  }

  /** The first page: all there is. */
  reset({ threads, next }) {
    this.rows = [...threads];
    this.next = next;
    this.#index();
  }

  /** The page behind the last. */
  append({ threads, next }) {
    for (const thread of threads) {
      if (this.#places.has(thread.thread_id)) continue;
      this.#places.set(thread.thread_id, this.rows.length);
      this.rows.push(thread);
    }
    this.next = next;
  }

  /** The first page again, some time later: what is new comes in front. With a gap to what was there, it starts anew. */
  newest({ threads, next }) {
    const meets = threads.some((thread) => this.#places.has(thread.thread_id));
    if (!meets && threads.length > 0 && this.rows.length > 0 && next !== null) {
      this.reset({ threads, next });
      return;
    }
    const fresh = threads.filter((thread) => !this.#places.has(thread.thread_id));
    for (const thread of threads) this.update(thread);
    if (fresh.length > 0) {
      this.rows = [...this.rows, ...fresh].sort((a, b) => (a.thread_id < b.thread_id ? 1 : -1));
      this.#index();
    }
  }

  /** What is known of a thread now; what was asked for apart from it stays. Says whether it is in the list. */
  update(thread) {
    const place = this.#places.get(thread.thread_id);
    if (place === undefined) return false;
    this.rows[place] = { ...this.rows[place], ...thread };
    return true;
  }

  remove(id) {
    if (!this.#places.has(id)) return;
    this.rows.splice(this.#places.get(id), 1);
    this.#index();
  }

  #index() {
    this.#places = new Map(this.rows.map((row, i) => [row.thread_id, i]));
  }
}
