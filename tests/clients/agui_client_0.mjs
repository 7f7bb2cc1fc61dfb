// Talks to the AG-UI door with the last client before 1.0, which refuses what it does not know:
// `node agui_client_0.mjs http://127.0.0.1:7117/agui TOKEN`
import assert from "node:assert/strict";

import { HttpAgent } from "@ag-ui/client";

const [base, token] = process.argv.slice(2);

/** Runs a workflow, and returns the agent, what it said, and the last event. */
async function run(workflow, text) {
  const agent = new HttpAgent({ url: `${base}/${workflow}`, headers: { Authorization: `Bearer ${token}` } });
  let last;
  agent.subscribe({ onEvent: ({ event }) => void (last = event) });
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const { result } = await agent.runAgent({});
  return { agent, result, last };
}

const looks = await run("looks", "Hello.");
assert.equal(looks.result, "There is nothing.");
assert.deepEqual(looks.last.outcome, { type: "success" });
assert.equal(looks.agent.messages.at(-1).content, "There is nothing.");

const asks = await run("asks", "Paint.");
assert.equal(asks.last.outcome.type, "interrupt");
assert.equal(asks.last.outcome.interrupts[0].message, "Which colour?");

const fails = await run("fails", "Hello.");
assert.deepEqual([fails.last.type, fails.last.code], ["RUN_ERROR", "authentication"]);

assert.equal((await run("team", "Hello.")).result, "They say: Done.");

console.log("done");
