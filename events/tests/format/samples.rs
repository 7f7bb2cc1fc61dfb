//! One instance of every kind of event, with every field filled in, and more of those that have enums.

mod variants;

use std::sync::Arc;

use rethread_events::codec::OrderedMap;
use rethread_events::event::*;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{CallId, Hash, RunId, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::message::{
    Annotation, FinishReason, Media, Message, Part, ProviderTool, ProviderToolStep, Reasoning, Role, SourceKind,
    ToolCall, ToolChoice, ToolResult, ToolSpec, UnitPrices, Usage, UsageSource,
};
use rethread_events::principal::Principal;
use rethread_events::tool::Recovery;
use rethread_events::trace_context::TraceParent;
use rethread_events::workflow::WorkflowRef;
use serde_json::json;

pub(crate) use variants::variants;

const CALL: CallId = CallId(Seq(5));

pub(crate) fn caught_error() -> CaughtError {
    CaughtError {
        kind: ErrorKind::Failed,
        message: "no".into(),
        node: "pay".into(),
        tool: Some("pay".into()),
        source: Some("504".into()),
    }
}

pub(crate) fn tool_call_ref() -> ToolCallRef {
    ToolCallRef { call_id: CALL, tool_call_id: Some("call_1".into()), name: "read_file".into() }
}

pub(crate) fn time() -> Time {
    "2026-11-21T10:00:00.000001Z".parse().unwrap()
}

pub(crate) fn thread() -> ThreadId {
    "019aa3b0-0001-7002-8003-000400050006".parse().unwrap()
}

pub(crate) fn workflow() -> WorkflowRef {
    WorkflowRef { name: "review".into(), hash: Hash::from_bytes([0xab; 32]) }
}

pub(crate) fn error() -> ExecutionError {
    ExecutionError::retryable(ErrorKind::RateLimit, "slow down").caused_by("429")
}

pub(crate) fn usage() -> Usage {
    Usage {
        input_tokens: Some(1),
        output_tokens: Some(2),
        total_tokens: Some(3),
        cached_input_tokens: Some(4),
        cache_write_tokens: Some(5),
        reasoning_tokens: Some(6),
        cache_write_long_tokens: Some(7),
        tool_input_tokens: Some(13),
        audio_input_tokens: Some(8),
        audio_output_tokens: Some(9),
        image_output_tokens: Some(10),
        n_searches: Some(11),
        n_images: Some(12),
    }
}

pub(crate) fn media() -> Media {
    Media {
        media_type: Some("image/png".into()),
        data: Some("aGk=".into()),
        url: Some("https://example.org".into()),
        name: Some("a.png".into()),
    }
}

/// Every kind of part.
pub(crate) fn parts() -> Vec<Part> {
    vec![
        Part::Text { text: "täxt".into(), signature: Some("s".into()), annotations: vec![annotation()] },
        Part::Image(media()),
        Part::Document(Media { media_type: None, data: None, url: None, name: None }),
        Part::Reasoning(Reasoning {
            text: Some("hm".into()),
            signature: Some("s".into()),
            encrypted: Some("e".into()),
            id: Some("i".into()),
            redacted: true,
            provider: Some("p".into()),
            prefix: Some(Hash::from_bytes([0xcd; 32])),
        }),
        Part::ToolCall(ToolCall {
            id: "call_1".into(),
            name: "read_file".into(),
            arguments: json!({"path": "a", "n": [1, 2.5, null]}).into(),
            arguments_raw: Some("{".into()),
            signature: Some("s".into()),
        }),
        Part::ToolResult(ToolResult {
            tool_call_id: "call_1".into(),
            name: Some("read_file".into()),
            content: vec![Part::text("42")],
            is_error: true,
        }),
        Part::Refusal { text: "no".into() },
        Part::Opaque { provider: "p".into(), data: json!({"x": true}).into() },
        Part::Audio(media()),
        Part::ProviderTool(ProviderTool {
            provider: "p".into(),
            step: ProviderToolStep::Both,
            id: Some("t1".into()),
            name: "search".into(),
            data: json!({"q": 1}).into(),
        }),
    ]
}

fn annotation() -> Annotation {
    Annotation {
        kind: SourceKind::Url,
        url: Some("https://example.org".into()),
        document: Some("d".into()),
        title: Some("T".into()),
        start: Some(1),
        end: Some(2),
        quote: Some("q".into()),
        provider: Some("p".into()),
        data: Some(json!({"y": 1}).into()),
    }
}

pub(crate) fn message() -> Arc<Message> {
    Arc::new(Message { role: Role::Assistant, content: parts() })
}

pub(crate) fn variables() -> OrderedMap<Json> {
    OrderedMap::from_iter([("b".to_owned(), json!(1).into()), ("a".to_owned(), json!({"z": [], "y": "x"}).into())])
}

pub(crate) fn model() -> ModelChoice {
    ModelChoice {
        profile: Some("large".into()),
        provider: Some("mock".into()),
        model: Some("m".into()),
        temperature: Some(0.5),
        max_tokens: Some(100),
        stream: true,
        tool_choice: Some(ToolChoice::Tool("look".into())),
        parallel_tool_calls: Some(false),
        top_p: Some(0.9),
        seed: Some(7),
        stop: vec!["END".into()],
        reasoning: Some(ReasoningOptions {
            effort: Some("low".into()),
            budget_tokens: Some(100),
            summary: Some("auto".into()),
        }),
        service_tier: Some("flex".into()),
        verbosity: Some("low".into()),
        cache: Some(CacheMode::Long),
        extra: Some(json!({"top_k": 9}).into()),
    }
}

pub(crate) fn changes() -> ForkChanges {
    ForkChanges {
        variables: variables(),
        profile: Some("large".into()),
        relay: true,
        prompts: OrderedMap::from_iter([("ask".to_owned(), "again".to_owned())]),
        workflow: Some(workflow()),
    }
}

pub(crate) fn branch_of() -> BranchOf {
    BranchOf { owner: thread(), index: 1 }
}

pub(crate) fn replaced_branch() -> ReplacedBranch {
    ReplacedBranch { path: vec![0, 2], child: thread(), seq: Some(Seq(9)) }
}

pub(crate) fn options() -> ToolCallOptions {
    ToolCallOptions { timeout_ms: 1_000, retries: 2, retry_delay_ms: 50 }
}

pub(crate) fn asked_tool() -> AskedTool {
    AskedTool { tool_call_id: Some("call_1".into()), name: "run_command".into(), arguments: json!({"c": "ls"}).into() }
}

/// One of every kind of decision.
pub(crate) fn decisions() -> Vec<Decision> {
    vec![
        Decision::Approve {},
        Decision::Edit { arguments: json!({"c": "ls -l"}).into() },
        Decision::Reject { reason: Some("too soon".into()) },
        Decision::Answer { content: json!("42").into() },
    ]
}

/// One of every kind of strategy.
pub(crate) fn strategies() -> Vec<LoopStrategy> {
    let member = Member { name: "fast".into(), description: Some("small talk".into()), model: model() };
    vec![
        LoopStrategy::React {},
        LoopStrategy::PlanAndExecute(Box::new(PlanStrategy {
            max_steps: 10,
            max_replans: 2,
            max_step_iterations: Some(5),
            prompt: Some("Plan it.".into()),
            planner: Some(Planner { model: model(), relay: true }),
        })),
        LoopStrategy::MultiLlm(Box::new(PanelStrategy {
            members: vec![member],
            combine: Combine::Judge,
            by: model(),
            min_answers: 1,
            prompt: Some("The shortest.".into()),
        })),
        LoopStrategy::Custom(Box::new(CustomDecider {
            name: "careful".into(),
            config: OrderedMap::from_iter([("times".to_owned(), json!(2).into())]),
            timeout_ms: 60_000,
        })),
    ]
}

/// One of every kind of call beside the conversation.
pub(crate) fn asides() -> Vec<Aside> {
    vec![Aside::Candidate { index: 2 }, Aside::Choice { fault: Some("no number".into()) }]
}

/// One of everything that a strategy of the application may decide.
pub(crate) fn strategy_decisions() -> Vec<StrategyDecision> {
    vec![
        StrategyDecision::CallModel {
            messages: vec![message()],
            model: Some(model()),
            tools: Some(vec!["read_file".into()]),
        },
        StrategyDecision::RunTools { calls: message().tool_calls().cloned().collect() },
        StrategyDecision::Answer { content: "42".into() },
        StrategyDecision::Fail { error: error() },
    ]
}

fn of_strategies() -> Vec<Event> {
    let node = || "ask".into();
    vec![
        PlanRequested { node_id: node(), replan: 1, attempt: 2, prompt: "Make a plan.".into() }.into(),
        PlanMade { node_id: node(), replan: 1, steps: vec!["look".into(), "write".into()] }.into(),
        PlanStepStarted { node_id: node(), index: 0, step: "look".into(), prompt: "Step 1 of 2: look".into() }.into(),
        PlanStepCompleted { node_id: node(), index: 0, n_llm_calls: 3 }.into(),
        PlanStepFailed { node_id: node(), index: 1, error: error() }.into(),
        PlanCompleted { node_id: node(), prompt: "Now answer.".into() }.into(),
        CandidateChosen { node_id: node(), index: 1, name: "strong".into(), reason: Some("it is right".into()) }.into(),
        CandidatesGathered { node_id: node(), n_answers: 2, prompt: "Write one answer.".into() }.into(),
        StrategyDecisionRequested { node_id: node(), name: "careful".into(), deadline: time() }.into(),
        StrategyDecisionRetried { node_id: Some("ask".into()), call_id: CALL, attempt: 2 }.into(),
        StrategyDecided { node_id: Some("ask".into()), call_id: CALL, next: strategy_decisions().remove(0) }.into(),
        StrategyDecisionFailed { node_id: Some("ask".into()), call_id: CALL, error: error() }.into(),
    ]
}

pub(crate) fn variable_update() -> VariableUpdate {
    VariableUpdate { scope: Scope::Global, name: "approved".into(), value: json!(true).into() }
}

/// One of every kind, in the order of the table.
pub(crate) fn events() -> Vec<Event> {
    let mut events = of_threads();
    events.extend(of_runs());
    events.push(workflow_changed());
    events.extend(of_queues());
    events.extend(of_hooks());
    events.extend(of_nodes());
    events.extend(of_models());
    events.extend(of_guardrails());
    events.extend(of_tools_and_people());
    events.extend(of_waits());
    events.extend(of_children());
    events.extend(of_graphs());
    events.extend(of_strategies());
    events
}

fn by() -> Option<Principal> {
    Some(Principal::named("Ada"))
}

fn traceparent() -> Option<TraceParent> {
    Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap())
}

