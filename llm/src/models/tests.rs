use super::*;
use crate::profile::Profile;

#[test]
fn every_line_of_the_built_in_table_is_read() {
    let table = ModelTable::built_in();
    assert!(table.names().len() > 500 && table.date.starts_with("20"), "{} {}", table.names().len(), table.date);
    assert!(table.source.starts_with("LiteLLM "), "{}", table.source);
    for name in table.names() {
        let facts = table.entry(name).unwrap_or_else(|| panic!("{name} cannot be read"));
        let Some(unit) = facts.prices.as_ref().and_then(|prices| prices.unit(0, None)) else { continue };
        // A thousand dollars for a million tokens.
        assert!(unit.input.max(unit.output) < 10_u64.pow(12), "{name}");
    }
    let info = table.facts("openai", "gpt-4o").unwrap().info("gpt-4o");
    assert_eq!(
        (info.context_tokens_max, info.output_tokens_max, info.vision),
        (Some(128_000), Some(16_384), Some(true))
    );
}

#[test]
fn dated_and_tuned_names_have_the_facts_of_their_model() {
    let table = ModelTable::built_in();
    let plain = table.facts("openai", "gpt-4o");
    assert!(plain.is_some());
    for name in ["gpt-4o-2031-01-01", "gpt-4o-latest", "ft:gpt-4o:me::1", "models/gpt-4o"] {
        assert_eq!(table.facts("openai", name), plain, "{name}");
    }
    assert!(table.facts("anthropic", "claude-sonnet-4-5-20310101").is_some());
    for name in ["qwen3", "gpt-4o-2031", "gpt-4o-2031-1-01", "-2031-01-01"] {
        assert_eq!(table.facts("openai", name), None, "{name}");
    }
}

#[test]
fn reasoning_is_known_by_the_table_and_by_the_family() {
    let table = ModelTable::built_in();
    for (model, reasons) in [
        ("gpt-6-sol", true),
        ("gpt-6.1-terra-2031-01-01", true),
        ("openai/o3-mini", true),
        ("ft:o4-mini-2025-04-16:me::1", true),
        ("chat-latest", true),
        ("gpt-4.1", false),
        ("ft:gpt-4o-2024-08-06:me::1", false),
        // Not in the table: by the family.
        ("gpt-7.5-unheard-of", true),
        ("o9", true),
        ("gpt-4.9", false),
        ("qwen3", false),
        ("deepseek-reasoner", false),
        ("olympus", false),
    ] {
        assert_eq!(table.reasons(model), reasons, "{model}");
    }
}

#[test]
fn table_of_a_file_has_the_same_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.json");
    std::fs::write(&path, BUILT_IN).unwrap();
    let (read, built_in) = (ModelTable::from_file(&path).unwrap(), ModelTable::built_in());
    assert_eq!((&read.source, &read.date, read.names()), (&built_in.source, &built_in.date, built_in.names()));
    for name in read.names() {
        assert_eq!(read.entry(name), built_in.entry(name), "{name}");
    }
    let own = r#"{"source": "me", "date": "2026-11-29", "models": {"openai/own": {"context": 10, "prices": {"standard": {"input": 1, "output": 2}}}}}"#;
    std::fs::write(&path, own).unwrap();
    let own = ModelTable::from_file(&path).unwrap();
    assert_eq!((own.names(), own.facts("openai", "own").unwrap().context), (vec!["openai/own"], Some(10)));
    std::fs::write(&path, r#"{"source": "", "date": "", "models": {"a": {"contxt": 1}}}"#).unwrap();
    let error = ModelTable::from_file(&path).unwrap_err();
    assert!(matches!(error, TableError::Syntax { .. }) && error.to_string().contains("rethread llm models --json"));
    let missing = ModelTable::from_file(&folder.path().join("none.json")).unwrap_err();
    assert!(matches!(missing, TableError::File { .. }));
}

#[test]
fn long_prompts_cost_more_where_the_table_says_so() {
    let prices = ModelTable::built_in().facts("gemini", "models/gemini-2.5-pro").unwrap().prices.unwrap();
    let (short, long) = (prices.unit(200_000, None).unwrap(), prices.unit(200_001, None).unwrap());
    assert_eq!((short.input, long.input), (1_250_000_000, 2_500_000_000));
    assert_eq!((short.output, long.output), (10_000_000_000, 15_000_000_000));
}

#[test]
fn unknown_name_has_the_facts_of_a_present_model() {
    let known = |provider, address, model: &str| {
        let profile = Profile::new(provider, model);
        let known = KnownModels::new(&profile, address, ModelTable::built_in()).of(model);
        (known.facts.reasons(), known.facts.sampling, known.is_assumed(model).is_some())
    };
    let azure = Address::Provider("azure");
    let takes_verbosity = |provider, model: &str| {
        let profile = Profile::new(provider, model);
        KnownModels::new(&profile, azure, ModelTable::built_in()).of(model).facts.verbosity != Some(false)
    };
    assert!(takes_verbosity(Provider::OpenaiChat, "prod-chat") && !takes_verbosity(Provider::OpenaiChat, "gpt-4.9"));
    let present = (Some(true), Some(Sampling::Never), true);
    assert_eq!(known(Provider::OpenaiResponses, azure, "prod-chat"), present);
    assert_eq!(known(Provider::Gemini, Address::Provider("gemini"), "tunedModels/prod"), present);
    assert_eq!(known(Provider::Gemini, Address::Other, "gemini-9-pro"), present);
    let older = (Some(false), Some(Sampling::Always), true);
    assert_eq!(known(Provider::OpenaiResponses, azure, "gpt-4.9"), older);
    assert_eq!(known(Provider::OpenaiChat, azure, "prod-chat"), older, "it would lose its tools");
    assert_eq!(known(Provider::OpenaiResponses, Address::Other, "prod-chat"), (None, None, false));
}
