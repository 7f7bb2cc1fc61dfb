// Talks to the AG-UI door with the client of the protocol, which verifies every stream:
// `node agui_client.mjs http://127.0.0.1:7117/agui TOKEN`
import assert from "node:assert/strict";

import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";

const [base, token] = process.argv.slice(2);

/** An agent that also checks each event against the schemas of the protocol. */
function agentOf(workflow, options = {}) {
  const agent = new HttpAgent({
    url: `${base}/${workflow}`,
    headers: { Authorization: `Bearer ${token}` },
    ...options,
  });
  agent.seen = [];
  agent.subscribe({
    onEvent: ({ event }) => {
      EventSchemas.parse(event);
      agent.seen.push(event);
    },
  });
  return agent;
}

/** Runs an agent, and returns what it said, the types of its events and the last one. */
async function run(agent, text, parameters = {}) {
  agent.seen = [];
  if (text !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const { result, newMessages } = await agent.runAgent(parameters);
  return { result, newMessages, types: agent.seen.map((event) => event.type), last: agent.seen.at(-1) };
}

// Text, reasoning, a tool of the server, steps, state and usage.
const looks = agentOf("looks");
const first = await run(looks, "Hello.");
assert.equal(first.result, "There is nothing.");
assert.deepEqual(
  first.newMessages.map((message) => [message.role, message.content]).filter(([role]) => role !== "tool"),
  [["reasoning", "Let me think."], ["assistant", "I look first."], ["assistant", "There is nothing."]],
);
const [call] = first.newMessages.find((message) => message.toolCalls).toolCalls;
assert.deepEqual([call.function.name, call.function.arguments], ["list_folder", "{}"]);
assert.equal(first.newMessages.find((message) => message.role === "tool").toolCallId, call.id);
assert.deepEqual(
  looks.seen.filter((event) => event.type.startsWith("STEP")).map((event) => [event.type, event.stepName]),
  [["STEP_STARTED", "prepare"], ["STEP_FINISHED", "prepare"], ["STEP_STARTED", "answer"], ["STEP_FINISHED", "answer"]],
);
assert.deepEqual(looks.state, { mood: "calm" });
const [usage] = first.last.usage;
assert.equal(usage.provider, "mock");
assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
assert.deepEqual(first.last.outcome, { type: "success" });

// The next run of the thread: with the whole history, of which the last message counts, and with another state.
looks.setState({ mood: "merry" });
const second = await run(looks, "Again.");
assert.equal(second.result, "I am merry.");
const started = looks.seen[0];
assert.equal(started.protocolVersion, "1.0");
assert.equal((await run(looks, "Once more.")).result, "I am merry.");
assert.equal(looks.seen[0].metadata.rethread.thread_id, started.metadata.rethread.thread_id);

// The same run again is not run again.
const once = agentOf("looks", { threadId: "once" });
const message = { id: "m1", role: "user", content: "Hello." };
once.setMessages([message]);
await run(once, undefined, { runId: "run-1" });
const runs = once.seen[0].metadata.rethread;
const again = agentOf("looks", { threadId: "once", initialMessages: [message] });
const repeated = await run(again, undefined, { runId: "run-1" });
assert.equal(repeated.result, "There is nothing.");
assert.deepEqual(again.seen[0].metadata.rethread, runs);

// A question, and the approval of a tool call: the stream ends, and the next run goes on.
const asks = agentOf("asks");
const question = await run(asks, "Paint.");
assert.equal(question.last.outcome.type, "interrupt");
const [interrupt] = question.last.outcome.interrupts;
assert.equal(interrupt.message, "Which colour?");
assert.deepEqual(interrupt.responseSchema, { type: "string", enum: ["red", "blue"] });
assert.deepEqual(asks.state, { colour: "none" });
await assert.rejects(run(asks, undefined), /pending interrupt/);
const resume = (payload) =>
  buildResumeArray(asks.pendingInterrupts, { [asks.pendingInterrupts[0].id]: { status: "resolved", payload } });
await assert.rejects(run(asks, undefined, { resume: resume("green") }), /HTTP 422/);
const approval = await run(asks, undefined, { resume: resume("blue") });
assert.deepEqual(asks.state, { colour: "blue" });
assert.ok(approval.types.includes("STATE_DELTA"), approval.types);
const [asked] = approval.last.outcome.interrupts;
assert.equal(asked.reason, "tool_approval");
assert.ok(asks.messages.some((message) => message.toolCalls?.some((call) => call.id === asked.toolCallId)));
const painted = await run(asks, undefined, { resume: resume({ approved: true }) });
assert.equal(painted.result, "Painted blue.");
assert.equal(painted.newMessages.find((message) => message.role === "tool").toolCallId, asked.toolCallId);
assert.deepEqual(asks.pendingInterrupts, []);

// An interrupt that is cancelled: the node fails, and so does the run.
const gives = agentOf("asks");
await run(gives, "Paint.");
const cancelled = await run(gives, undefined, {
  resume: buildResumeArray(gives.pendingInterrupts, { [gives.pendingInterrupts[0].id]: { status: "cancelled" } }),
});
assert.equal(cancelled.last.type, "RUN_ERROR");

// A run that fails is an error in the stream; a request that is refused is one before it.
const fails = await run(agentOf("fails"), "Hello.");
assert.deepEqual([fails.last.type, fails.last.code], ["RUN_ERROR", "authentication"]);
await assert.rejects(run(agentOf("nothing"), "Hello."), (error) => {
  assert.equal(error.status, 404);
  assert.deepEqual([error.payload.type, error.payload.code], ["RUN_ERROR", "no_workflow"]);
  return true;
});
await assert.rejects(
  run(agentOf("fails"), "Hello.", { tools: [{ name: "elsewhere", description: "Ask.", parameters: {} }] }),
  (error) => error.status === 400 && error.payload.message.includes("tools"),
);

// A tool of the client: the run ends, the client runs it, and the next run goes on.
// One that the configuration describes, and one that the request describes.
for (const [workflow, name] of [["front", "confirm"], ["brings", "pick"]]) {
  const front = agentOf(workflow);
  const tools = [{ name, description: "Asks the user.", parameters: { type: "object" } }];
  const calling = await run(front, "Pay.", { tools });
  const calls = front.messages.at(-1).toolCalls;
  assert.deepEqual(calling.last.outcome, { type: "success", pendingToolCallIds: calls.map((call) => call.id) });
  for (const { id } of calls) front.addMessage({ id: `result-${id}`, role: "tool", toolCallId: id, content: "yes" });
  assert.equal((await run(front, undefined, { tools })).result, "Paid.");
  assert.equal((await run(front, "And now?", { tools })).result, "Not paid.");
}

// An agent that the model calls.
const team = agentOf("team");
const worked = await run(team, "Hello.");
assert.equal(worked.result, "They say: Done.");
const subagent = team.seen.find((event) => event.type === "SUBAGENT_STARTED");
assert.equal(subagent.name, "helper");
assert.ok(team.seen.some((event) => event.type === "SUBAGENT_FINISHED" && event.subagentRunId === subagent.subagentRunId));
const did = team.seen.filter((event) => event.subagentRunId === subagent.subagentRunId).map((event) => event.type);
assert.deepEqual(did.slice(0, 3), ["SUBAGENT_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START"]);
assert.deepEqual(did.slice(-2), ["STEP_FINISHED", "SUBAGENT_FINISHED"]);
const said = team.messages.filter((message) => message.subagentRunId === subagent.subagentRunId);
assert.deepEqual(said.map((message) => message.content).filter((text) => text === "I look." || text === "Done."), ["I look.", "Done."]);
const ids = team.messages.flatMap((message) => message.toolCalls ?? []).map((call) => call.id);
assert.equal(new Set(ids).size, 2);


// Branches that speak at the same time.
const crowd = agentOf("crowd");
const spoken = await run(crowd, "Speak.");
assert.equal(spoken.last.outcome.type, "success");
const begun = crowd.seen.filter((event) => event.type === "SUBAGENT_STARTED").map((event) => event.subagentRunId);
assert.equal(new Set(begun).size, 3);
for (const id of begun) {
  const texts = crowd.messages.filter((message) => message.subagentRunId === id && message.role === "assistant");
  assert.deepEqual(texts.map((message) => message.content), ["One two three four."]);
}

console.log("done");
