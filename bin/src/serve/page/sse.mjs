// Server-sent events out of pieces of text, as the specification of `text/event-stream` says.

/** Takes pieces as they come; gives the events that are complete. `lastId` is where to go on. */
export class Reader {
  #rest = '';
  #fields = {};

  constructor(lastId = null) {
    this.lastId = lastId;
    this.retryMs = null;
  }

  push(piece) {
    const events = [];
    let text = this.#rest + piece;
    // A carriage return at the end may be the first half of a line's end.
    const held = text.endsWith('\r') ? '\r' : '';
    if (held) text = text.slice(0, -1);
    const lines = text.split(/\r\n|\n|\r/);
    this.#rest = lines.pop() + held;
    for (const line of lines) {
      if (line === '') {
        const event = this.#done();
        if (event) events.push(event);
      } else {
        this.#field(line);
      }
    }
    return events;
  }

  #field(line) {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.#fields.data = this.#fields.data === undefined ? value : `${this.#fields.data}\n${value}`;
    if (name === 'event') this.#fields.event = value;
    if (name === 'id' && !value.includes('\0')) this.#fields.id = value;
    if (name === 'retry' && /^\d{1,6}$/.test(value)) this.retryMs = Number(value);
  }

  #done() {
    const { data, event = 'message', id } = this.#fields;
    this.#fields = {};
    if (id !== undefined) this.lastId = id;
    return data === undefined ? null : { event, data, id: this.lastId };
  }
}

/** An event of the log out of its CloudEvent, in the shape that pages of events have. */
export function logged(cloud) {
  return {
    position: Number(cloud.position),
    thread_id: cloud.threadid,
    seq: Number(cloud.sequence),
    run_id: cloud.runid === undefined ? null : Number(cloud.runid),
    time: cloud.time,
    type: /^rethread\.([A-Z_]+)\.v\d+$/.exec(cloud.type)?.[1] ?? cloud.type,
    cause: cloud.cause === undefined ? null : Number(cloud.cause),
    hash: cloud.hash,
    trace_id: cloud.traceid,
    data: cloud.data,
  };
}
