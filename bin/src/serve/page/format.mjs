// Numbers and times as people read them.

import { marked } from './marks.mjs';

/** Milliseconds since 1970 of a time in RFC 3339, microseconds included: `Date` would drop them. */
export function millis(time) {
  const whole = Date.parse(time);
  const fraction = /\.(\d{3})(\d{3})/.exec(time);
  return fraction ? whole + Number(fraction[2]) / 1000 : whole;
}

/** A length of time, from microseconds to days. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '';
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms === 0) return '0';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7_200) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${Math.round(s / 3_600)} h`;
  return `${Math.round(s / 86_400)} days`;
}

/** How long ago something was; what the clocks disagree about counts as now. */
export function age(time, now) {
  const ms = Math.max(0, now - millis(time));
  return ms < 1000 ? 'now' : duration(ms);
}

/** A count, with thin spaces between thousands. */
export function count(n) {
  if (n === null || n === undefined) return '';
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** Tokens, cut to three figures. */
export function tokens(n) {
  if (n === null || n === undefined) return '';
  if (n < 1_000) return String(n);
  if (n < 1_000_000) return `${(n / 1_000).toPrecision(3)} k`;
  return `${(n / 1_000_000).toPrecision(3)} M`;
}

/** Billionths of a dollar as dollars; nothing where the cost is not known. */
export function cost(nanousd) {
  if (nanousd === null || nanousd === undefined) return '';
  const usd = nanousd / 1e9;
  if (usd === 0) return '$0';
  if (usd < 0.0001) return '<$0.0001';
  return usd < 1 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** The time of day; with the date unless it is today's. */
export function clock(time, now = Date.now()) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return '';
  const two = (n) => String(n).padStart(2, '0');
  const fraction = String(date.getMilliseconds()).padStart(3, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time_of_day = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${fraction}`;
  return new Date(now).toDateString() === date.toDateString() ? time_of_day : `${day} ${time_of_day}`;
}

/** The end of an id: its beginning is the time, which neighbours share. */
export const short = (id) => id.slice(-8);

/** A text on one line, cut to so many characters. */
export function line(text, max = 160) {
  const given = String(text ?? '');
  // A run of blanks is counted whole.
  const blanks = /^\s*/.exec(given.slice(max * 4))[0].length;
  const flat = marked(given.slice(0, max * 4 + blanks)).replace(/\s+/g, ' ').trim();
  return flat.length > max ? `${flat.slice(0, max - 1)}…` : flat;
}

/** A value on one line: a text as it is, anything else as JSON. */
export const value = (given, max) => line(typeof given === 'string' ? given : JSON.stringify(given), max);
