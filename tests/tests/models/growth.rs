//! The law of growth: each request of a conversation begins with the bytes of the one before, with every protocol and
//! strategy, in forks, and after the process was killed.

use rethread_tests::binary::Ran;

use crate::fakes::{Lane, Protocol, Request};

/// Models of each protocol with which conversations have to grow.
const MODELS: [(Protocol, &str); 9] = [
    (Protocol::Anthropic, "claude-sonnet-5-5"),
    (Protocol::Anthropic, "claude-opus-5-5"),
    (Protocol::Anthropic, "claude-haiku-4-5"),
    (Protocol::Responses, "gpt-6.2-sol"),
    (Protocol::Responses, "gpt-5.6-terra"),
    (Protocol::Responses, "gpt-4.1-mini"),
    // Models that have tools over Chat only without reasoning are sent none where none may be used.
    (Protocol::Chat, "gpt-4.1-mini"),
    (Protocol::Gemini, "gemini-3.8-flash"),
    (Protocol::Gemini, "gemini-3.1-pro-preview"),
];

/// Those that take instructions and tools in the middle of a conversation.
fn appends(model: &str) -> bool {
    ["claude-sonnet-5-5", "claude-opus-5-5", "gpt-6.2-sol", "gpt-5.6-terra", "gpt-4.1-mini"].contains(&model)
}

/// The models for whom the form of an answer is no part of what reasoning is bound to.
fn with_forms() -> impl Iterator<Item = (Protocol, &'static str)> {
    MODELS.into_iter().filter(|(_, model)| *model != "gpt-6.2-sol")
}

/// Whether a request is none of the conversation itself: a judge, a choice or a summary, which is asked beside it.
fn is_aside(request: &Request) -> bool {
    let body = request.body().to_string();
    let last = request.sent("messages").join(" ");
    body.contains("\"choice\"") || last.contains("exactly one word: yes or no") || last.contains("Summarise this part")
}

/// Checks that every request begins with the bytes of the one before it in the conversation.
#[track_caller]
fn check(what: &str, requests: &[Request]) {
    let mut before: Option<&Request> = None;
    for (i, request) in requests.iter().enumerate() {
        // The instructions of a judge are another beginning where a model takes them only there.
        if let Some(before) = before.filter(|_| !is_aside(request) || appends(what))
            && let Err(fault) = request.begins_with(before)
        {
            panic!("{what}: request {i} does not begin with the one before: {fault}");
        }
        if !is_aside(request) {
            before = Some(request);
        }
    }
}

/// Runs a workflow with each model, and checks the law.
#[track_caller]
fn grows(nodes: &str, n_min: usize) {
    grow(MODELS.into_iter(), nodes, n_min);
}

#[track_caller]
fn grow(models: impl Iterator<Item = (Protocol, &'static str)>, nodes: &str, n_min: usize) {
    for (protocol, model) in models {
        let lane = Lane::of(protocol, model);
        lane.workflow("work", nodes);
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert!(requests.len() >= n_min, "{model}: {} calls", requests.len());
        check(model, &requests);
    }
}

#[test]
fn loops_and_nodes() {
    grows(
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: STEPS3 list_folder ü, tool_mode: auto, available_tools: [list_folder, read_file]}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: second}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: CALL2 list_folder, tool_mode: auto, available_tools: [list_folder, read_file]}}
  - {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: last, tool_mode: auto, available_tools: [read_file]}}
"#,
        8,
    );
}

#[test]
fn plans() {
    grow(
        with_forms(),
        r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first, tool_mode: auto, available_tools: [list_folder]}}
  - id: work
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: Do it
      tool_mode: auto
      available_tools: [list_folder]
      strategy: {plan_and_execute: {max_steps: 4}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        6,
    );
}

#[test]
fn panels_of_one_model() {
    for combine in ["judge", "merge"] {
        for (protocol, model) in with_forms() {
            let lane = Lane::new();
            let profiles: String =
                ["main", "one", "two"].iter().map(|name| lane.profile(name, protocol.provider(), model, "")).collect();
            lane.configure(&profiles);
            lane.workflow(
                "work",
                &format!(
                    r#"nodes:
  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first}}}}
  - {{id: ask, llm: {{profile_id: main, system_prompt: S., user_prompt: second, strategy: {{multi_llm: {{profiles: [one, two], combine: {combine}}}}}}}}}
  - {{id: b, llm: {{profile_id: main, system_prompt: S., user_prompt: last}}}}
"#
                ),
            );
            lane.run("run work.yaml --quiet --input x").ok();
            let requests = lane.accepted();
            // What is asked of both, and the choice or the merger, is no part of what follows: the chosen answer is.
            check(model, &requests[..3]);
            // The merger writes the answer, and is asked in the conversation.
            let before = if combine == "merge" { &requests[3] } else { &requests[1] };
            assert_eq!(requests.last().unwrap().begins_with(before), Ok(()), "{model} {combine}");
        }
    }
}

