//! What threads cost: every command gives the same figure, and the figure is that of the table of models.

use serde_json::{Value, json};

use crate::fakes::{Lane, Protocol, Request};

/// Branches, one of which is cancelled, an agent, a judge and a summary.
const EVERYTHING: &str = r#"judge: {profile_id: main}
summary: {token_limit: 1500}
nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: LONG first}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: LONG second}}
  - id: race
    parallel:
      mode: any
      branches:
        slow: {nodes: [{id: spends, llm: {profile_id: main, user_prompt: one}}, {id: says, tool: {tool_name: write_file, parameters: {path: spent, content: x}}}, {id: hold, wait: {for_ms: 604800000}}]}
        fast: {nodes: [{id: sees, retry: {max_attempts: 100, backoff_ms: 20, backoff_ms_max: 1000, on: [not_found, failed]}, tool: {tool_name: read_file, parameters: {path: spent}}}, {id: x, llm: {profile_id: main, user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}]}
  - {id: lead, llm: {profile_id: main, system_prompt: S., user_prompt: CALL helper, agents: [helper]}}
  - {id: route, condition: {judge: It is an answer., then: good, else: bad}}
  - {id: good, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
  - {id: bad, llm: {profile_id: main, system_prompt: S., user_prompt: never}}
end_points: [good, bad]
workflows:
  helper:
    description: Helps.
    nodes: [{id: help, llm: {profile_id: main, user_prompt: help}}]
"#;

/// The cost and the tokens that a value gives for its thread.
#[track_caller]
fn figures(what: &str, value: &Value) -> [u64; 3] {
    let usage = value.get("usage").unwrap_or_else(|| panic!("{what} gives no usage: {value}"));
    ["cost_nanousd", "input_tokens", "output_tokens"]
        .map(|name| usage[name].as_u64().unwrap_or_else(|| panic!("{what} gives no {name}: {usage}")))
}

/// The cost and the tokens of the last thread, which all commands give alike.
#[track_caller]
fn same_figures(lane: &Lane) -> [u64; 3] {
    let shown = lane.run("show last --json").ok().json();
    let expected = figures("show", &shown);
    assert_eq!(figures("explain", &lane.run("explain last --json").ok().json()), expected, "explain");
    let threads = lane.run("threads --usage --json").ok().json();
    let mine = threads.as_array().unwrap().iter().find(|thread| thread["thread_id"] == shown["thread_id"]).unwrap();
    assert_eq!(figures("threads", mine), expected, "threads");
    let usage = lane.run("usage last --json").ok().json();
    let models = usage["models"].as_array().unwrap();
    let sum = |of: &dyn Fn(&Value) -> &Value| models.iter().map(|model| of(model).as_u64().unwrap_or(0)).sum::<u64>();
    let summed = [
        sum(&|model| &model["cost_nanousd"]),
        sum(&|model| &model["usage"]["input_tokens"]),
        sum(&|model| &model["usage"]["output_tokens"]),
    ];
    assert_eq!(summed, expected, "usage");
    expected
}

/// What the provider reported: its tokens of input and output.
fn reported(protocol: Protocol, requests: &[Request]) -> [u64; 2] {
    let of = |request: &Request| {
        let n = |pointer: &str| request.answer().pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        match protocol {
            Protocol::Anthropic => [
                n("/usage/input_tokens")
                    + n("/usage/cache_read_input_tokens")
                    + n("/usage/cache_creation_input_tokens"),
                n("/usage/output_tokens"),
            ],
            Protocol::Responses => [n("/usage/input_tokens"), n("/usage/output_tokens")],
            Protocol::Chat => [n("/usage/prompt_tokens"), n("/usage/completion_tokens")],
            Protocol::Gemini => [
                n("/usageMetadata/promptTokenCount") + n("/usageMetadata/toolUsePromptTokenCount"),
                n("/usageMetadata/candidatesTokenCount") + n("/usageMetadata/thoughtsTokenCount"),
            ],
        }
    };
    requests.iter().map(of).fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
}

fn priced(protocol: Protocol, model: &str, keys: &str) -> Lane {
    Lane::with(protocol, model, &format!("price_list = \"{}\"\n{keys}", protocol.list()))
}

#[test]
fn all_commands_give_the_same_figures() {
    for protocol in Protocol::ALL {
        let lane = priced(protocol, protocol.model(), "");
        lane.workflow("everything", EVERYTHING);
        let ran = lane.run("run everything.yaml --json --input x --allow-write").ok().json();
        let figures_of_run = figures("run", &ran);
        let [cost, input, output] = same_figures(&lane);
        assert_eq!([cost, input, output], figures_of_run, "{protocol:?}");
        assert!(cost > 0, "{protocol:?}");
        let answered: Vec<_> = lane.accepted();
        assert_eq!([input, output], reported(protocol, &answered), "{protocol:?}: what the provider reported");
    }
}

#[test]
fn failed_runs_and_their_calls_are_counted_under_their_model() {
    let lane = priced(Protocol::Anthropic, "claude-sonnet-5-5", "");
    let other = lane.profile("gone", "anthropic", "claude-opus-9", "price_list = \"anthropic\"");
    let main = lane.profile("main", "anthropic", "claude-sonnet-5-5", "price_list = \"anthropic\"");
    lane.configure(&format!("{main}{other}"));
    lane.workflow(
        "work",
        "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: first}}\n  - {id: b, llm: {profile_id: gone, user_prompt: second}}\n",
    );
    lane.run("run work.yaml --quiet --input x").code(1);
    same_figures(&lane);
    let usage = lane.run("usage last --json").ok().json();
    let failed: Vec<_> = usage["models"].as_array().unwrap().iter().filter(|model| model["failed"] == 1).collect();
    assert_eq!(failed.len(), 1, "{usage}");
    assert_eq!((&failed[0]["model"], &failed[0]["profile"]), (&json!("claude-opus-9"), &json!("gone")), "{usage}");
}

/// A stream that ends after its beginning: the provider has reported the prompt, and a first token at most.
#[test]
fn broken_stream_is_paid_and_counted() {
    for (protocol, model, input, output) in
        [(Protocol::Anthropic, "claude-sonnet-5-5", 2_000, 10_000), (Protocol::Gemini, "gemini-3.8-flash", 750, 3_750)]
    {
        let begun = |answer: &Value| match protocol {
            Protocol::Gemini => [answer["usageMetadata"]["promptTokenCount"].as_u64().unwrap(), 0],
            _ => [answer["usage"]["input_tokens"].as_u64().unwrap(), 1],
        };
        let fails = |lane: &Lane, n_attempts: u32| {
            let list = format!("price_list = \"{}\"", protocol.list());
            let profile = lane.profile("main", protocol.provider(), model, &list);
            lane.configure(&profile.replace("attempts_max = 1", &format!("attempts_max = {n_attempts}")));
            let node = "  - {id: a, llm: {profile_id: main, user_prompt: BREAK it, stream: true}}";
            let then = "  - {id: b, llm: {profile_id: main, user_prompt: then}}";
            lane.workflow(
                "one",
                &format!("budget: {{usd: \"0.000001\", on_exceeded: fail}}\nnodes:\n{node}\n{then}\n"),
            );
            lane.run("run one.yaml --quiet --input x").code(1);
        };
        // The attempt is the last one: it stands in LLM_CALL_FAILED.
        let lane = Lane::new();
        fails(&lane, 1);
        let of = |lane: &Lane| begun(lane.requests().first().unwrap().answer());
        let [n_input, n_output] = of(&lane);
        assert_eq!(same_figures(&lane), [n_input * input + n_output * output, n_input, n_output], "{protocol:?}");
        let failed = lane.events("LLM_CALL_FAILED");
        assert_eq!(failed[0]["data"]["used"]["usage"]["input_tokens"], n_input, "{failed:?}");
        // Another attempt follows, whose answer is paid too; then the budget is spent.
        let lane = Lane::new();
        fails(&lane, 2);
        let [tried, ..] = &lane.events("LLM_TRY_FAILED")[..] else { panic!("{protocol:?}: no attempt failed") };
        assert_eq!(tried["data"]["used"]["usage"]["input_tokens"], n_input, "{tried}");
        let [_, answered] = &lane.requests()[..] else { panic!("{protocol:?}: {}", lane.requests().len()) };
        let [n_answer_input, n_answer_output] = reported(protocol, std::slice::from_ref(answered));
        let cost = (n_input + n_answer_input) * input + (n_output + n_answer_output) * output;
        assert_eq!(same_figures(&lane), [cost, n_input + n_answer_input, n_output + n_answer_output], "{protocol:?}");
    }
}

/// A long prompt that is read from the cache by the second call and those after it.
fn long() -> String {
    let system = "You know a lot. ".repeat(1200);
    let node = |id: &str| {
        format!("  - {{id: {id}, llm: {{profile_id: main, system_prompt: \"{system}\", user_prompt: x}}}}\n")
    };
    format!("nodes:\n{}{}{}", node("a"), node("b"), node("c"))
}

#[test]
fn cached_tokens_have_their_own_prices() {
    // Nano-dollars per million tokens of claude-sonnet-5-5: platform.claude.com/docs/en/about-claude/pricing.
    let (input, output, read) = (2_000_000_000, 10_000_000_000, 100_000_000);
    for (keys, written) in [("", 2_500_000_000_u64), ("cache = \"1h\"", 4_000_000_000)] {
        let lane = priced(Protocol::Anthropic, "claude-sonnet-5-5", keys);
        lane.workflow("work", &long());
        lane.run("run work.yaml --quiet --input x").ok();
        let [cost, ..] = same_figures(&lane);
        let requests = lane.accepted();
        let n =
            |name: &str| requests.iter().map(|request| request.answer()["usage"][name].as_u64().unwrap()).sum::<u64>();
        assert!(n("cache_read_input_tokens") > 8000 && n("cache_creation_input_tokens") > 4000);
        let expected = n("input_tokens") * input
            + n("cache_creation_input_tokens") * written
            + n("cache_read_input_tokens") * read
            + n("output_tokens") * output;
        assert_eq!(cost, expected / 1_000_000, "cache {keys}");
    }
    // gpt-6-sol: $2, cached $0.20, written $2.50, out $10.
    let lane = priced(Protocol::Responses, "gpt-6-sol", "");
    lane.workflow("work", &long());
    lane.run("run work.yaml --quiet --input x").ok();
    let [cost, ..] = same_figures(&lane);
    let requests = lane.accepted();
    let n = |pointer: &str| {
        requests
            .iter()
            .map(|request| request.answer()["usage"].pointer(pointer).unwrap().as_u64().unwrap())
            .sum::<u64>()
    };
    let (cached, wrote) = (n("/input_tokens_details/cached_tokens"), n("/input_tokens_details/cache_write_tokens"));
    assert!(cached > 8000 && wrote > 4000);
    let plain = n("/input_tokens") - cached - wrote;
    let expected =
        plain * 2_000_000_000 + cached * 200_000_000 + wrote * 2_500_000_000 + n("/output_tokens") * 10_000_000_000;
    assert_eq!(cost, expected / 1_000_000);
    // gemini-3.8-flash: $0.75, cached $0.075, out $3.75.
    let lane = priced(Protocol::Gemini, "gemini-3.8-flash", "");
    lane.workflow("work", &long());
    lane.run("run work.yaml --quiet --input x").ok();
    let [cost, ..] = same_figures(&lane);
    let requests = lane.accepted();
    let n = |name: &str| {
        requests.iter().map(|request| request.answer()["usageMetadata"][name].as_u64().unwrap_or(0)).sum::<u64>()
    };
    let cached = n("cachedContentTokenCount");
    let expected = (n("promptTokenCount") - cached) * 750_000_000
        + cached * 75_000_000
        + (n("candidatesTokenCount") + n("thoughtsTokenCount")) * 3_750_000_000;
    assert_eq!(cost, expected / 1_000_000);
}

#[test]
fn searches_and_tool_use_tokens_are_paid() {
    for (protocol, model, per_search) in [
        (Protocol::Anthropic, "claude-sonnet-5-5", 10_000_000),
        (Protocol::Responses, "gpt-6-sol", 10_000_000),
        (Protocol::Gemini, "gemini-3.8-flash", 14_000_000),
    ] {
        let cost = |prompt: &str| {
            let lane = priced(protocol, model, "");
            lane.workflow("one", &format!("nodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: {prompt}}}}}\n"));
            lane.run("run one.yaml --quiet --input x").ok();
            same_figures(&lane)[0]
        };
        let searched = cost("SEARCH");
        assert!(searched >= per_search && searched < per_search + 5_000_000, "{protocol:?}: {searched}");
    }
    // 700 tokens that a search put into the prompt: the search is billed, and not they.
    let lane = priced(Protocol::Gemini, "gemini-3.8-flash", "");
    lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: CITE}}\n");
    let ran = lane.run("run one.yaml --json --input x").ok().json();
    let requests = lane.accepted();
    let metadata = &requests[0].answer()["usageMetadata"];
    assert_eq!(ran["usage"]["total_tokens"], metadata["totalTokenCount"], "{ran}");
}

