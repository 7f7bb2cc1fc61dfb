//! The keywords of JSON Schema whose values have schemas in them.

use serde_json::Value;

/// To what of a value the schemas of a keyword apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applies {
    /// To the value itself.
    Here,
    /// To what is in it.
    Below,
    /// To nothing, unless something refers to them.
    Nowhere,
}

/// The form of the value of a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Schema,
    List,
    Named,
}

/// <https://json-schema.org/draft/2020-12/json-schema-core>, section 10, and the keywords of earlier drafts.
const KEYWORDS: [(&str, Form, Applies); 23] = [
    ("$defs", Form::Named, Applies::Nowhere),
    ("additionalItems", Form::Schema, Applies::Below),
    ("additionalProperties", Form::Schema, Applies::Below),
    ("allOf", Form::List, Applies::Here),
    ("anyOf", Form::List, Applies::Here),
    ("contains", Form::Schema, Applies::Below),
    ("contentSchema", Form::Schema, Applies::Nowhere),
    ("definitions", Form::Named, Applies::Nowhere),
    ("dependencies", Form::Named, Applies::Here),
    ("dependentSchemas", Form::Named, Applies::Here),
    ("else", Form::Schema, Applies::Here),
    ("if", Form::Schema, Applies::Here),
    ("items", Form::Schema, Applies::Below),
    ("items", Form::List, Applies::Below),
    ("not", Form::Schema, Applies::Here),
    ("oneOf", Form::List, Applies::Here),
    ("patternProperties", Form::Named, Applies::Below),
    ("prefixItems", Form::List, Applies::Below),
    ("properties", Form::Named, Applies::Below),
    ("propertyNames", Form::Schema, Applies::Below),
    ("then", Form::Schema, Applies::Here),
    ("unevaluatedItems", Form::Schema, Applies::Below),
    ("unevaluatedProperties", Form::Schema, Applies::Below),
];

/// Calls `each` with the schemas directly in a schema: the keyword, the name or index within it (absent if its value is a
/// schema), to what it applies, and the schema.
pub(super) fn children<'a>(schema: &'a Value, mut each: impl FnMut(&'a str, Option<&str>, Applies, &'a Value)) {
    let Value::Object(entries) = schema else { return };
    for (keyword, value) in entries {
        for (_, form, applies) in KEYWORDS.iter().filter(|(name, ..)| name == keyword) {
            match (form, value) {
                (Form::Schema, Value::Object(_) | Value::Bool(_)) => each(keyword, None, *applies, value),
                (Form::List, Value::Array(items)) => {
                    for (i, inner) in items.iter().enumerate() {
                        each(keyword, Some(&i.to_string()), *applies, inner);
                    }
                }
                (Form::Named, Value::Object(named)) => {
                    for (name, inner) in named.iter().filter(|(_, inner)| inner.is_object() || inner.is_boolean()) {
                        each(keyword, Some(name), *applies, inner);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Calls `each` with every schema and its pointer, outer ones first. `at` is the pointer to `schema`.
pub(super) fn visit<'a>(schema: &'a Value, at: &mut String, each: &mut impl FnMut(&str, &'a Value)) {
    each(at, schema);
    let n_bytes = at.len();
    children(schema, |keyword, within, _, inner| {
        at.push('/');
        at.push_str(keyword);
        if let Some(within) = within {
            at.push('/');
            at.push_str(&within.replace('~', "~0").replace('/', "~1"));
        }
        visit(inner, at, each);
        at.truncate(n_bytes);
    });
}
