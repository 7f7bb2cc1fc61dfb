//! `rethread llm check` and `rethread llm models`: what a provider says about itself.

use std::process::ExitCode;
use std::sync::Arc;

use super::print::{failed, no_client, note, out, print_json};
use super::target::{TargetArgs, client, profiles};

pub(super) async fn check(args: TargetArgs) -> ExitCode {
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(e) => return no_client(&e, args.json),
    };
    let health = client.check().await;
    if args.json {
        print_json(&health);
    } else if let Some(error) = &health.error {
        note(&format!("error: {error}"));
    } else {
        out(&format!("{}: reachable, key accepted, {} ms\n", health.provider, health.took_ms));
        if health.model_available == Some(false) {
            note("warning: the model is not on the provider's list");
        }
    }
    if health.error.is_some() { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

pub(super) async fn models(args: TargetArgs) -> ExitCode {
    if !args.target.names_provider() {
        return table(&args);
    }
    let client = match client(&args.target) {
        Ok(client) => client,
        Err(e) => return no_client(&e, args.json),
    };
    match client.models().await {
        Ok(models) if args.json => {
            print_json(&models);
            ExitCode::SUCCESS
        }
        Ok(models) => {
            let lines: String = models.iter().map(|model| format!("{}\n", model.id)).collect();
            out(&lines);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error, args.json),
    }
}

/// Prints the table of models: all of it, or the models whose names contain that of `--model`.
fn table(args: &TargetArgs) -> ExitCode {
    let table = match profiles(&args.target) {
        Ok(profiles) => Arc::clone(profiles.models()),
        Err(e) => return no_client(&e, args.json),
    };
    let wanted = args.target.model.as_deref().unwrap_or_default();
    let listed = table.names().into_iter().filter(|name| name.contains(wanted));
    let listed = listed.filter_map(|name| Some((name.to_owned(), table.entry(name)?.into_owned())));
    if args.json {
        let models: serde_json::Map<_, _> =
            listed.filter_map(|(name, facts)| Some((name, serde_json::to_value(facts).ok()?))).collect();
        print_json(&serde_json::json!({ "source": table.source, "date": table.date, "models": models }));
        return ExitCode::SUCCESS;
    }
    let listed: Vec<_> = listed.collect();
    note(&format!("{} models, from {} of {}", listed.len(), table.source, table.date));
    let row = |name: &str, cells: [String; 5]| {
        let [context, output, input_price, output_price, ends] = cells;
        format!("{name:<48} {context:>10} {output:>8} {input_price:>9} {output_price:>9}  {ends}\n")
    };
    let heads = ["CONTEXT", "ANSWER", "$/M IN", "$/M OUT", "ENDS"].map(str::to_owned);
    let mut lines = row("MODEL", heads);
    for (name, facts) in &listed {
        let count = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
        let prices = facts.prices.as_ref().and_then(|prices| prices.unit(0, None));
        // Prices are shown for people, not computed with.
        #[allow(clippy::cast_precision_loss)]
        let dollars = |nano: Option<u64>| nano.map_or_else(String::new, |nano| format!("{}", nano as f64 / 1e9));
        let cells = [
            count(facts.context),
            count(facts.output),
            dollars(prices.map(|prices| prices.input)),
            dollars(prices.map(|prices| prices.output)),
            facts.ends.clone().unwrap_or_default(),
        ];
        lines.push_str(&row(name, cells));
    }
    out(&lines);
    ExitCode::SUCCESS
}
