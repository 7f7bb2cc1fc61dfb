// The answer to a question, out of what somebody typed.

import { parse } from './exact.mjs';

/**
 * What kind of form a question wants: `approve`, `fields` or `link` about a tool; `content` about an input or an answer that
 * a guardrail has stopped; of a typed question `options`, `words`,
 * `number` or `schema`; otherwise `choice` (some texts are offered, any is taken) or `text`.
 */
export function form(question) {
  const operation = question.operation_type.toUpperCase();
  if (operation === 'APPROVE_TOOL') return 'approve';
  if (operation === 'APPROVE_CONTENT') return 'content';
  if (operation === 'INFORM_TOOL') return question.metadata?.schema ? 'fields' : 'link';
  const typed = { boolean: 'options', choice: 'options', text: 'words', number: 'number', json_schema: 'schema' }[question.answer?.type];
  if (typed) return typed;
  if (Array.isArray(question.metadata?.choices)) return 'choice';
  return 'text';
}

/** The answers that can be chosen with a click, each with its label. */
export function options(question) {
  if (question.answer?.type === 'boolean') return [['Yes', true], ['No', false]];
  const choices = question.answer?.choices ?? question.metadata?.choices ?? [];
  return choices.map((choice) => [String(choice), choice]);
}

/** A value that looks like what a JSON Schema asks for, for somebody to change. */
export function sample(schema) {
  const first = schema?.default ?? schema?.const ?? schema?.enum?.[0];
  if (first !== undefined) return first;
  const of = [schema?.type].flat()[0] ?? (schema?.properties ? 'object' : 'string');
  if (of === 'object') return Object.fromEntries(Object.entries(schema?.properties ?? {}).map(([name, field]) => [name, sample(field)]));
  return { array: [], number: 0, integer: 0, boolean: false, null: null }[of] ?? '';
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
  if (form(question) === 'content') {
    switch (decision) {
      case 'approve': return { decision };
      case 'reject': return text.trim() ? { decision, reason: text } : { decision };
      case 'answer': return { decision, content: text };
      default: throw new Error('choose what to do with the message');
    }
  }
  if (decision === 'reject') return { decision: 'reject' };
  if (form(question) === 'options') throw new Error('choose one of the answers');
  if (form(question) === 'words') return text;
  if (form(question) === 'number') {
    const number = Number(text.trim() === '' ? NaN : text);
    if (!Number.isFinite(number)) throw new Error('this is not a number, such as 4 or 2.5');
    // As it was typed, so that no digit is lost.
    return parse(/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? text : JSON.stringify(number));
  }
  if (form(question) === 'schema') {
    try {
      return parse(text);
    } catch (error) {
      throw new Error(`this is not JSON (${error.message}): a text stands in quotes, as in "yes"`);
    }
  }
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
