// Which rows of a long list are in sight.

// Browsers place nothing beyond some ten million pixels: a longer list scrolls faster than its rows.
const PIXELS_MAX = 8_000_000;

/** The height that the scrolled part is given. */
export const height = (n, row) => Math.min(n * row, PIXELS_MAX);

/** How far the top of the sight stands in the list, in pixels of rows, for a place of the scroll bar. */
export function offset(scrollTop, n, row, sight) {
  const [real, shown] = [n * row, height(n, row)];
  if (real === shown || shown <= sight) return scrollTop;
  return Math.min(1, Math.max(0, scrollTop / (shown - sight))) * (real - sight);
}

/** The place of the scroll bar for an offset: the other way round. */
export function scroll(top, n, row, sight) {
  const [real, shown] = [n * row, height(n, row)];
  if (real === shown || shown <= sight) return top;
  return (top / (real - sight)) * (shown - sight);
}

/** The rows in sight and some around them: first, and last behind it. */
export function range(top, n, row, sight, around = 6) {
  const first = Math.max(0, Math.floor(top / row) - around);
  const end = Math.min(n, Math.ceil((top + sight) / row) + around);
  return { first: Math.min(first, end), end };
}
