//! Values for generated requests: some that a schema allows, some that it does not, some that name existing things.

use rethread_tests::random::Random;
use serde_json::{Map, Number, Value, json};

use crate::http::Response;
use crate::place::{GREETING, Place, QUICK};

/// How deep values are.
const DEPTH_MAX: usize = 4;
const NOBODY: &str = "00000000-0000-7000-8000-000000000000";
const TEXTS: &[&str] =
    &["", "x", "greeted", "quick", "a b&c=d%/?#", "ä\u{1f600}", "null", "\u{0}\n\"'", "0", "../../etc"];

/// Makes values.
pub(super) struct Values {
    random: Random,
    components: Value,
    /// Threads that existed when they were listed.
    threads: Vec<String>,
    questions: Vec<String>,
    hash: String,
    exported: String,
}

impl Values {
    pub(super) fn new(random: Random, document: &Value, place: &Place) -> Self {
        let hash = place.put(QUICK);
        place.put(GREETING);
        let quick = place.start(QUICK);
        place.at_rest(&quick);
        let exported = place.scene.run(&format!("export {quick}")).ok().stdout;
        let mut values = Self {
            random,
            components: document["components"].clone(),
            threads: vec![quick],
            questions: Vec::new(),
            hash,
            exported,
        };
        for _ in 0..3 {
            let (thread, question) = place.asking();
            values.threads.push(thread);
            values.questions.push(question);
        }
        values
    }

    /// Remembers a thread that was begun.
    pub(super) fn learn(&mut self, answer: &Response) {
        if answer.status == 201
            && let Some(location) = answer.header("location")
            && let Some(thread) = location.strip_prefix("/v1/threads/")
        {
            self.threads.push(thread.to_owned());
        }
    }

    pub(super) fn percent(&mut self, often: u64) -> bool {
        self.random.percent(often)
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }

    /// A text that a pattern of the document allows.
    fn of_pattern(&mut self, pattern: &str) -> String {
        let id = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
        let thread = if self.percent(80) { self.one_of(&self.threads.clone()) } else { NOBODY.to_owned() };
        let question = if self.percent(80) {
            self.one_of(&self.questions.clone())
        } else {
            format!("{thread}-{}", self.random.below(20))
        };
        let one_of: &[&str] = match pattern.replace(id, "ID").as_str() {
            "^ID$" => return thread,
            "^ID-[0-9]{1,18}$" => return question,
            "^ID(-[0-9]{1,18})?$" => return if self.percent(50) { thread } else { question },
            "^(none|ID)$" => return if self.percent(30) { "none".into() } else { thread },
            "^(ID(,|$))*$" => return if self.percent(20) { String::new() } else { format!("{thread},{NOBODY}") },
            "^[0-9a-f]{64}$" => return if self.percent(70) { self.hash.clone() } else { "0".repeat(64) },
            "^((pending|running|waiting|suspended|queued|paused|completed|cancelled|error|interrupted)(,|$))*$" => {
                &["", "waiting", "paused,error", "completed,"]
            }
            "^([0-9]{1,2}(,|$))*$" => &["", "0", "1,2", "99,3,"],
            "^(newest|oldest)$" => &["newest", "oldest"],
            "^(now|[0-9]{1,18})$" => &["now", "0", "7", "999999999999999999"],
            "^(user|system|assistant)$" => &["user", "system", "assistant"],
            "^[!-~]([ -~]{0,253}[!-~])?$" => return format!("key-{}", self.random.below(50)),
            "^.+$" => &["quick", "greeting", "another", "ä b", "a/b+c 50%"],
            "^usage$" => &["usage"],
            "^[A-Za-z0-9._/-]{1,64}$" => &["tenant", "user"],
            r"^[^,\x00-\x1f\x7f]{1,64}$" => &["acme", "42"],
            "^(openai_chat|openai_responses|anthropic)$" => &["openai_chat", "openai_responses", "anthropic"],
            "^(refuse|queue)$" => &["refuse", "queue"],
            "^(queue|steer|interrupt|reject)$" => &["queue", "steer", "interrupt", "reject"],
            "^[A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*$" => &["a=b", "tenant=acme,user=42"],
            "^[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64}(,[A-Za-z_][A-Za-z0-9_]{0,60}=[^,\"]{0,64})*$" => {
                &["done=true", "input=what was said", "a=1,b="]
            }
            "^([A-Za-z0-9._/-]{1,64}=[^,]{1,64}(,[A-Za-z0-9._/-]{1,64}=[^,]{1,64})*)?$" => &["", "tenant=acme,user=42"],
            "^[0-9a-f]{16}$" => &["0123456789abcdef"],
            "^[0-9]{1,16}-[0-9a-f]{16}$" => &["1700000000000000-0123456789abcdef"],
            "^([0-9a-f]{2}){1,512}$" => &["61", "7400ff"],
            "^(moved|fits|same|other)$" => &["moved", "fits"],
            "^(model|tool|call)$" => &["model", "tool", "call"],
            "^(model|tool|label|call)$" => &["model", "tool", "label", "call"],
            "^[0-9]{1,18}$" => &["0", "7", "999999999999999999"],
            "^[0-9]{0,18}$" => &["", "0", "7", "999999999999999999"],
            "^(ID-)?[0-9]{1,18}$" => return if self.percent(70) { question } else { "3".into() },
            other => panic!("no example of `{other}` is here yet: add one"),
        };
        (*self.one_of(one_of)).to_owned()
    }

