// Each view has an address behind the `#`, so that a reload and the back button lead to it again.

export const TABS = ['timeline', 'events', 'graph', 'state', 'messages'];
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const whole = (text) => (/^\d{1,15}$/.test(text ?? '') ? Number(text) : null);

/** The view that an address names; the list of threads when it names none. */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split('?', 2);
  const given = new URLSearchParams(query);
  const [view, id, tab] = path.split('/').filter(Boolean);
  if (view === 'inbox') return { view: 'inbox', question: given.get('question') };
  if (view === 'threads' && ID.test(id ?? '')) {
    return {
      view: 'thread',
      id,
      tab: TABS.includes(tab) ? tab : 'timeline',
      at: whole(given.get('at')),
      seq: whole(given.get('seq')),
      only: given.get('only') ?? '',
    };
  }
  const filters = { status: given.get('status') ?? '', workflow: given.get('workflow') ?? '', search: given.get('search') ?? '' };
  return { view: 'threads', ...filters, branches: given.get('branches') === 'yes' };
}

/** The address of a view. */
export function address(route) {
  const query = new URLSearchParams();
  const add = (name, value) => {
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  };
  let path = '/threads';
  if (route.view === 'inbox') {
    path = '/inbox';
    add('question', route.question);
  } else if (route.view === 'thread') {
    path = `/threads/${route.id}/${route.tab ?? 'timeline'}`;
    for (const name of ['at', 'seq', 'only']) add(name, route[name]);
  } else {
    add('status', route.status);
    add('workflow', route.workflow);
    add('search', route.search);
    add('branches', route.branches ? 'yes' : '');
  }
  const text = query.toString();
  return `#${path}${text ? `?${text}` : ''}`;
}