fn budget() -> BudgetLimits {
    BudgetLimits {
        tokens: Some(1_000),
        cost_nanousd: Some(5),
        on_exceeded: OnLimit::Pause,
        on_unpriced: OnUnpriced::Refuse,
    }
}

fn prices() -> UnitPrices {
    UnitPrices {
        input: 1_000,
        output: 2_000,
        cached_input: Some(100),
        cache_write: Some(1_250),
        reasoning: Some(3_000),
        cache_write_long: Some(6),
        audio_input: Some(7),
        audio_output: Some(8),
        image_output: Some(9),
        search: Some(10),
        image: Some(11),
    }
}

fn agent_tool() -> AgentTool {
    AgentTool {
        name: "researcher".into(),
        description: "Finds sources.".into(),
        input_schema: json!({ "type": "object" }).into(),
        entry: "search".into(),
        variables: variables(),
        max_iterations: 50,
        context: NodeContext::Fresh,
        is_too_deep: true,
    }
}

fn of_threads() -> Vec<Event> {
    vec![
        ThreadStarted {
            workflow: workflow(),
            input: json!({"question": "?"}).into(),
            variables: variables(),
            entry: "ask".into(),
            deadline: Some(time()),
            max_iterations: 50,
            workspace: Some("/srv".into()),
            budget: Some(budget()),
            on_limit: OnLimit::Pause,
            labels: "tenant=acme,user=42".parse().unwrap(),
            messages: vec![message()],
            traceparent: traceparent(),
        }
        .into(),
        ThreadForked {
            parent: thread(),
            seq: Seq(7),
            changes: changes(),
            branch: Some(branch_of()),
            branches: vec![replaced_branch()],
            globals: variables(),
            by: by(),
        }
        .into(),
        ThreadPaused { reason: Some("lunch".into()), by: by() }.into(),
        ThreadResumed { by: by() }.into(),
        ThreadRecovered { calls: vec![CALL, CallId(Seq(6))] }.into(),
        ThreadCancelled {
            reason: Some("enough".into()),
            by: by(),
            run_follows: true,
            cause: Some("hook `on_cancel` was cancelled".into()),
        }
        .into(),
        ThreadCompleted { node_id: "ask".into(), run_follows: true }.into(),
        ThreadFailed { node_id: Some("ask".into()), error: error(), run_follows: true }.into(),
        CheckpointCreated { label: "drafted".into(), by: by() }.into(),
        VariablesUpdated { variables: variables(), by: by() }.into(),
        MessageAdded { message: message(), effect: MessageEffect::Steer, key: Some("key-3".into()), by: by() }.into(),
        Warning { code: WarningCode::StaleAttempt, call_id: Some(CALL), detail: "late".into() }.into(),
    ]
}

