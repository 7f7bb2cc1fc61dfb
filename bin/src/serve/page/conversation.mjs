// A conversation as people read it: turns, and in each what was said, asked for and answered.

// What browsers show themselves. SVG is not among it: it can hold scripts.
const IMAGES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const RECORDINGS = ['audio/mpeg', 'audio/mp3', 'audio/wav', 'audio/x-wav', 'audio/ogg', 'audio/mp4', 'audio/aac', 'audio/flac', 'audio/webm'];

/** The parts of a message, each `{kind, text, ...}`, all of it to be shown as text; its sources come last. */
export function parts(message) {
  const content = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content ?? [];
  const named = sources(content);
  return [...content.map(of_part), ...(named.length > 0 ? [{ kind: 'sources', text: '', sources: named }] : [])];
}

/** The sources of the texts of a message, each once: `{text, href}`; `href` is null for what is no page of the web. */
export function sources(content) {
  const found = new Map();
  for (const { annotations = [] } of content) {
    for (const { url, title, document, quote } of annotations ?? []) {
      const text = title || url || document || 'unnamed source';
      const key = url ?? `${document} ${title}`;
      if (!found.has(key)) found.set(key, { text, href: web(url), quote: quote ?? null });
    }
  }
  return [...found.values()];
}

// An address of the web as it is, or null.
function web(address) {
  try {
    return ['http:', 'https:'].includes(new URL(address).protocol) ? address : null;
  } catch {
    return null;
  }
}

// An image, a recording or a file: `shown` is how, and `href` a URL with all of its bytes.
function media(part) {
  const type = (part.media_type ?? '').split(';')[0].trim().toLowerCase();
  const name = (part.name ?? '').split(/[/\\]/).pop() || part.type;
  const text = `${part.type} ${part.name ?? ''} ${part.media_type ?? ''}`.replace(/\s+/g, ' ').trim();
  const bytes = (part.data ?? '').replace(/-/g, '+').replace(/_/g, '/');
  if (!/^[A-Za-z0-9+/]+=*$/.test(bytes)) return { kind: 'file', text: `${text} ${part.url ?? ''}`.trim(), name, shown: 'link', href: web(part.url) };
  const shown = IMAGES.includes(type) ? 'image' : RECORDINGS.includes(type) ? 'audio' : 'download';
  // A browser saves what it does not show, whatever its type claims to be.
  return { kind: 'file', text, name, shown, href: `data:${shown === 'download' ? 'application/octet-stream' : type};base64,${bytes}` };
}

function of_part(part) {
  switch (part.type) {
    case 'text': return { kind: 'text', text: part.text };
    case 'reasoning': return { kind: 'reasoning', text: part.text ?? (part.redacted ? '(redacted by the provider)' : '') };
    case 'refusal': return { kind: 'refusal', text: part.text };
    case 'tool_call':
      return { kind: 'call', name: part.name, id: part.id, text: part.arguments_raw ?? JSON.stringify(part.arguments, null, 2) };
    case 'tool_result':
      return { kind: part.is_error ? 'error' : 'result', name: part.name ?? '', id: part.tool_call_id, text: plain(part.content) };
    case 'image':
    case 'audio':
    case 'document': return media(part);
    case 'provider_tool': return { kind: 'call', name: `${part.name} of ${part.provider}`, id: part.id, text: JSON.stringify(part.data, null, 2) };
    default: return { kind: 'other', text: JSON.stringify(part) };
  }
}

function plain(content) {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => part.text ?? `(${part.type})`).join('\n');
}

/**
 * The messages of the present with those marked that a moment of the past did not have. When what was said before was
 * summarised since, only that moment's are given.
 */
export function with_future(now, then, same) {
  // Instructions that others took the place of since are not among those of the present.
  const said = (messages) => messages.filter((message) => message.role !== 'system');
  const [was, is] = [said(then), said(now)];
  const grew = was.length <= is.length && was.every((message, i) => same(message, is[i]));
  const past = then.map((message) => ({ message, future: false }));
  return grew ? [...past, ...is.slice(was.length).map((message) => ({ message, future: true }))] : past;
}
