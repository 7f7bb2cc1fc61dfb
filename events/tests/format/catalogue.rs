//! `docs/EVENTS.md` says what the code does: names, codes, versions, weights, fields and words.

use std::collections::BTreeMap;
use std::sync::Arc;

use rethread_events::codec;
use rethread_events::event::{
    Combine, EVENT_TYPES, FoldRole, Hook, InteractionFailure, InteractionResults, OnFailed, OnLimit, OnUnpriced,
    OperationType, Scope, ToolMode, WarningCode,
};
use rethread_events::fault::ErrorKind;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::message::{FinishReason, Role, UsageSource};
use rethread_events::thread::{Env, NoPeople, NoTools, NoWaits, Start, State, Status, Thread};
use rethread_events::tool::Recovery;
use rethread_events::workflow::AgentBuilder;
use serde_json::{Value, json};

use crate::samples;

/// A section of the page: the first line under its heading, and the first two cells of each row of its table.
struct Section {
    line: String,
    rows: Vec<(String, String)>,
}

/// The sections by heading.
fn page() -> BTreeMap<String, Section> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/EVENTS.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut sections = BTreeMap::new();
    for part in text.split("\n#") {
        let (heading, body) = part.split_once('\n').unwrap();
        let rows = body.lines().filter(|line| line.starts_with("| ")).skip(1).map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let first = cells.next().unwrap().trim_matches('`').to_owned();
            (first, cells.next().unwrap().to_owned())
        });
        let line = body.lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned();
        let section = Section { line, rows: rows.collect() };
        let heading = heading.trim_start_matches('#').trim().to_owned();
        assert!(sections.insert(heading.clone(), section).is_none(), "`{heading}` is there twice");
    }
    sections
}

/// The table of a section lists the fields of this object in this order.
#[track_caller]
fn fields_are(page: &BTreeMap<String, Section>, heading: &str, object: &Value) {
    let section = page.get(heading).unwrap_or_else(|| panic!("no section `{heading}`"));
    let documented: Vec<_> = section.rows.iter().map(|(field, _)| field.as_str()).collect();
    let there: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(documented, there, "the fields of {heading}");
}