pub(crate) fn of_runs() -> Vec<Event> {
    let run_id = RunId(Seq(9));
    vec![
        RunStarted {
            run_id,
            number: 2,
            previous: PastRun { run_id: RunId(Seq(0)), started: Seq(0), ended: Seq(8) },
            workflow: WorkflowRef { name: "chat".into(), hash: Hash::from_bytes([0xab; 32]) },
            input: json!("hello").into(),
            variables: variables(),
            entry: "ask".into(),
            deadline: Some(time()),
            max_iterations: 50,
            budget: Some(budget()),
            on_limit: OnLimit::Pause,
            from: RunSource::Queue,
            key: Some("key-1".into()),
            by: by(),
            traceparent: traceparent(),
        }
        .into(),
        RunQueued {
            run_id,
            input: json!({ "text": "hello" }).into(),
            variables: variables(),
            key: Some("key-2".into()),
            by: by(),
            traceparent: traceparent(),
        }
        .into(),
        RunCancelled { run_id, reason: Some("not needed".into()), by: by() }.into(),
    ]
}

pub(crate) fn workflow_changed() -> Event {
    let previous = WorkflowRef { name: "chat".into(), hash: Hash::from_bytes([0xab; 32]) };
    WorkflowChanged { workflow: workflow(), previous, by: by() }.into()
}