#[test]
fn judges_and_guardrails() {
    grows(
        r#"judge: {profile_id: main}
nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: first}}
  - {id: route, condition: {judge: It is an answer., then: good, else: bad}}
  - id: good
    llm:
      profile_id: main
      system_prompt: S.
      user_prompt: second
      guardrails: [{name: g, on: answer, when: "false"}]
  - {id: bad, llm: {profile_id: main, system_prompt: S., user_prompt: never}}
  - {id: last, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
edges:
  - {from: a, to: route}
  - {from: good, to: last}
  - {from: bad, to: last}
"#,
        4,
    );
}

#[test]
fn other_instructions_and_tools_are_appended() {
    for (protocol, model) in MODELS.into_iter().filter(|(_, model)| appends(model)) {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: You write., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: b, llm: {profile_id: main, system_prompt: You review., user_prompt: second}}
  - {id: c, llm: {profile_id: main, system_prompt: You write., user_prompt: third, tool_mode: auto, available_tools: [list_folder]}}
  - {id: d, llm: {profile_id: main, user_prompt: last}}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        check(model, &lane.accepted());
    }
}

#[test]
fn tools_of_later_nodes_are_appended() {
    for (protocol, model) in MODELS.into_iter().filter(|(_, model)| appends(model) && *model != "gpt-4.1-mini") {
        let lane = Lane::of(protocol, model);
        lane.scene.write("notes.txt", "milk, eggs");
        // OpenAI takes tools at any place, Anthropic after tools at the beginning.
        let first = match protocol {
            Protocol::Anthropic => "tool_mode: auto, available_tools: [read_file]",
            _ => "tool_mode: none",
        };
        lane.workflow(
            "work",
            &format!(
                r#"nodes:
  - {{id: a, llm: {{profile_id: main, system_prompt: S., user_prompt: first, {first}}}}}
  - {{id: b, llm: {{profile_id: main, system_prompt: S., user_prompt: CALL list_folder, tool_mode: auto, available_tools: [list_folder]}}}}
  - {{id: c, llm: {{profile_id: main, system_prompt: T., user_prompt: CALL search_text, tool_mode: auto, available_tools: [search_text, list_folder]}}}}
  - {{id: d, llm: {{profile_id: main, user_prompt: last}}}}
"#
            ),
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        check(model, &requests);
        for request in &requests[1..] {
            assert_eq!(request.sent("tools"), requests[0].sent("tools"), "{model}");
        }
        let called: Vec<_> = lane.events("TOOL_EXECUTION_REQUEST").iter().map(|e| e["data"]["name"].clone()).collect();
        assert_eq!(called, ["list_folder", "search_text"], "{model}");
    }
}

#[test]
fn agents_that_share_the_conversation() {
    for (protocol, model) in MODELS.into_iter().filter(|(_, model)| appends(model)) {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: lead, llm: {profile_id: main, system_prompt: You lead., user_prompt: CALL helper, agents: [{workflow: helper, context: shared}]}}
  - {id: last, llm: {profile_id: main, system_prompt: You lead., user_prompt: last, agents: [{workflow: helper, context: shared}]}}
workflows:
  helper:
    description: Helps.
    nodes: [{id: help, llm: {profile_id: main, system_prompt: You lead., user_prompt: Help}}]
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let requests = lane.accepted();
        assert_eq!(requests.len(), 4);
        // The agent begins with the conversation of its caller, and so does what the caller says after it.
        check(model, &[requests[0].clone(), requests[2].clone(), requests[3].clone()]);
    }
}

