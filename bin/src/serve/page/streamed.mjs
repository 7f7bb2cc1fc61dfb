// Texts that models are giving right now, put together from the pieces that come.

const CHARS_MAX = 1_000_000;

export class Streamed {
  /** By the seq of the call: `{call, attempt, next, text, reasoning}`. */
  calls = new Map();

  /** Folds an event in; says whether a text changed. Pieces of an attempt that another one followed are void. */
  add({ type, seq, data }) {
    if (type === 'LLM_CALL_REQUESTED') {
      this.calls.set(seq, fresh(seq, 1));
      return true;
    }
    if (type === 'LLM_CALL_RETRIED') {
      this.calls.set(data.call_id, fresh(data.call_id, data.attempt));
      return true;
    }
    if (type === 'LLM_CALL_COMPLETED' || type === 'LLM_CALL_FAILED') return this.calls.delete(data.call_id);
    if (type === 'THREAD_COMPLETED' || type === 'THREAD_FAILED' || type === 'THREAD_CANCELLED') {
      const some = this.calls.size > 0;
      this.calls.clear();
      return some;
    }
    if (type !== 'LLM_EXECUTION_PROGRESS') return false;
    const call = this.calls.get(data.call_id);
    if (!call || data.attempt < call.attempt || (data.attempt === call.attempt && data.index < call.next)) return false;
    const over = data.restarted || data.attempt > call.attempt;
    const now = over ? fresh(data.call_id, data.attempt) : call;
    now.text = (now.text + (data.text ?? '')).slice(-CHARS_MAX);
    now.reasoning = (now.reasoning + (data.reasoning ?? '')).slice(-CHARS_MAX);
    now.next = data.index + 1;
    this.calls.set(data.call_id, now);
    return true;
  }
}

const fresh = (call, attempt) => ({ call, attempt, next: 0, text: '', reasoning: '' });