pub(crate) fn of_queues() -> Vec<Event> {
    let rate = Some(StartRate { starts: 2, per_ms: 1_000 });
    vec![
        ThreadQueued {
            workflow: Some("orders".into()),
            key: Some("Ada".into()),
            limits: QueueLimits { concurrency: Some(1), rate, debounce: true },
            priority: -5,
            group: Some(json!({ "tenant": "acme" }).into()),
            not_before: Some(time()),
        }
        .into(),
        ThreadDequeued { waited_ms: 12 }.into(),
    ]
}

fn of_nodes() -> Vec<Event> {
    vec![
        NodeStarted { node_id: "ask".into(), attempt: 2, deadline: Some(time()) }.into(),
        NodeCompleted { node_id: "ask".into(), duration_ms: 12 }.into(),
        NodeFailed { node_id: "ask".into(), attempt: 1, error: error(), retry_at: Some(time()) }.into(),
        RouteTaken {
            from: "ask".into(),
            to: "end".into(),
            condition: Some("approved".into()),
            error: Some(caught_error()),
        }
        .into(),
    ]
}

fn of_models() -> Vec<Event> {
    vec![
        LlmExecutionRequest {
            node_id: "ask".into(),
            prompt: "Say hello".into(),
            system_prompt: Some("Be kind.".into()),
            model: model(),
            tool_mode: ToolMode::Required,
            tools: vec!["read_file".into()],
            tool_catalog: Some(Hash::from_bytes([0xcd; 32])),
            max_iterations: 50,
            concurrent_tools_max: 8,
            llm_timeout_ms: Some(120_000),
            approve_tools: vec!["run_command".into()],
            person_tools: vec!["ask_user".into()],
            relay: true,
            summary: Some(SummaryPlan { token_limit: 80_000, model: Some(model()), timeout_ms: 120_000 }),
            strategy: strategies().remove(1),
            context: NodeContext::From(vec!["ask".into()]),
            output: Some(OutputSpec { schema: json!({ "type": "object" }).into(), max_repairs: 2 }),
            agents: vec![agent_tool()],
            handoffs: vec![HandoffTool {
                name: "transfer_to_billing".into(),
                description: "Hands the conversation over to `billing`".into(),
                node_id: "billing".into(),
            }],
            guardrails: guardrails(),
            joins: true,
            client_tools: vec![ToolSpec {
                name: "confirm_order".into(),
                description: Some("Asks the user to confirm an order.".into()),
                parameters: json!({ "type": "object" }).into(),
            }],
        }
        .into(),
        LlmCallRequested {
            node_id: Some("ask".into()),
            iteration: 1,
            aside: Some(asides().remove(0)),
            model_profile: Some(Hash::from_bytes([0xab; 32])),
        }
        .into(),
        LlmCallRetried {
            node_id: Some("ask".into()),
            call_id: CALL,
            attempt: 2,
            model_profile: Some(Hash::from_bytes([0xab; 32])),
        }
        .into(),
        LlmTryFailed {
            node_id: Some("ask".into()),
            call_id: CALL,
            try_number: 1,
            error: error(),
            wait_ms: 250,
            model: Some("openai_chat/m".into()),
            fallback_from: Some("anthropic/m".into()),
            used: Some(Box::new(FailedUsage { usage: usage(), cost_nanousd: Some(12), prices: Some(prices()) })),
        }
        .into(),
        LlmRequestChanged {
            node_id: Some("ask".into()),
            call_id: CALL,
            changes: vec![RequestChange { what: "thoughts".into(), n: Some(2), why: "because".into() }],
        }
        .into(),
        LlmExecutionProgress {
            node_id: Some("ask".into()),
            call_id: CALL,
            attempt: 1,
            index: 3,
            text: "he".into(),
            reasoning: "hm".into(),
            restarted: true,
        }
        .into(),
        LlmCallCompleted {
            node_id: Some("ask".into()),
            call_id: CALL,
            message: message(),
            finish_reason: FinishReason::ToolCalls,
            usage: usage(),
            cost_nanousd: Some(1_234),
            prices: Some(prices()),
            model: Some("m-2026".into()),
            response_id: Some("r1".into()),
            cached: true,
            duration_ms: 321,
            service_tier: Some("flex".into()),
            details: Some(json!({"refusal": {"category": "c"}}).into()),
            usage_source: UsageSource::Counted,
            unusable: Some(error()),
            fallback_from: Some("anthropic/m".into()),
        }
        .into(),
        LlmCallFailed {
            node_id: Some("ask".into()),
            call_id: CALL,
            error: error(),
            model: Some("openai_chat/m".into()),
            fallback_from: Some("anthropic/m".into()),
            used: Some(Box::new(FailedUsage { usage: usage(), cost_nanousd: Some(12), prices: Some(prices()) })),
        }
        .into(),
        LlmExecutionCompleted {
            context_call_id: Some(CALL),
            value: Some(json!({ "total": 3 }).into()),
            handoff: Some(Handoff {
                to: "billing".into(),
                tool_call_id: "call_1".into(),
                arguments: json!({ "reason": "an invoice" }).into(),
            }),
            tool_calls: vec![tool_call_ref()],
            node_id: "ask".into(),
            content: "hello".into(),
            finish_reason: FinishReason::Stop,
            usage: usage(),
            n_llm_calls: 2,
            n_tool_calls: 1,
        }
        .into(),
        LlmExecutionFailed { node_id: "ask".into(), error: error() }.into(),
        answer_rejected(),
    ]
}

