//! The tools and the form of the answer as the provider takes them. A tool that it refuses would make every request of the
//! conversation fail.

use std::borrow::Cow;

use rethread_events::event::RequestChange;
use rethread_events::json::Json;
use rethread_events::message::{Part, ToolChoice, ToolSpec};
use serde_json::{Map, Value, json};

use super::history::Form;
use crate::models::Known;
use crate::provider::Provider;
use crate::request::{Request, ResponseFormat};
use crate::response::Response;
use crate::wire::draft;

mod dialect;

/// Keywords that OpenAI and Anthropic refuse at the root of a tool's schema.
///
/// <https://developers.openai.com/api/docs/guides/structured-outputs>, and Anthropic's
/// `input_schema does not support oneOf, allOf, or anyOf at the top level`.
const ROOT: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "const"];
/// How deep alternatives are read for their properties.
const DEPTH_MAX: usize = 8;
/// The most bytes of a condition that is put into a description.
const CONDITION_BYTES_MAX: usize = 4 << 10;
/// The names of properties that Anthropic takes:
/// `input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`.
const PROPERTIES: Form = Form::PROPERTIES;

/// Rewrites the schemas of tools to what the provider takes. The whole schema holds all the same: arguments are checked
/// by it. A tool whose schema cannot be rewritten is left out.
pub(super) fn adapt(known: &Known, provider: Provider, request: &mut Request, changes: &mut Vec<RequestChange>) {
    // Servers that imitate OpenAI take other names, too.
    let names = Some(Form::of_names(provider)).filter(|_| provider != Provider::OpenaiChat || known.is_of_openai);
    let adapted: Vec<_> = request.tools.iter().map(|tool| adapted(provider, names, tool)).collect();
    if adapted.iter().all(|tool| matches!(tool, Ok(Cow::Borrowed(_)))) {
        return;
    }
    let mut left_out: Vec<String> = Vec::new();
    let mut tools = Vec::with_capacity(adapted.len());
    for (tool, adapted) in request.tools.iter().zip(adapted) {
        match adapted {
            Ok(tool) => tools.push(tool.into_owned()),
            Err(why) => {
                left_out.push(tool.name.clone());
                changes.push(RequestChange::new("tools", format!("`{}` is left out: {why}", tool.name)));
            }
        }
    }
    request.tools = tools.into();
    if left_out.is_empty() {
        return;
    }
    if let Some(usable) = &request.usable_tools {
        request.usable_tools = Some(usable.iter().filter(|name| !left_out.contains(name)).cloned().collect());
    }
    if matches!(&request.tool_choice, Some(ToolChoice::Tool(name)) if left_out.contains(name)) {
        request.tool_choice = Some(ToolChoice::Auto);
    }
    if !request.has_tools() {
        (request.usable_tools, request.tool_choice, request.parallel_tool_calls) = (None, None, None);
    }
}

/// Rewrites the schema of the answer in the same way. What is not sent of it is in the prompt, and the caller checks the
/// answer by the whole schema.
pub(super) fn adapt_format(provider: Provider, request: &mut Request, changes: &mut Vec<RequestChange>) {
    let Some(ResponseFormat::JsonSchema { schema, strict, .. }) = &mut request.response_format else { return };
    let is_googles = is_googles(provider);
    let is_object = schema.get("type").is_some_and(|own| own == "object");
    let has_choice = ROOT.iter().any(|key| schema.get(*key).is_some());
    let written = if strict.is_none() && is_object && has_choice && !is_googles {
        flattened(schema, is_googles).map(|(mut schema, _)| {
            // An object of no named property has any.
            if properties_of(&schema).next().is_none() {
                schema.shift_remove("properties");
            }
            Value::Object(schema)
        })
    } else {
        dialect::rewritten(schema, is_googles)
    };
    match written {
        Ok(written) => *schema = written,
        Err(why) => {
            changes.push(RequestChange::new("response_format", format!("it is left out: {why}")));
            request.response_format = None;
        }
    }
}

/// Whether the provider reads Google's dialect of schemas.
fn is_googles(provider: Provider) -> bool {
    matches!(provider, Provider::Gemini | Provider::GeminiOpenai)
}

/// A tool as the provider takes it.
fn adapted(provider: Provider, names: Option<Form>, tool: &ToolSpec) -> Result<Cow<'_, ToolSpec>, String> {
    if names.is_some_and(|names| !names.takes(&tool.name)) {
        return Err("the provider does not take its name".to_owned());
    }
    if draft::declared(&tool.parameters).is_none() {
        return Ok(Cow::Borrowed(tool));
    }
    let (mut schema, condition) = flattened(&tool.parameters.0, is_googles(provider))?;
    if renames(provider, &schema) {
        rename(&mut schema);
    }
    if condition.is_empty() && tool.parameters.0.as_object() == Some(&schema) {
        return Ok(Cow::Borrowed(tool));
    }
    let mut description = tool.description.clone();
    let condition = Value::Object(condition).to_string();
    if condition != "{}" && condition.len() <= CONDITION_BYTES_MAX {
        let said = description.get_or_insert_default();
        if !said.is_empty() {
            said.push_str("\n\n");
        }
        said.push_str("The arguments also have to fit this JSON Schema: ");
        said.push_str(&condition);
    }
    Ok(Cow::Owned(ToolSpec { name: tool.name.clone(), description, parameters: Json::from(Value::Object(schema)) }))
}

/// A schema, and what was taken out of it.
type Flattened = (Map<String, Value>, Map<String, Value>);

