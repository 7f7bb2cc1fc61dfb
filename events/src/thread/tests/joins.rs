//! Joins with branches that fail or come first, and with deadlines.

use super::branches::{TWO, two};
use super::for_each::EACH;
use super::*;

#[test]
fn failed_branch_fails_the_fork_and_cancels_the_others() {
    let mut family = Family::new(TWO, "hello");
    family.with("1", |bench| bench.model_fails(ErrorKind::Authentication));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_FAILED call=6 authentication
        1     8 LLM_EXECUTION_FAILED node=b authentication
        1     9 NODE_FAILED node=b attempt=1 authentication
        1    10 THREAD_FAILED node=b authentication
        -     5 BRANCH_ENDED index=1 authentication
        -     6 BRANCH_ENDED index=0 cancelled
        -     7 NODE_FAILED node=split attempt=1 authentication
        -     8 THREAD_FAILED node=split authentication
        0     7 LLM_CALL_FAILED call=6 cancelled
        0     8 LLM_EXECUTION_FAILED node=a cancelled
        0     9 NODE_FAILED node=a attempt=1 cancelled
        0    10 THREAD_CANCELLED "not needed"
        -     9 BRANCH_SPENT index=0
        => - error
        => 0 cancelled
        => 1 error
        output 
    "#]]);
}

#[test]
fn a_failed_branch_is_left_out_where_the_join_says_so() {
    let mut family = Family::new(&two("{on_failed: ignore}"), "hello");
    family.with("1", |bench| bench.model_fails(ErrorKind::Authentication));
    family.with("0", |bench| bench.says("L"));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_FAILED call=6 authentication
        1     8 LLM_EXECUTION_FAILED node=b authentication
        1     9 NODE_FAILED node=b attempt=1 authentication
        1    10 THREAD_FAILED node=b authentication
        -     5 BRANCH_ENDED index=1 authentication
        0     7 LLM_CALL_COMPLETED call=6
        0     8 LLM_EXECUTION_COMPLETED node=a "L"
        0     9 NODE_COMPLETED node=a
        0    10 THREAD_COMPLETED node=gather
        -     6 BRANCH_ENDED output=L index=0
        -     7 JOIN_COMPLETED node=split n_completed=1 n_failed=1
        -     8 NODE_COMPLETED node=split
        -     9 NODE_STARTED node=gather attempt=1
        -    10 NODE_COMPLETED node=gather
        -    11 NODE_STARTED node=sum attempt=1
        -    12 LLM_EXECUTION_REQUEST node=sum
        -    13 LLM_CALL_REQUESTED 1
        => - running
        => 0 completed
        => 1 error
        output {"left":"L","right":null}
    "#]]);
}

#[test]
fn a_failed_branch_is_a_result_where_the_join_says_so() {
    let mut family = Family::new(&two("{on_failed: collect}"), "hello");
    family.with("1", |bench| bench.model_fails(ErrorKind::Authentication));
    family.with("0", |bench| bench.says("L"));
    let right = family.root().state().variables()["right"].clone();
    family.note(&right.0["error"]["kind"]);
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_FAILED call=6 authentication
        1     8 LLM_EXECUTION_FAILED node=b authentication
        1     9 NODE_FAILED node=b attempt=1 authentication
        1    10 THREAD_FAILED node=b authentication
        -     5 BRANCH_ENDED index=1 authentication
        0     7 LLM_CALL_COMPLETED call=6
        0     8 LLM_EXECUTION_COMPLETED node=a "L"
        0     9 NODE_COMPLETED node=a
        0    10 THREAD_COMPLETED node=gather
        -     6 BRANCH_ENDED output=L index=0
        -     7 JOIN_COMPLETED node=split n_completed=1 n_failed=1
        -     8 NODE_COMPLETED node=split
        -     9 NODE_STARTED node=gather attempt=1
        -    10 NODE_COMPLETED node=gather
        -    11 NODE_STARTED node=sum attempt=1
        -    12 LLM_EXECUTION_REQUEST node=sum
        -    13 LLM_CALL_REQUESTED 1
            "authentication"
        => - running
        => 0 completed
        => 1 error
        output {"left":"L","right":{"error":{"kind":"authentication","message":"the provider is down","retryable":false}}}
    "#]]);
}

