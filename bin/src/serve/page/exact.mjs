// JSON whose whole numbers keep all their digits: one of 19 digits is the name of something, and another one is another.

const can = typeof JSON.rawJSON === 'function';
// Few texts have such a number, and only they are read the slower way.
const LONG = /(^|[:[,\s])-?\d{16}/;

const keep = (_, value, context) => (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source) ? JSON.rawJSON(context.source) : value);

/** As `JSON.parse`. A number that JavaScript cannot hold is an object that `JSON.stringify` writes as it was. */
export const parse = (text) => (can && LONG.test(text) ? JSON.parse(text, keep) : JSON.parse(text));

/** The digits of such a number; null for any other value. */
export const digits = (value) => (can && JSON.isRawJSON(value) ? value.rawJSON : null);

/** Whether digits of a number in this value were lost: in browsers that cannot keep them. */
export function is_blurred(value) {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value);
  return value !== null && typeof value === 'object' && Object.values(value).some(is_blurred);
}
