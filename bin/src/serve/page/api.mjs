// The server, asked. What it refuses is thrown as a `Problem`.

import { parse } from './exact.mjs';
import { authorization } from './token.mjs';

const ANSWER_MS = 60_000;

/** What the server says when it does not do what it was asked: RFC 9457. */
export class Problem extends Error {
  constructor(status, document = {}) {
    super(document.detail ?? document.title ?? `the server answered ${status}`);
    this.status = status;
    this.kind = String(document.type ?? '').replace('urn:rethread:problem:', '');
    this.place = document.place ?? {};
  }
}

const listeners = new Set();
/** Tells whoever listens that the server wants a token. */
export const on_unauthorized = (listener) => listeners.add(listener);
export const unauthorized = () => listeners.forEach((listener) => listener());

/** `token` is tried in place of the one that is kept. */
export async function request(method, path, { body, signal, key, token } = {}) {
  const headers = { Accept: 'application/json', ...authorization(token) };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  const timeout = AbortSignal.timeout(ANSWER_MS);
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { detail: 'the server cannot be reached; nothing is lost, try again when it is back' });
  }
  const text = await response.text();
  let value = null;
  try {
    value = text ? parse(text) : null;
  } catch {
    value = { detail: `the server answered ${response.status} with something else than JSON` };
    if (response.ok) throw new Problem(response.status, value);
  }
  if (response.ok) return value;
  const problem = new Problem(response.status, value ?? {});
  if (response.status === 401 && token === undefined) unauthorized();
  throw problem;
}

export const read = (path, signal) => request('GET', path, { signal });
export const send = (path, body = {}, key) => request('POST', path, { body, key });

/** A path with parameters; those without a value are left out. */
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}

/** A key that makes a request that is sent twice count once. */
export const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, '0')).join('');

/** Sends a body once, however often it is sent: the same body has the same key, another one has another. */
export function once(path) {
  let [sent, its_key] = [null, null];
  return (body) => {
    const text = JSON.stringify(body);
    if (text !== sent) [sent, its_key] = [text, key()];
    return send(path, body, its_key);
  };
}