pub(crate) fn run_endings() -> Vec<RunEnding> {
    vec![
        RunEnding::Completed { node_id: "ask".into() },
        RunEnding::Failed { node_id: Some("ask".into()), error: error() },
        RunEnding::Cancelled { reason: Some("enough".into()) },
    ]
}

pub(crate) fn of_hooks() -> Vec<Event> {
    let failed = RunEnding::Failed { node_id: Some("ask".into()), error: error() };
    vec![
        HookStarted { hook: Hook::OnFailed, node_id: "undo".into(), ending: failed, deadline: time(), by: by() }.into(),
        HookEnded { hook: Hook::OnFailed, node_id: Some("undo".into()), error: Some(error()) }.into(),
    ]
}

pub(crate) fn of_children() -> Vec<Event> {
    vec![
        ChildStartRequested {
            node_id: "begin".into(),
            child: thread(),
            workflow: "report".into(),
            inputs: variables(),
            on_parent_end: OnParentEnd::CancelIfCancelled,
            into: Some("report".into()),
        }
        .into(),
        ChildStarted { node_id: Some("begin".into()), call_id: CALL, child: thread() }.into(),
        ChildStartFailed { node_id: Some("ask".into()), call_id: CALL, error: error() }.into(),
        StartedByParent {
            parent: thread(),
            call_id: CALL,
            run_id: RunId(Seq(7)),
            on_parent_end: OnParentEnd::Cancel,
            depth: 2,
        }
        .into(),
        ThreadAwaited { node_id: "collect".into(), thread: thread() }.into(),
        AwaitedThreadEnded {
            node_id: Some("collect".into()),
            wait_id: CALL,
            thread: thread(),
            output: Some(json!({ "pages": 3 }).into()),
        }
        .into(),
    ]
}

