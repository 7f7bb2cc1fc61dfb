//! The names of attributes and metrics, in one table: the names of the GenAI conventions that were published last, and
//! those that replace them.

/// Which names are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Version 1.41 of the semantic conventions, the last one with names for GenAI that was published.
    #[default]
    V1_41,
    /// The names of the conventions in development.
    Latest,
}

macro_rules! keys {
    ($($(#[doc = $doc:literal])* $key:ident $v1_41:literal $latest:literal;)*) => {
        /// The meaning of an attribute or a metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($(#[doc = $doc])* $key,)*
        }

        impl Key {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$key,)*];

            /// Its name.
            pub const fn name(self, profile: Profile) -> &'static str {
                match (self, profile) {
                    $(
                        (Self::$key, Profile::V1_41) => $v1_41,
                        (Self::$key, Profile::Latest) => $latest,
                    )*
                }
            }
        }
    };
}

keys! {
    /// The operation: `chat`, `execute_tool`, `invoke_agent`, `invoke_workflow`.
    Operation "gen_ai.operation.name" "gen_ai.operation.name";
    /// The provider of a model.
    Provider "gen_ai.provider.name" "gen_ai.provider.name";
    /// The conversation: the thread.
    Conversation "gen_ai.conversation.id" "gen_ai.conversation.id";
    /// The workflow.
    Workflow "gen_ai.workflow.name" "gen_ai.workflow.name";
    /// The agent: the node with the agent loop, or the workflow that a model called.
    Agent "gen_ai.agent.name" "gen_ai.agent.name";
    /// The model that was asked.
    RequestModel "gen_ai.request.model" "gen_ai.request.model";
    /// The sampling temperature.
    Temperature "gen_ai.request.temperature" "gen_ai.request.temperature";
    /// The most tokens of an answer.
    MaxTokens "gen_ai.request.max_tokens" "gen_ai.request.max_tokens";
    /// Whether the answer is streamed.
    Stream "gen_ai.request.stream" "gen_ai.request.stream";
    /// The model that answered.
    ResponseModel "gen_ai.response.model" "gen_ai.response.model";
    /// The provider's id of the answer.
    ResponseId "gen_ai.response.id" "gen_ai.response.id";
    /// Why the model stopped.
    FinishReasons "gen_ai.response.finish_reasons" "gen_ai.response.finish_reasons";
    /// Tokens of the prompt.
    InputTokens "gen_ai.usage.input_tokens" "gen_ai.usage.input_tokens";
    /// Tokens of the answer.
    OutputTokens "gen_ai.usage.output_tokens" "gen_ai.usage.output_tokens";
    /// Tokens of the prompt that came from the provider's cache.
    CacheReadTokens "gen_ai.usage.cache_read.input_tokens" "gen_ai.usage.cache_read.input_tokens";
    /// Tokens of the prompt that were written to the provider's cache.
    CacheWriteTokens "gen_ai.usage.cache_creation.input_tokens" "gen_ai.usage.cache_write.input_tokens";
    /// Tokens of reasoning.
    ReasoningTokens "gen_ai.usage.reasoning.output_tokens" "gen_ai.usage.reasoning.output_tokens";
    /// The tool.
    Tool "gen_ai.tool.name" "gen_ai.tool.name";
    /// The type of the tool.
    ToolType "gen_ai.tool.type" "gen_ai.tool.type";
    /// The id that the model gave the call of a tool.
    ToolCall "gen_ai.tool.call.id" "gen_ai.tool.call.id";
    /// The arguments of the call; content.
    ToolArguments "gen_ai.tool.call.arguments" "gen_ai.tool.call.arguments";
    /// The result of the call; content.
    ToolResult "gen_ai.tool.call.result" "gen_ai.tool.call.result";
    /// The instructions; content.
    Instructions "gen_ai.system_instructions" "gen_ai.system_instructions";
    /// Messages to the model; content.
    InputMessages "gen_ai.input.messages" "gen_ai.input.messages";
    /// Messages of the model; content.
    OutputMessages "gen_ai.output.messages" "gen_ai.output.messages";
    /// The method of the MCP server that is called.
    McpMethod "mcp.method.name" "mcp.method.name";
    /// How the MCP server is reached: `pipe` or `tcp`.
    Transport "network.transport" "network.transport";
    /// The host to which requests go.
    ServerAddress "server.address" "server.address";
    /// The port of it.
    ServerPort "server.port" "server.port";
    /// The kind of error.
    ErrorType "error.type" "error.type";

    /// The thread.
    Thread "rethread.thread.id" "rethread.thread.id";
    /// The run of the thread.
    Run "rethread.run.id" "rethread.run.id";
    /// How it ended.
    Outcome "rethread.outcome" "rethread.outcome";
    /// The node.
    Node "rethread.node.id" "rethread.node.id";
    /// What the node does.
    NodeKind "rethread.node.kind" "rethread.node.kind";
    /// Which time round of the loop, from 0.
    Iteration "rethread.iteration" "rethread.iteration";
    /// The hook of the run.
    Hook "rethread.hook" "rethread.hook";
    /// How often it was tried.
    Attempts "rethread.attempts" "rethread.attempts";
    /// The number of the try, from 1.
    Try "rethread.try" "rethread.try";
    /// The call: the seq of its request.
    Call "rethread.call.id" "rethread.call.id";
    /// The kind of call.
    CallKind "rethread.call.kind" "rethread.call.kind";
    /// The name of what was called.
    Callee "rethread.call.name" "rethread.call.name";
    /// The profile of the model.
    ModelProfile "rethread.model.profile" "rethread.model.profile";
    /// What the answer cost in US dollars.
    Cost "rethread.cost_usd" "rethread.cost_usd";
    /// Whether the answer came from the cache of answers.
    Cached "rethread.cached" "rethread.cached";
    /// The wait before the next try, in milliseconds.
    WaitMs "rethread.wait_ms" "rethread.wait_ms";
    /// How many spans of a very long run are left out.
    Dropped "rethread.spans_left_out" "rethread.spans_left_out";

    /// Tokens, input or output.
    TokenType "gen_ai.token.type" "gen_ai.token.type";
    /// The metric with the duration of model calls.
    OperationDuration "gen_ai.client.operation.duration" "gen_ai.client.inference.duration";
    /// The metric with the duration of tool calls.
    ToolDuration "gen_ai.execute_tool.duration" "gen_ai.execute_tool.duration";
    /// The metric with the duration of runs.
    RunDuration "gen_ai.workflow.duration" "gen_ai.invoke_workflow.duration";
    /// The metric with the duration of agent loops.
    AgentDuration "gen_ai.invoke_agent.duration" "gen_ai.invoke_agent.duration";
    /// The metric with the tokens of model calls.
    TokenUsage "gen_ai.client.token.usage" "gen_ai.client.inference.usage";
}

/// The name that the conventions have for a provider of ours.
pub fn provider_name(name: &str) -> &str {
    match name {
        "openai_chat" | "openai_responses" | "openai_compatible" => "openai",
        "gemini" | "gemini_openai" => "gcp.gemini",
        "human_relay" => "human",
        name => name,
    }
}