#[test]
fn first_branch_wins_and_the_loser_is_cancelled_with_its_calls() {
    let mut family = Family::new(&two("{mode: any}"), "hello");
    family.with("1", |bench| bench.says("R"));
    family.note("the answer of the loser comes too late");
    family.with("0", |bench| {
        let answer = bench::answer(CallId(Seq(6)), "L", &[], FinishReason::Stop);
        bench.give(Input::reported(1, answer));
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=1
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=b "R"
        1     9 NODE_COMPLETED node=b
        1    10 THREAD_COMPLETED node=gather
        -     5 BRANCH_ENDED output=R index=1
        -     6 BRANCH_ENDED index=0 cancelled
        -     7 JOIN_COMPLETED node=split n_completed=1 n_failed=1
        -     8 NODE_COMPLETED node=split
        -     9 NODE_STARTED node=gather attempt=1
        -    10 NODE_COMPLETED node=gather
        -    11 NODE_STARTED node=sum attempt=1
        -    12 LLM_EXECUTION_REQUEST node=sum
        -    13 LLM_CALL_REQUESTED 1
        0     7 LLM_CALL_FAILED call=6 cancelled
        0     8 LLM_EXECUTION_FAILED node=a cancelled
        0     9 NODE_FAILED node=a attempt=1 cancelled
        0    10 THREAD_CANCELLED "not needed"
        -    14 BRANCH_SPENT index=0
            the answer of the loser comes too late
        0    11 WARNING call=6 "late_answer"
        => - running
        => 0 cancelled
        => 1 completed
        output {"left":null,"right":"R"}
    "#]]);
}

#[test]
fn two_of_three_suffice() {
    let yaml = EACH.replace("concurrency: 2", "concurrency: 3\n      mode: n_of_m\n      n: 2");
    let mut family = Family::new(&yaml, serde_json::json!(["x", "y", "z"]));
    family.with("0", |bench| bench.model_fails(ErrorKind::Authentication));
    family.with("2", |bench| bench.says("Z"));
    family.note("one is missing still");
    family.with("1", |bench| bench.says("Y"));
    assert_eq!(family.root().state().output().unwrap().0.to_string(), r#"[null,"Y","Z"]"#);
    assert_eq!(family.root().state().status(), Status::Completed);

    let mut family = Family::new(&yaml, serde_json::json!(["x", "y", "z"]));
    family.with("0", |bench| bench.model_fails(ErrorKind::Authentication));
    assert_eq!(family.root().state().status(), Status::Running);
    family.with("1", |bench| bench.model_fails(ErrorKind::Authentication));
    assert_eq!(family.root().state().status(), Status::Error, "two cannot complete any more");
    assert_eq!(family.threads["2"].state().status(), Status::Cancelled);
}

#[test]
fn where_one_suffices_a_failure_is_none_until_the_last() {
    let mut family = Family::new(&two("{mode: any}"), "hello");
    family.with("0", |bench| bench.model_fails(ErrorKind::Authentication));
    family.note("one is left");
    family.with("1", |bench| bench.model_fails(ErrorKind::Quota));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=1
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        0     7 LLM_CALL_FAILED call=6 authentication
        0     8 LLM_EXECUTION_FAILED node=a authentication
        0     9 NODE_FAILED node=a attempt=1 authentication
        0    10 THREAD_FAILED node=a authentication
        -     5 BRANCH_ENDED index=0 authentication
            one is left
        1     7 LLM_CALL_FAILED call=6 quota
        1     8 LLM_EXECUTION_FAILED node=b quota
        1     9 NODE_FAILED node=b attempt=1 quota
        1    10 THREAD_FAILED node=b quota
        -     6 BRANCH_ENDED index=1 quota
        -     7 NODE_FAILED node=split attempt=1 authentication
        -     8 THREAD_FAILED node=split authentication
        => - error
        => 0 error
        => 1 error
        output 
    "#]]);
}

#[test]
fn time_is_up() {
    let mut family = Family::new(&two("{timeout_ms: 100}"), "hello");
    family.tick_after_ms("-", 100);
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
            100 ms later
        -     5 BRANCH_ENDED index=0 timeout
        -     6 BRANCH_ENDED index=1 timeout
        -     7 NODE_FAILED node=split attempt=1 timeout
        -     8 THREAD_FAILED node=split timeout
        0     7 LLM_CALL_FAILED call=6 cancelled
        0     8 LLM_EXECUTION_FAILED node=a cancelled
        0     9 NODE_FAILED node=a attempt=1 cancelled
        0    10 THREAD_CANCELLED "not needed"
        -     9 BRANCH_SPENT index=0
        1     7 LLM_CALL_FAILED call=6 cancelled
        1     8 LLM_EXECUTION_FAILED node=b cancelled
        1     9 NODE_FAILED node=b attempt=1 cancelled
        1    10 THREAD_CANCELLED "not needed"
        -    10 BRANCH_SPENT index=1
        => - error
        => 0 cancelled
        => 1 cancelled
        output 
    "#]]);
    let mut family = Family::new(&two("{timeout_ms: 100, on_failed: ignore}"), "hello");
    family.with("1", |bench| bench.says("R"));
    family.tick_after_ms("-", 100);
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=b "R"
        1     9 NODE_COMPLETED node=b
        1    10 THREAD_COMPLETED node=gather
        -     5 BRANCH_ENDED output=R index=1
            100 ms later
        -     6 BRANCH_ENDED index=0 timeout
        -     7 NODE_FAILED node=split attempt=1 timeout
        -     8 THREAD_FAILED node=split timeout
        0     7 LLM_CALL_FAILED call=6 cancelled
        0     8 LLM_EXECUTION_FAILED node=a cancelled
        0     9 NODE_FAILED node=a attempt=1 cancelled
        0    10 THREAD_CANCELLED "not needed"
        -     9 BRANCH_SPENT index=0
        => - error
        => 0 cancelled
        => 1 completed
        output 
    "#]]);
}

#[test]
fn branches_whose_time_is_up_run_again_as_they_ran() {
    let yaml = "
version: '1'
name: slow
nodes:
  - id: all
    parallel:
      for_each: input
      concurrency: 1
      on_failed: ignore
      timeout_ms: 700
      body:
        nodes:
          - {id: ask, llm: {provider: mock, model: m, user_prompt: 'spell'}}
";
    let mut family = Family::new(yaml, serde_json::json!([1, 2, 3]));
    family.tick_after_ms("-", 700);
    assert_eq!(family.root().state().status(), Status::Error);
    for bench in family.threads.values() {
        laws::hold(bench);
    }
}

/// The error of the root.
fn error_of(family: &Family) -> ExecutionError {
    family.root().state().error().unwrap_or_else(|| panic!("it has not failed: {:?}", family.root().state().status()))
}

#[test]
fn impossible_quorum_fails_for_every_on_failed() {
    for mode in ["mode: any", "mode: n_of_m, n: 2", "mode: n_of_m, n: 1"] {
        for on_failed in ["fail", "ignore", "collect"] {
            let mut family = Family::new(&two(&format!("{{{mode}, on_failed: {on_failed}}}")), "hello");
            family.with("0", |bench| bench.model_fails(ErrorKind::Authentication));
            if !mode.ends_with('2') {
                assert_eq!(family.root().state().status(), Status::Running, "{mode} {on_failed}");
                family.with("1", |bench| bench.model_fails(ErrorKind::Quota));
            }
            let error = error_of(&family);
            assert_eq!(error.kind, ErrorKind::Authentication);
            assert!(error.message.contains("`left`: the provider is down"), "{mode} {on_failed}: {error}");
            assert_eq!(error.message.contains("`right`"), !mode.ends_with('2'), "{mode} {on_failed}: {error}");
        }
    }
}

#[test]
fn any_waits_for_the_first_success() {
    for on_failed in ["ignore", "collect"] {
        let mut family = Family::new(&two(&format!("{{mode: any, on_failed: {on_failed}}}")), "hello");
        family.with("0", |bench| bench.model_fails(ErrorKind::Authentication));
        assert!(family.root().state().fan().is_some(), "a failure is no success");
        family.with("1", |bench| bench.says("R"));
        assert!(family.root().state().fan().is_none());
        assert_eq!(family.root().state().variables()["right"], Json::from("R"));
    }
}

#[test]
fn list_shorter_than_the_quorum_fails_the_node() {
    let yaml =
        EACH.replace("concurrency: 2", "concurrency: 3\n      mode: n_of_m\n      n: 3\n      on_failed: ignore");
    let family = Family::new(&yaml, serde_json::json!(["x", "y"]));
    let error = error_of(&family);
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("3 branches of node") && error.message.contains("has 2 elements"), "{error}");
    let any = EACH.replace("concurrency: 2", "mode: any");
    assert_eq!(error_of(&Family::new(&any, serde_json::json!([]))).kind, ErrorKind::Configuration);
    assert_eq!(Family::new(EACH, serde_json::json!([])).root().state().status(), Status::Completed);
}

#[test]
fn join_that_is_late_fails_and_names_the_branches() {
    for (mode, on_failed) in
        ["n_of_m, n: 2", "all"].iter().flat_map(|mode| ["fail", "ignore", "collect"].map(|on| (mode, on)))
    {
        let join = format!("{{mode: {mode}, on_failed: {on_failed}, timeout_ms: 1000}}");
        let mut family = Family::new(&two(&join), "hello");
        family.with("0", |bench| bench.says("L"));
        family.tick_after_ms("-", 1_000);
        let error = error_of(&family);
        assert_eq!(error.kind, ErrorKind::Timeout);
        let wanted = match (*mode, on_failed) {
            ("all", "ignore" | "collect") => "all 2 branches must end and 1 did",
            _ => "2 of 2 branches must succeed and 1 did",
        };
        assert!(error.message.contains(&format!("{wanted}; running: `right`")), "{error}");
        assert_eq!(family.threads["1"].state().status(), Status::Cancelled);
    }
}
