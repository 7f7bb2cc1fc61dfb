//! What can be wrong with summaries and budgets.

use super::*;

#[test]
fn all_faults_of_budgets_and_summaries_are_found_at_once() {
    check(
        "\
version: '1'
name: limited
budget: {usd: 1e3, cost_nanousd: 7}
summary: {token_limit: sometimes}
nodes: [{id: a, end: {}}]
",
        expect![[r#"
            3:15: budget.usd: cost_nanousd is given already
            4:24: summary.token_limit: data did not match any variant of untagged enum TokenLimit
        "#]],
    );
    check(
        "\
version: '1'
name: limited
budget: {usd: '-1', cost_nanousd: 7}
summary: {token_limit: 100, model: m, timeout_ms: 0, extra: [1]}
nodes:
  - id: ask
    llm:
      profile_id: p
      user_prompt: hi
      summary: {profile_id: p, provider: mock, token_limit: off}
  - id: sum
    context_processor: {processor_name: summarize, processor_config: {token_limit: 7}}
",
        expect![[r#"
            3:15: budget.usd: `-1` is no amount in US dollars (write it like '0.25', with at most 9 decimals)
            3:15: budget.usd: cost_nanousd is given already
            4:10: summary: no provider (give provider and model, or profile_id)
            4:51: summary.timeout_ms: 0 is not between 1 and 2592000000
            4:61: summary.extra: not an object
            10:29: nodes[0].llm.summary.profile_id: a profile replaces provider and model (keep the profile, or provider and model)
            12:84: nodes[1].context_processor.processor_config.token_limit: `summarize` does not know it: it reads profile_id, provider, model, timeout_ms, extra
        "#]],
    );
    check(
        "version: '1'\nname: limited\nbudget: {}\nnodes: [{id: a, end: {}}]\n",
        expect![[r#"
        3:9: budget: a budget of nothing (give tokens, usd or cost_nanousd)
    "#]],
    );
    check(
        "version: '1'\nname: limited\nbudget: {tokens: 0}\non_limit: stop\nnodes: [{id: a, end: {}}]\n",
        expect![[r#"
            4:11: on_limit: unknown variant `stop`, expected one of fail, pause
        "#]],
    );
}

#[test]
fn budgets_and_summaries_that_make_sense_are_accepted() {
    for said in [
        "budget: {tokens: 1}",
        "budget: {usd: '0.000000001'}",
        "budget: {usd: '12', tokens: 5, on_exceeded: fail}",
        "budget: {cost_nanousd: 0}",
        "summary: {token_limit: off}",
        "summary: {token_limit: 0}",
        "summary: {token_limit: 1, provider: mock, model: m, timeout_ms: 1}",
        "summary: {profile_id: p}",
        "on_limit: pause",
    ] {
        valid(&format!("version: '1'\nname: limited\n{said}\nnodes: [{{id: a, end: {{}}}}]\n"));
    }
}
