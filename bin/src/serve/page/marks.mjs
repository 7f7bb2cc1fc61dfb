// Visible marks for characters that a reader cannot see, or that change the order in which the rest is drawn: as
// `rethread_events::marks` does it for terminals and logs. Both are tested on one table, `events/tests/marks.json`.

const HIDDEN = '\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}\\u{ad}\\u{34f}\\u{61c}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}'
  + '\\u{180b}-\\u{180f}\\u{200b}-\\u{200f}\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{3164}\\u{d800}-\\u{dfff}'
  + '\\u{fe00}-\\u{fe0f}\\u{feff}\\u{ffa0}\\u{fff0}-\\u{fffb}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}';
const ONE = new RegExp(`[${HIDDEN}]`, 'u');
const ALL = new RegExp(`[${HIDDEN}]`, 'gu');
// From here on, scripts and emoji need joiners and variation selectors to be written at all.
const JOINED_FROM = 0x0600;

const needs = (c) => c !== undefined && c.codePointAt(0) >= JOINED_FROM && !ONE.test(c);

// The characters around a place in a text.
function before(text, at) {
  if (at === 0) return undefined;
  const pair = at > 1 && text.codePointAt(at - 2) > 0xffff;
  return text.slice(at - (pair ? 2 : 1), at);
}
const after = (text, at) => (at < text.length ? String.fromCodePoint(text.codePointAt(at)) : undefined);

function joins(c, at, text) {
  if (c === '\u200c' || c === '\u200d') {
    const left = before(text, at);
    return (needs(left) || left === '\ufe0f') && needs(after(text, at + c.length));
  }
  return c >= '\ufe00' && c <= '\ufe0f' && needs(before(text, at));
}

function replaced(text, mark) {
  if (!ONE.test(text)) return text;
  return text.replace(ALL, (c, at) => {
    if (joins(c, at, text)) return c;
    return c === '\r' && text[at + 1] === '\n' ? '' : mark(c);
  });
}

/** The text with a visible mark, such as `⟨U+202E⟩`, in the place of each hidden character. */
export const marked = (text) =>
  replaced(String(text), (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);

/** JSON for a field in which it is edited: it means the same, with an escape in the place of each hidden character. */
export const marked_json = (value, indent) =>
  replaced(JSON.stringify(value, null, indent), (c) => [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join(''));

/** Whether a text holds characters that are marked. */
export const has_hidden = (text) => marked(text) !== text;
