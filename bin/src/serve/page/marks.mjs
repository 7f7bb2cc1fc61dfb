// Visible marks for characters that a reader cannot see, or that change the order in which the rest is drawn, and for
// long runs of blanks: as `rethread_events::marks` does it for terminals and logs. Both are tested on one table,
// `events/tests/marks.json`.

const HIDDEN = '\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}\\u{ad}\\u{34f}\\u{61c}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}'
  + '\\u{180b}-\\u{180f}\\u{200b}-\\u{200f}\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{3164}\\u{d800}-\\u{dfff}'
  + '\\u{fe00}-\\u{fe0f}\\u{feff}\\u{ffa0}\\u{fff0}-\\u{fffb}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}';
const BLANK = '\\t\\n \\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{202f}\\u{205f}\\u{2800}\\u{3000}';
// Blanks within a line, or line breaks, that are shown as they are; more are counted.
const BLANKS_MAX = 8;
// The same at the beginning of a line.
const INDENT_MAX = 40;
const ONE = new RegExp(`[${HIDDEN}]`, 'u');
const IS_BLANK = new RegExp(`[${BLANK}]`, 'u');
const SOME = new RegExp(`[${HIDDEN}]|[${BLANK}]{${BLANKS_MAX + 1}}`, 'u');
// From here on, scripts and emoji need joiners and variation selectors to be written at all.
const JOINED_FROM = 0x0600;
// Scripts beyond that which have no joiners: Chinese, Japanese, Korean, and the wide forms of others.
const UNJOINED = /[\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\u{20000}-\u{3ffff}]/u;

const needs = (c) => c !== undefined && c.codePointAt(0) >= JOINED_FROM && !ONE.test(c);

const joined = (c) => needs(c) && !UNJOINED.test(c);

function joins(before, c, after) {
  if (c === '\u200c' || c === '\u200d') return (joined(before) || before === '\ufe0f') && joined(after);
  return c >= '\ufe00' && c <= '\ufe0f' && needs(before);
}

// The text with `hidden(character, how many)` in the place of each run of a hidden character, and `blanks(run, whether it
// begins the text)` in that of each run of blanks. A line break of two characters becomes one.
function replaced(text, hidden, blanks) {
  if (!SOME.test(text)) return text;
  let [shown, run, last, n] = ['', '', null, 0];
  const flush = () => {
    if (run !== '') shown += blanks(run, shown === '');
    if (n > 0) shown += hidden(last, n);
    [run, last, n] = ['', null, 0];
  };
  const chars = [...text];
  chars.forEach((c, i) => {
    if (IS_BLANK.test(c)) {
      if (n > 0) flush();
      run += c;
    } else if (!ONE.test(c) || joins(chars[i - 1], c, chars[i + 1])) {
      flush();
      shown += c;
    } else if (!(c === '\r' && chars[i + 1] === '\n')) {
      if (run !== '' || c !== last) flush();
      [last, n] = [c, n + 1];
    }
  });
  flush();
  return shown;
}

const KINDS = { ' ': 'spaces', '\t': 'tabs', '\n': 'newlines' };
const code = (c) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

function counted(run) {
  const first = run[0];
  if ([...run].some((c) => c !== first)) return `⟨${run.length} blanks⟩`;
  return KINDS[first] ? `⟨${run.length} ${KINDS[first]}⟩` : `⟨${run.length}×${code(first)}⟩`;
}

function blanks(run, begins) {
  const within = (part, most) => (part.length > most ? counted(part) : part);
  const [first, last] = [run.indexOf('\n'), run.lastIndexOf('\n')];
  if (first < 0) return within(run, begins ? INDENT_MAX : BLANKS_MAX);
  const lines = run.slice(first, last + 1).split('\n');
  const breaks = lines.length - 1 > BLANKS_MAX ? `${counted(run.slice(first, last + 1))}\n` : lines.map((line) => within(line, INDENT_MAX)).join('\n');
  return within(run.slice(0, first), begins ? INDENT_MAX : BLANKS_MAX) + breaks + within(run.slice(last + 1), INDENT_MAX);
}

/** The text with a visible mark, such as `⟨U+202E⟩` or `⟨3000 spaces⟩`, in the place of what a reader cannot see. */
export const marked = (text) => replaced(String(text), (c, n) => (n > 1 ? `⟨${n}×${code(c)}⟩` : `⟨${code(c)}⟩`), blanks);

const escaped = (text) => [...Array(text.length).keys()].map((i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');

/** JSON for a field in which it is edited: it means the same, with an escape in the place of what a reader cannot see. */
export const marked_json = (value, indent) => replaced(JSON.stringify(value, null, indent),
  (c, n) => escaped(c).repeat(n),
  // A line break stands between values, what is within a line in a text.
  (run) => (run.length > BLANKS_MAX && !run.includes('\n') ? escaped(run) : run));

/** Whether a text holds characters that are marked. */
export const has_hidden = (text) => marked(text) !== text;