#[test]
fn tiers_have_their_own_prices() {
    let cost = |keys: &str| {
        let lane = priced(Protocol::Responses, "gpt-6-sol", keys);
        lane.workflow("one", "nodes:\n  - {id: a, llm: {profile_id: main, user_prompt: LONG}}\n");
        lane.run("run one.yaml --quiet --input x").ok();
        lane.accepted();
        same_figures(&lane)[0]
    };
    let (standard, flex, priority) =
        (cost(""), cost("params = { service_tier = \"flex\" }"), cost("params = { service_tier = \"priority\" }"));
    assert_eq!((flex * 2, priority), (standard, standard * 2));
}

#[test]
fn prices_of_a_profile_are_dollars_per_million_tokens() {
    let lane = Lane::with(Protocol::Chat, "some-model", "prices = { input = 1.5, output = 6 }");
    lane.workflow("one", "budget: {usd: \"1\"}\nnodes:\n  - {id: a, llm: {profile_id: main, user_prompt: hi}}\n");
    lane.run("run one.yaml --quiet --input x").ok();
    let [cost, input, output] = same_figures(&lane);
    assert_eq!(cost, input * 1_500 + output * 6_000);
}

#[test]
fn budget_in_money_holds() {
    for protocol in Protocol::ALL {
        let lane = priced(protocol, protocol.model(), "");
        lane.workflow(
            "work",
            "budget: {usd: \"0.02\", on_exceeded: fail}\nnodes:\n  - id: l\n    loop: {times: 200, body: {nodes: [{id: a, llm: \
             {profile_id: main, context: fresh, user_prompt: LONG}}]}}\n",
        );
        let failed = lane.run("run work.yaml --json --input x").code(1).json();
        assert_eq!(failed["error"]["kind"], "limit", "{protocol:?}: {failed}");
        let [cost, ..] = same_figures(&lane);
        // It is exceeded by one call at most.
        assert!((20_000_000..45_000_000).contains(&cost), "{protocol:?}: {cost}");
    }
}
