// The token of this page. It is kept for this tab and this origin: a cookie is sent to every port of a machine.

const NAME = 'rethread-token';

/** The token that requests are sent with; null when there is none. */
export const kept = () => sessionStorage.getItem(NAME);

export function keep(token) {
  if (token === null) sessionStorage.removeItem(NAME);
  else sessionStorage.setItem(NAME, token);
}

/** Keeps the token of an address that ends with `#token=…`, and removes it from there. Says whether there was one. */
export function take() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found === null) return false;
  keep(found[1]);
  history.replaceState(null, '', location.pathname);
  return true;
}

/** The header of a request with this token. */
export const authorization = (token = kept()) => (token === null ? {} : { Authorization: `Bearer ${token}` });