/// A schema of an object without keywords that are refused at the root, and those keywords. The properties that only
/// alternatives name are among its properties.
fn flattened(schema: &Value, is_googles: bool) -> Result<Flattened, String> {
    let mut out = Map::new();
    let mut condition = Map::new();
    let definitions = dialect::rewritten(schema, is_googles)?;
    let Value::Object(mut own) = definitions.clone() else {
        return Err("its schema is not that of an object".to_owned());
    };
    if let Some(to) = own.remove("$ref") {
        let target = resolved(&definitions, &to).ok_or("the reference at the root of its schema leads nowhere")?;
        own.extend(target.clone());
    }
    for (key, value) in own {
        if key == "$ref" || ROOT.contains(&key.as_str()) {
            condition.insert(key, value);
        } else {
            out.insert(key, value);
        }
    }
    let is_object = match out.get("type") {
        None => true,
        Some(Value::String(word)) => word.eq_ignore_ascii_case("object"),
        Some(Value::Array(words)) => words.iter().any(|word| word == "object"),
        Some(_) => false,
    };
    if !is_object {
        return Err("its schema is not that of an object".to_owned());
    }
    out.insert("type".into(), "object".into());
    let (properties, required) = of_alternatives(&definitions, &condition, 0);
    if let Value::Object(own) = out.entry("properties").or_insert_with(|| json!({})) {
        for (name, property) in properties {
            own.entry(name).or_insert(property);
        }
    }
    if !required.is_empty() {
        let own = out.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(own) = own {
            own.extend(required.into_iter().map(Value::from));
            let mut seen = std::collections::HashSet::new();
            own.retain(|name| seen.insert(name.clone()));
        }
    }
    Ok((out, condition))
}

/// The properties that alternatives name, and those that all of them require.
fn of_alternatives(root: &Value, schema: &Map<String, Value>, depth: usize) -> (Map<String, Value>, Vec<String>) {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if depth > DEPTH_MAX {
        return (properties, required);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let parts = schema.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut common: Option<Vec<String>> = None;
        for part in parts {
            if *part == Value::Bool(true) && key != "allOf" {
                // It requires nothing, and neither does a choice that has it.
                common = Some(Vec::new());
            }
            let part = part.get("$ref").and_then(|to| resolved(root, to)).or_else(|| part.as_object());
            let Some(part) = part else { continue };
            let (mut inner, mut needs) = of_alternatives(root, part, depth + 1);
            inner.extend(part.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
            let named = part.get("required").and_then(Value::as_array).into_iter().flatten();
            needs.extend(named.filter_map(Value::as_str).map(str::to_owned));
            for (name, property) in inner {
                add(&mut properties, name, property, key != "allOf");
            }
            common = Some(match common {
                None => needs,
                Some(known) if key == "allOf" => known.into_iter().chain(needs).collect(),
                Some(known) => known.into_iter().filter(|name| needs.contains(name)).collect(),
            });
        }
        required.extend(common.unwrap_or_default());
    }
    (properties, required)
}

/// Adds a property. One that two alternatives describe differently fits either.
fn add(properties: &mut Map<String, Value>, name: String, property: Value, is_alternative: bool) {
    match properties.get_mut(&name) {
        None => {
            properties.insert(name, property);
        }
        Some(known) if is_alternative && *known != property => {
            if let Some(Value::Array(choices)) = known.get_mut("anyOf").filter(|_| property.get("anyOf").is_none()) {
                if !choices.contains(&property) {
                    choices.push(property);
                }
            } else {
                *known = json!({ "anyOf": [known.take(), property] });
            }
        }
        Some(_) => {}
    }
}

/// What a reference within a schema leads to.
fn resolved<'a>(root: &'a Value, to: &Value) -> Option<&'a Map<String, Value>> {
    root.pointer(to.as_str()?.strip_prefix('#')?)?.as_object()
}

/// Whether properties have names that the provider refuses.
fn renames(provider: Provider, schema: &Map<String, Value>) -> bool {
    provider == Provider::Anthropic && properties_of(schema).any(|name| !PROPERTIES.takes(name))
}

fn properties_of(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

/// Gives properties names that the provider takes.
fn rename(schema: &mut Map<String, Value>) {
    let names: Vec<String> = properties_of(schema).cloned().collect();
    let renamed = |name: &str| PROPERTIES.adapt(name, |other| names.iter().any(|name| name == other));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        *properties = std::mem::take(properties).into_iter().map(|(name, value)| (renamed(&name), value)).collect();
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Value::String(name) = name {
                *name = renamed(name);
            }
        }
    }
}

/// Gives the arguments of calls the names that the tools gave to their properties. `tools` are those before [`adapt`].
pub(crate) fn restore(provider: Provider, tools: &[ToolSpec], response: &mut Response) {
    if provider != Provider::Anthropic {
        return;
    }
    for part in &mut response.message.content {
        let Part::ToolCall(call) = part else { continue };
        let Some(tool) = tools.iter().find(|tool| tool.name == call.name) else { continue };
        let Ok((schema, _)) = flattened(&tool.parameters.0, false) else { continue };
        let names: Vec<&String> = properties_of(&schema).collect();
        let is_other = |name: &&&String| !PROPERTIES.takes(name);
        if !names.iter().any(|name| is_other(&name)) || !call.arguments.0.is_object() {
            continue;
        }
        let mut arguments = std::mem::take(&mut call.arguments).into_value();
        if let Some(arguments) = arguments.as_object_mut() {
            for name in names.iter().filter(is_other) {
                let sent = PROPERTIES.adapt(name, |other| names.iter().any(|name| *name == other));
                if let Some(value) = arguments.shift_remove(&sent) {
                    arguments.insert((*name).clone(), value);
                }
            }
        }
        call.arguments = Json::from(arguments);
    }
}
