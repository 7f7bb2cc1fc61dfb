//! `rethread llm check` and `rethread llm models`: what a provider says about itself.

use std::process::ExitCode;

use super::print::{failed, no_client, note, out, print_json};
use super::target::{TargetArgs, client};

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
