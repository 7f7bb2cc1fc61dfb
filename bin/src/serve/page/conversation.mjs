// A conversation as people read it: turns, and in each what was said, asked for and answered.

/** The parts of a message, each `{kind, text, ...}`, all of it to be shown as text. */
export function parts(message) {
  const content = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content ?? [];
  return content.map((part) => {
    switch (part.type) {
      case 'text': return { kind: 'text', text: part.text };
      case 'reasoning': return { kind: 'reasoning', text: part.text ?? (part.redacted ? '(redacted by the provider)' : '') };
      case 'refusal': return { kind: 'refusal', text: part.text };
      case 'tool_call':
        return { kind: 'call', name: part.name, id: part.id, text: part.arguments_raw ?? JSON.stringify(part.arguments, null, 2) };
      case 'tool_result':
        return { kind: part.is_error ? 'error' : 'result', name: part.name ?? '', id: part.tool_call_id, text: plain(part.content) };
      case 'image':
      case 'document':
        return { kind: 'file', text: `${part.type} ${part.media_type ?? ''} ${part.url ?? ''}`.trim() };
      default: return { kind: 'other', text: JSON.stringify(part) };
    }
  });
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