pub(crate) fn answer_rejected() -> Event {
    AnswerRejected {
        node_id: "ask".into(),
        attempt: 1,
        faults: vec![AnswerFault { pointer: "/total".into(), message: "null is not of type \"number\"".into() }],
        prompt: "Answer again".into(),
    }
    .into()
}

pub(crate) fn guardrails() -> Vec<Guardrail> {
    let (condition, when) = ("it is rude".to_owned(), "'@' in checked".to_owned());
    let guardrail = |name: &str, on, check, then| Guardrail {
        name: name.into(),
        on,
        tools: Vec::new(),
        check,
        then,
        reason: Some("so".into()),
        hold: true,
    };
    let function = GuardrailCheck::Function { name: "max_words".into(), config: variables(), timeout_ms: 60_000 };
    let judge = GuardrailCheck::Judge { condition, model: Box::new(model()), timeout_ms: 60_000 };
    let expression = GuardrailCheck::Expression { when };
    let with = json!({"to": "nobody"});
    vec![
        guardrail("mail", GuardedContent::Input, expression.clone(), GuardrailAction::Reject),
        guardrail("rude", GuardedContent::Answer, judge, GuardrailAction::Ask),
        guardrail("brief", GuardedContent::Answer, function, GuardrailAction::Reject),
        Guardrail {
            tools: vec!["send".into()],
            ..guardrail("send", GuardedContent::ToolCall, expression, GuardrailAction::Replace(with.into()))
        },
    ]
}

pub(crate) fn checked_contents() -> Vec<CheckedContent> {
    vec![
        CheckedContent::Input { message: Seq(4) },
        CheckedContent::Answer {},
        CheckedContent::Candidate { index: 1 },
        CheckedContent::ToolCall { index: 1, tool_call_id: "call_1".into() },
    ]
}

pub(crate) fn guardrail_outcomes() -> Vec<GuardrailOutcome> {
    let reason = || "it is so".to_owned();
    vec![
        GuardrailOutcome::Allow {},
        GuardrailOutcome::Replace { with: json!({"to": "nobody"}).into(), reason: reason() },
        GuardrailOutcome::Reject { reason: reason() },
        GuardrailOutcome::Ask { reason: reason() },
    ]
}

pub(crate) fn guardrail_completed(content: CheckedContent, outcome: GuardrailOutcome) -> GuardrailCompleted {
    let (name, error) = ("mail".into(), Some(error()));
    GuardrailCompleted { node_id: Some("ask".into()), call_id: CALL, guardrail: 1, name, content, outcome, error }
}

pub(crate) fn of_guardrails() -> Vec<Event> {
    let content = checked_contents().remove(3);
    vec![
        GuardrailRequested { node_id: "ask".into(), guardrail: 1, content: content.clone(), deadline: time() }.into(),
        GuardrailRetried { node_id: Some("ask".into()), call_id: CALL, attempt: 2 }.into(),
        guardrail_completed(content, guardrail_outcomes().remove(1)).into(),
    ]
}

pub(crate) fn agent_started() -> Event {
    AgentStarted {
        node_id: "ask".into(),
        index: 1,
        child: thread(),
        tool_call_id: Some("call_1".into()),
        agent: "researcher".into(),
        arguments: json!({"task": "find it"}).into(),
    }
    .into()
}

pub(crate) fn branch_spent() -> Event {
    BranchSpent {
        index: 1,
        child: thread(),
        n_llm_calls: 1,
        n_tool_calls: 2,
        usage: usage(),
        cost_nanousd: Some(7),
        n_unpriced: 3,
        is_final: true,
    }
    .into()
}