#[test]
fn summaries_are_the_only_breaks() {
    for (protocol, model) in MODELS {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"summary: {token_limit: 2500}
nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: LONG first}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: LONG second}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: STEPS2 list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: LONG fourth}}
  - {id: e, llm: {profile_id: main, system_prompt: S., user_prompt: fifth}}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let summaries = lane.events("CONTEXT_SUMMARY_COMPLETED").len();
        let requests: Vec<_> = lane.accepted().into_iter().filter(|request| !is_aside(request)).collect();
        let breaks = requests.windows(2).filter(|pair| pair[1].begins_with(&pair[0]).is_err()).count();
        // Tools that come later are a new prefix where the protocol has no place for them.
        let tools = usize::from(!requests[2].sent("tools").is_empty());
        assert!(summaries > 0 && breaks <= summaries + tools, "{model}: {breaks} breaks, {summaries} summaries");
    }
}

#[test]
fn chats_and_their_turns() {
    for (protocol, model) in MODELS {
        let lane = Lane::new();
        lane.configure(&format!(
            "default_profile = \"main\"\n{}",
            lane.profile("main", protocol.provider(), model, "")
        ));
        lane.talk("chat --system-prompt Rhyme.", "hi\nCALL list_folder\nagain\n").ok();
        lane.talk("chat --continue", "more\n/undo\nother\n").ok();
        lane.run_args(["send", "last", "CALL2 list_folder", "--quiet"]).ok();
        let requests = lane.accepted();
        // What was withdrawn is replaced in a fork: its turn begins with all before it.
        let (kept, replaced) = (requests.len() - 3, requests.len() - 4);
        check(model, &requests[..=replaced]);
        assert_eq!(requests[kept].begins_with(&requests[replaced - 1]), Ok(()), "{model}");
        check(model, &requests[kept..]);
    }
}

#[test]
fn forks_begin_with_what_was_sent() {
    for (protocol, model) in MODELS {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: STEPS2 list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: second}, checkpoint: second}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: third}}
"#,
        );
        lane.run("run work.yaml --quiet --input x").ok();
        let before = lane.accepted();
        lane.run("fork last --at second --quiet").ok();
        lane.run_args(["fork", "last", "--at", "second", "--prompt", "c=other", "--quiet"]).ok();
        let all = lane.accepted();
        assert_eq!(all[before.len()].sent("messages"), before.last().unwrap().sent("messages"), "{model}");
        for fork in &all[before.len()..] {
            assert_eq!(fork.begins_with(&before[before.len() - 2]), Ok(()), "{model}");
        }
    }
}

#[test]
fn killed_runs_send_the_same_bytes_again() {
    for (protocol, model) in MODELS {
        let lane = Lane::of(protocol, model);
        lane.workflow(
            "work",
            r#"nodes:
  - {id: a, llm: {profile_id: main, system_prompt: S., user_prompt: STEPS2 list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: b, llm: {profile_id: main, system_prompt: S., user_prompt: HOLD once}}
  - {id: c, llm: {profile_id: main, system_prompt: S., user_prompt: HOLD STEPS1 list_folder, tool_mode: auto, available_tools: [list_folder]}}
  - {id: d, llm: {profile_id: main, system_prompt: S., user_prompt: last}}
"#,
        );
        let held = |n: usize, words: &str| -> Ran {
            let running = lane.begin(words);
            lane.wait_until_held(n);
            running.kill()
        };
        held(1, "run work.yaml --quiet --input x");
        held(2, "resume last --quiet");
        lane.run("resume last --quiet").ok();
        // The records of held calls come before those of their ends.
        let requests: Vec<_> = lane.requests().into_iter().filter(|request| request.status() != 503).collect();
        let at = requests.iter().position(|request| request.status() == 0).unwrap();
        assert_eq!(requests[at].body(), requests[at + 1].body(), "{model}");
        check(model, &requests);
        assert_eq!(requests.iter().filter(|request| request.status() == 200).count(), 7, "{model}");
    }
}

#[test]
fn tools_that_come_and_go_with_options_keep_their_order() {
    // The built-in order of tools does not depend on which of them are offered.
    let lane = Lane::new();
    let profile = lane.profile("main", "openai_responses", "gpt-5.6-terra", "");
    lane.configure(&format!("default_profile = \"main\"\n{profile}"));
    lane.talk("chat", "hi\n").ok();
    lane.talk("chat --continue --allow-write", "more\n").ok();
    lane.talk("chat --continue", "less\n").ok();
    let requests = lane.accepted();
    let first = requests[0].sent("tools");
    for request in &requests {
        assert_eq!(request.sent("tools")[..first.len()], first[..]);
    }
}