    /// The text of a parameter: often one that its schema allows.
    pub(super) fn parameter(&mut self, name: &str, schema: &Value) -> String {
        if self.percent(15) {
            return match self.one_of(TEXTS) {
                // No header can have it, and no path can do without.
                text if text.contains('\0') || !text.is_ascii() || text.is_empty() => "nonsense".into(),
                text => text.into(),
            };
        }
        // Nothing waits for the clock here.
        if name == "wait_ms" {
            return self.one_of(&["0", "3", "30001", "-1", "soon"]).into();
        }
        match schema["type"].as_str() {
            Some("array") => {
                let n = self.random.below(3);
                let items: Vec<_> = (0..n).map(|_| self.value(&schema["items"], 0)).collect();
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            _ => match self.value(schema, 0) {
                Value::String(text) => text,
                value => value.to_string(),
            },
        }
    }

    /// A body: often one that the schema allows, else one with a fault in it.
    pub(super) fn body(&mut self, schema: &Value) -> String {
        let mut value = self.value(schema, 0);
        if self.percent(30) {
            let odd = self.odd();
            match value.as_object_mut().filter(|fields| !fields.is_empty()) {
                Some(fields) => {
                    let names: Vec<_> = fields.keys().cloned().collect();
                    let name = names[self.random.below(names.len() as u64) as usize].clone();
                    match self.random.below(3) {
                        0 => drop(fields.remove(&name)),
                        1 => drop(fields.insert("colour".into(), odd)),
                        _ => drop(fields.insert(name, odd)),
                    }
                }
                None => value = odd,
            }
        }
        let text = value.to_string();
        match self.random.below(40) {
            0 => String::new(),
            1 => text[..text.len() - 1].to_owned(),
            2 => self.odd().to_string(),
            _ => text,
        }
    }

    /// A body that is no JSON: an export, or something like it.
    pub(super) fn text(&mut self) -> String {
        match self.random.below(4) {
            0 => self.exported.clone(),
            1 => self.exported.replacen("\"seq\":1", "\"seq\":2", 1),
            2 => self.exported.chars().take(300).collect(),
            _ => self.odd().to_string(),
        }
    }

    fn odd(&mut self) -> Value {
        let text = self.one_of(TEXTS);
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        let values = [
            json!(null),
            json!(true),
            json!(-1),
            json!(7),
            json!(2.0),
            json!(1.5),
            json!(1e300),
            json!([]),
            json!({}),
            json!(text),
            json!({ "a": [text] }),
            deep,
        ];
        self.one_of(&values)
    }

    /// A value that the schema allows.
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let of = self.components["schemas"][name.rsplit('/').next().unwrap()].clone();
            return self.value(&of, depth);
        }
        if let Some(all) = schema["allOf"].as_array() {
            return self.all_of(&all.clone(), depth);
        }
        for choice in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[choice].as_array() {
                let chosen = self.one_of(choices);
                return self.value(&chosen, depth);
            }
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.one_of(values);
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => self.one_of(kinds).as_str().unwrap().to_owned(),
            _ => return self.odd(),
        };
        match kind.as_str() {
            "null" => Value::Null,
            "boolean" => json!(self.percent(50)),
            "integer" => {
                let (least, most) =
                    (schema["minimum"].as_u64().unwrap_or(0), schema["maximum"].as_u64().unwrap_or(u64::MAX));
                let near = least + self.random.below(15);
                let number = self.one_of(&[near, near, near, least, most]).clamp(least, most);
                Value::Number(Number::from(number))
            }
            "number" => json!(0.5),
            "string" => match (schema["pattern"].as_str(), schema["format"].as_str()) {
                (Some(pattern), _) => json!(self.of_pattern(pattern)),
                (None, Some("date-time")) => {
                    let times = ["2026-01-31T12:00:00Z", "1969-07-20T20:17:40Z", "2099-12-31T23:59:59.999999+14:00"];
                    json!(self.one_of(&times))
                }
                (None, _) => json!(self.one_of(TEXTS)),
            },
            "array" => {
                let n = if depth < DEPTH_MAX { self.random.below(3) } else { 0 };
                (0..n).map(|_| self.value(&schema["items"], depth + 1)).collect()
            }
            "object" => Value::Object(self.object(schema, depth)),
            other => panic!("type {other}"),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut made = Map::new();
        let is_required =
            |name: &String| schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            if is_required(name) || depth < DEPTH_MAX && self.percent(40) {
                made.insert(name.clone(), self.value(of, depth + 1));
            }
        }
        if schema.get("properties").is_none() && self.percent(50) {
            let value = match &schema["additionalProperties"] {
                of @ Value::Object(_) => self.value(of, depth + 1),
                _ => self.odd(),
            };
            let name = match schema["propertyNames"]["pattern"].as_str() {
                Some(pattern) => self.of_pattern(pattern),
                None => self.one_of(&["colour", "greet", "3"]).into(),
            };
            made.insert(name, value);
        }
        made
    }

    /// The fields of the first, with a choice of each of the others.
    fn all_of(&mut self, all: &[Value], depth: usize) -> Value {
        let mut made = self.object(&all[0], depth);
        for choice in &all[1..] {
            let chosen = self.one_of(choice["oneOf"].as_array().unwrap());
            for (name, of) in chosen["properties"].as_object().unwrap() {
                made.remove(name);
                let is_required = chosen["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
                if is_required || self.percent(20) {
                    let value = match name.as_str() {
                        // What is there, so that more than the door is seen.
                        "workflow" if of["type"] != "null" && self.percent(60) => {
                            json!(self.one_of(&["quick", "greeting"]))
                        }
                        "hash" if of["type"] != "null" && self.percent(60) => json!(self.hash),
                        "definition" if of["type"] != "null" && self.percent(60) => json!(QUICK),
                        _ => self.value(of, depth + 1),
                    };
                    made.insert(name.clone(), value);
                }
            }
        }
        Value::Object(made)
    }
}

/// The value of the text of a parameter.
pub(super) fn read(text: &str, schema: &Value, is_list: bool) -> Value {
    if is_list {
        return text.split(',').filter(|item| !item.is_empty()).map(|item| json!(item)).collect();
    }
    match schema["type"].as_str() {
        Some("integer") => text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
        Some("boolean") => text.parse::<bool>().map_or_else(|_| json!(text), |is| json!(is)),
        _ => json!(text),
    }
}

/// As encoded in an address.
pub(super) fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