fn of_tools_and_people() -> Vec<Event> {
    vec![
        ToolExecutionRequest {
            node_id: Some("ask".into()),
            tool_call_id: Some("call_1".into()),
            name: "read_file".into(),
            arguments: json!({"path": "a"}).into(),
            recovery: Recovery::Idempotent,
            options: options(),
        }
        .into(),
        ToolCallRetried {
            node_id: Some("ask".into()),
            call_id: CALL,
            attempt: 2,
            not_before: time(),
            error: Some(error()),
        }
        .into(),
        ToolExecutionProgress { node_id: Some("ask".into()), call_id: CALL, attempt: 1, message: "half".into() }.into(),
        ToolExecutionCompleted {
            node_id: Some("ask".into()),
            call_id: CALL,
            tool_call_id: Some("call_1".into()),
            content: vec![Part::text("42"), Part::Image(media())],
            value: Some(json!(42).into()),
            duration_ms: 7,
            full_output: Some(Hash::from_bytes([0xef; 32])),
        }
        .into(),
        ToolExecutionFailed {
            node_id: Some("ask".into()),
            call_id: CALL,
            tool_call_id: Some("call_1".into()),
            error: error(),
            duration_ms: 7,
            not_started: true,
        }
        .into(),
        agent_started(),
        UserInteractionRequested {
            interaction_id: Some(CALL),
            node_id: "approve".into(),
            operation_type: OperationType::UpdateVariables,
            prompt: Some("Good?".into()),
            deadline: Some(time()),
            metadata: Some(json!({"color": "red"}).into()),
            tool_call: Some(asked_tool()),
            llm_call_id: Some(CALL),
            tool_run_id: Some(CALL),
            answer: Some(AnswerType::Choice { choices: vec!["now".into(), "later".into()] }),
        }
        .into(),
        UserInteractionResponded {
            node_id: Some("ask".into()),
            interaction_id: CALL,
            input_data: json!({"yes": true}).into(),
            by: by(),
        }
        .into(),
        UserInteractionProcessed {
            node_id: Some("ask".into()),
            interaction_id: CALL,
            operation_type: OperationType::AddMessage,
            results: InteractionResults {
                variables: vec![variable_update()],
                message: Some("yes".into()),
                decision: Some(Decision::Reject { reason: Some("too soon".into()) }),
            },
        }
        .into(),
        UserInteractionFailed {
            node_id: Some("ask".into()),
            interaction_id: CALL,
            reason: InteractionFailure::HandlerError,
            detail: Some("gone".into()),
            by: by(),
        }
        .into(),
    ]
}

pub(crate) fn of_waits() -> Vec<Event> {
    vec![
        WaitStarted { node_id: "ask".into(), until: Time::from_unix_us(1_790_000_000_000_000) }.into(),
        WaitChanged { node_id: Some("ask".into()), wait_id: CALL, until: Time::from_unix_us(3), by: by() }.into(),
        WaitCompleted { node_id: Some("ask".into()), wait_id: CALL }.into(),
        WaitFailed { node_id: Some("ask".into()), wait_id: CALL, error: error() }.into(),
        SignalAwaited {
            node_id: "ask".into(),
            name: "order_paid".into(),
            fields: variables(),
            schema: Some(json!({"type": "object"}).into()),
            deadline: Some(time()),
        }
        .into(),
        SignalReceived {
            node_id: Some("ask".into()),
            wait_id: CALL,
            signal_id: "evt_1".into(),
            payload: json!({"amount": 12.5}).into(),
            by: by(),
        }
        .into(),
    ]
}

