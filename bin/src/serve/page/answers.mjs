// The answer to a question, out of what somebody typed.

import { parse } from './exact.mjs';

/** What kind of form a question wants: `approve`, `choice`, `fields`, `link` or `text`. */
export function form(question) {
  const operation = question.operation_type.toUpperCase();
  if (operation === 'APPROVE_TOOL') return 'approve';
  if (operation === 'INFORM_TOOL') return question.metadata?.schema ? 'fields' : 'link';
  if (Array.isArray(question.metadata?.choices)) return 'choice';
  return 'text';
}

/** JSON where it reads as JSON, else the text as it is: as the command line takes answers. */
export function plain(text) {
  try {
    return parse(text);
  } catch {
    return text;
  }
}

/** A JSON object out of a text; throws an error that says what is wrong with it. */
export function object(text, what) {
  let parsed;
  try {
    parsed = parse(text);
  } catch (error) {
    throw new Error(`${what}: this is not JSON (${error.message})`);
  }
  if (parsed === null || typeof parsed !== 'object' || Array.isArray(parsed)) {
    throw new Error(`${what}: expected a JSON object, such as {"name": "value"}`);
  }
  return parsed;
}

/** The answer for what was typed; throws an error that says what is missing. */
export function answer(question, { decision, text = '', json = false }) {
  if (form(question) === 'approve') {
    switch (decision) {
      case 'approve': return { decision };
      case 'edit': return { decision, arguments: object(text, 'the arguments') };
      case 'reject': return text.trim() ? { decision, reason: text } : { decision };
      case 'answer': return { decision, content: plain(text) };
      default: throw new Error('choose what to do with the call');
    }
  }
  if (decision === 'reject') return { decision: 'reject' };
  if (form(question) === 'fields') return object(text, 'the answer');
  if (form(question) === 'link') return true;
  if (json) {
    try {
      return parse(text);
    } catch (error) {
      throw new Error(`this is not JSON (${error.message}): take away the mark at \u201cas JSON\u201d to send it as text`);
    }
  }
  return text;
}