#[test]
fn every_event_is_in_the_catalogue_with_all_its_fields() {
    let page = page();
    for (kind, sample) in EVENT_TYPES.iter().zip(samples::events()) {
        let section = page.get(kind.name).unwrap_or_else(|| panic!("no section `{}`", kind.name));
        let weight = match kind.weight {
            FoldRole::State => "state",
            FoldRole::Informational => "informational",
        };
        let begin = format!("Code {}, version {}, {weight}. ", kind.code, kind.version);
        assert!(section.line.starts_with(&begin), "{}: `{}` does not begin `{begin}`", kind.name, section.line);
        fields_are(&page, kind.name, &sample.data().unwrap());
    }
    let events = page.keys().filter(|heading| heading.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    assert_eq!(events.count(), EVENT_TYPES.len());
}

#[test]
fn no_code_and_no_name_is_used_twice() {
    let by_code: BTreeMap<_, _> = EVENT_TYPES.iter().map(|kind| (kind.code, kind.name)).collect();
    let by_name: BTreeMap<_, _> = EVENT_TYPES.iter().map(|kind| (kind.name, kind.code)).collect();
    assert_eq!((by_code.len(), by_name.len()), (EVENT_TYPES.len(), EVENT_TYPES.len()));
}

#[test]
fn the_shapes_stand_in_the_catalogue() {
    let page = page();
    let value = |shape: &dyn Fn() -> serde_json::Result<Value>| shape().unwrap();
    for (heading, object) in [
        ("message", value(&|| serde_json::to_value(&*samples::message()))),
        ("usage", value(&|| serde_json::to_value(samples::usage()))),
        ("error", value(&|| serde_json::to_value(samples::error()))),
        ("model", value(&|| serde_json::to_value(samples::model()))),
        ("workflow", value(&|| serde_json::to_value(samples::workflow()))),
        ("changes", value(&|| serde_json::to_value(samples::changes()))),
        ("branch of", value(&|| serde_json::to_value(samples::branch_of()))),
        ("replaced branch", value(&|| serde_json::to_value(samples::replaced_branch()))),
        ("options", value(&|| serde_json::to_value(samples::options()))),
        ("variable", value(&|| serde_json::to_value(samples::variable_update()))),
        ("asked tool", value(&|| serde_json::to_value(samples::asked_tool()))),
        ("results", value(&|| serde_json::to_value(InteractionResults::default()))),
        ("tool call reference", value(&|| serde_json::to_value(samples::tool_call_ref()))),
        ("caught error", value(&|| serde_json::to_value(samples::caught_error()))),
        ("guardrail", value(&|| serde_json::to_value(samples::guardrails().remove(0)))),
    ] {
        fields_are(&page, heading, &object);
    }
    fn json<T: serde::Serialize>(kinds: &[T]) -> Vec<Value> {
        kinds.iter().map(|kind| serde_json::to_value(kind).unwrap()).collect()
    }
    for (heading, tag, kinds) in [
        ("decision", "decision", json(&samples::decisions())),
        ("strategy", "strategy", json(&samples::strategies())),
        ("strategy decision", "decision", json(&samples::strategy_decisions())),
        ("aside", "purpose", json(&samples::asides())),
        ("run ending", "status", json(&samples::run_endings())),
        ("checked content", "on", json(&samples::checked_contents())),
        ("guardrail outcome", "outcome", json(&samples::guardrail_outcomes())),
    ] {
        assert_eq!(page[heading].rows.len(), kinds.len(), "{heading}");
        for ((name, fields), kind) in page[heading].rows.iter().zip(&kinds) {
            assert_eq!(kind[tag], name.as_str());
            for field in kind.as_object().unwrap().keys().filter(|field| *field != tag) {
                assert!(fields.contains(&format!("`{field}`")), "`{field}` of `{name}` is not documented");
            }
        }
    }
    let mut documented = page["part"].rows.iter();
    for part in samples::parts() {
        let Value::Object(part) = serde_json::to_value(&part).unwrap() else { panic!() };
        let kind = part["type"].as_str().unwrap();
        if documented.clone().next().is_none_or(|(name, _)| name != kind) {
            // A document is a picture with another name, and has no fields here.
            panic!("part `{kind}` is not documented in its place");
        }
        let (_, fields) = documented.next().unwrap();
        for field in part.keys().filter(|field| *field != "type") {
            assert!(fields.contains(&format!("`{field}`")), "`{field}` of `{kind}` is not documented");
        }
    }
    assert!(documented.next().is_none());
}

/// The words of an enum, in the order in which they are stored: those that the numbers 0, 1, 2 … decode to.
fn words<T: bincode::Decode<()> + serde::Serialize>() -> Vec<String> {
    let decoded = (0_u32..).map_while(|i| codec::decode::<T>(&i.to_le_bytes()).ok());
    decoded.map(|word| serde_json::to_value(word).unwrap().as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_words_stand_in_the_catalogue() {
    let page = page();
    let documented: BTreeMap<_, Vec<_>> = page["Words"]
        .rows
        .iter()
        .map(|(shape, words)| {
            (shape.as_str(), words.split(", ").map(|word| word.trim_matches('`').to_owned()).collect())
        })
        .collect();
    for (shape, words) in [
        ("role", words::<Role>()),
        ("finish reason", words::<FinishReason>()),
        ("usage source", words::<UsageSource>()),
        ("tool mode", words::<ToolMode>()),
        ("recovery", words::<Recovery>()),
        ("operation", words::<OperationType>()),
        ("scope", words::<Scope>()),
        ("failure", words::<InteractionFailure>()),
        ("warning", words::<WarningCode>()),
        ("on limit", words::<OnLimit>()),
        ("on unpriced", words::<OnUnpriced>()),
        ("hook", words::<Hook>()),
        ("on failed", words::<OnFailed>()),
        ("combine", words::<Combine>()),
        ("error kind", words::<ErrorKind>()),
        ("status", Status::ALL.map(|status| status.name().to_owned()).to_vec()),
    ] {
        assert_eq!(documented[shape], words, "{shape}");
    }
}

#[test]
fn json_of_scripts_is_in_the_catalogue() {
    let page = page();
    let workflow = Arc::new(AgentBuilder::new("w").add_end_node("a").build().unwrap());
    let around = Env { now: samples::time(), tools: &NoTools, models: &NoPeople, permits: &NoWaits };
    let started = Thread::started(&workflow, Start::new(json!("hello")), around.now).unwrap();
    let (thread, _) = Thread::begin(samples::thread(), workflow, started, &around).unwrap();
    for state in [thread.state().clone(), State::new(ThreadId::from_bytes([1; 16]))] {
        fields_are(&page, "The state of a thread", &state.to_json());
        fields_are(&page, "The totals of a thread", &state.to_json()["usage"]);
        let outcome = serde_json::to_value(state.outcome(Position(0))).unwrap();
        fields_are(&page, "The outcome of a run", &outcome);
    }
    let line = [
        "position",
        "thread_id",
        "seq",
        "run_id",
        "id",
        "time",
        "type",
        "version",
        "trace_id",
        "cause",
        "hash",
        "data",
    ];
    let documented: Vec<_> = page["An event on one line"].rows.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(documented, line);
}