fn of_graphs() -> Vec<Event> {
    vec![
        ConditionEvaluationRequested {
            node_id: "ask".into(),
            edge: 1,
            condition: "the text is polite".into(),
            attempt: 1,
            model: model(),
            timeout_ms: 60_000,
            model_profile: Some(Hash::from_bytes([0xab; 32])),
            guardrail: Some(JudgedGuardrail { index: 1, content: checked_contents().remove(1) }),
        }
        .into(),
        ConditionEvaluationCompleted {
            node_id: Some("ask".into()),
            call_id: CALL,
            verdict: Some(true),
            answer: "yes".into(),
            error: Some(error()),
            usage: usage(),
            cost_nanousd: Some(7),
            prices: Some(prices()),
            model: Some("m-1".into()),
            duration_ms: 8,
            usage_source: UsageSource::Counted,
            fallback_from: Some("anthropic/m".into()),
        }
        .into(),
        ForkStarted {
            node_id: "fork".into(),
            join: "join".into(),
            branches: Branches::Each { entry: "a".into(), variable: "item".into(), items: vec![json!(1).into()] },
            n_needed: 1,
            on_failed: OnFailed::Collect,
            concurrency_max: 64,
            deadline: Some(time()),
            quorum: true,
            into: Some("sums".into()),
        }
        .into(),
        BranchStarted { index: 1, child: thread() }.into(),
        branch_spent(),
        BranchEnded {
            index: 1,
            child: thread(),
            output: Some(json!(1).into()),
            error: Some(error()),
            globals: variables(),
            n_llm_calls: 1,
            n_tool_calls: 2,
            usage: usage(),
            cost_nanousd: Some(7),
            n_unpriced: 3,
            is_final: true,
            said: Some(vec![
                SaidItem::Kept { from: 0, to: 2 },
                SaidItem::New {
                    node: Some("find".into()),
                    summary: true,
                    message: Arc::new(Message::text(Role::Assistant, "It is 828 metres high.")),
                },
            ]),
        }
        .into(),
        JoinCompleted { node_id: "fork".into(), n_completed: 2, n_failed: 1 }.into(),
        LoopStarted {
            node_id: "loop".into(),
            end: "loop.end".into(),
            items: Some(vec![json!("x").into()]),
            variable: "item".into(),
            n_iterations_max: 10,
            into: Some("sums".into()),
        }
        .into(),
        LoopIterationStarted { node_id: "loop".into(), index: 1 }.into(),
        LoopEnded { node_id: "loop".into(), n_iterations: 2, error: Some(error()) }.into(),
        SubWorkflowStarted {
            node_id: "sub".into(),
            workflow: "inner".into(),
            entry: "a".into(),
            variables: variables(),
            max_iterations: 50,
            context: NodeContext::Named("support".into()),
        }
        .into(),
        SubWorkflowCompleted { node_id: "sub".into(), output: Some(json!(1).into()), variables: variables() }.into(),
        SubWorkflowFailed { node_id: "sub".into(), error: error() }.into(),
        ContextProcessingRequested {
            node_id: "cut".into(),
            processor: "truncate".into(),
            config: variables(),
            deadline: time(),
        }
        .into(),
        ContextProcessingRetried { node_id: Some("ask".into()), call_id: CALL, attempt: 2 }.into(),
        ContextProcessed {
            node_id: Some("ask".into()),
            call_id: CALL,
            messages: vec![ContextItem::Kept { from: 0, to: 2 }, ContextItem::New(message())],
            variables: variables(),
            output: Some(json!(1).into()),
        }
        .into(),
        ContextProcessingFailed { node_id: Some("ask".into()), call_id: CALL, error: error() }.into(),
        ContextSummarized {
            messages: vec![ContextItem::Kept { from: 0, to: 1 }, ContextItem::New(message())],
            tokens_before: 90_000,
            tokens_after: 2_000,
            limit: 80_000,
        }
        .into(),
        BudgetExceeded { what: "tokens".into(), spent: 11, limit: 10, at: time() }.into(),
        ContextSummaryRequested {
            node_id: "ask".into(),
            from: 1,
            to: 9,
            tokens: 90_000,
            limit: 80_000,
            model: model(),
            timeout_ms: 120_000,
            model_profile: Some(Hash::from_bytes([0xab; 32])),
        }
        .into(),
        ContextSummaryCompleted {
            node_id: Some("ask".into()),
            call_id: CALL,
            summary: Some("It read the file.".into()),
            error: Some(error()),
            usage: usage(),
            cost_nanousd: Some(12),
            prices: Some(prices()),
            model: Some("small".into()),
            duration_ms: 900,
            usage_source: UsageSource::Counted,
            fallback_from: Some("anthropic/m".into()),
        }
        .into(),
        LimitRaised {
            tokens: Some(2_000),
            cost_nanousd: Some(9),
            iterations: Some(10),
            allow_unpriced: true,
            by: by(),
        }
        .into(),
    ]
}
