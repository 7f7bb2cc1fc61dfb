//! Filters that put values in an order, which the values must have.

use minijinja::{Error, ErrorKind, Value};

use super::kinds::check_ordered;

/// Checks that the values that a filter orders are of one kind.
///
/// # Errors
/// Returns an error that shows two values of different kinds.
pub(super) fn check(filter: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some(value) = arguments.first() else { return Ok(()) };
    let named = arguments.last().filter(|last| last.is_kwargs());
    let named = |name: &str| named.and_then(|named| named.get_attr(name).ok());
    match filter {
        "dictsort" => {
            let by_value = match named("by").filter(|by| !by.is_undefined()).as_ref().map(Value::as_str) {
                None | Some(Some("key")) => false,
                Some(Some("value")) => true,
                Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "`by` is `key` or `value`")),
            };
            // The filter itself reports a value that it cannot order.
            let Ok(keys) = value.try_iter() else { return Ok(()) };
            check_all(keys.map(|key| if by_value { value.get_item(&key).unwrap_or_default() } else { key }))
        }
        "min" | "max" | "sort" | "groupby" => {
            let attribute = arguments.get(1).filter(|attribute| attribute.as_str().is_some()).cloned();
            let attribute = attribute.or_else(|| named("attribute"));
            let attribute = attribute.as_ref().and_then(Value::as_str);
            // Only `sort` has several.
            let separator = if filter == "sort" { ',' } else { '\0' };
            let paths: Vec<_> = attribute.map_or_else(|| vec![""], |paths| paths.split(separator).collect());
            for path in paths {
                let Ok(items) = value.try_iter() else { return Ok(()) };
                check_all(items.map(|item| at_path(item, path.trim())))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks that values are of one kind. A value that is undefined has none.
fn check_all(values: impl Iterator<Item = Value>) -> Result<(), Error> {
    let mut defined = values.filter(|value| !value.is_undefined());
    let Some(first) = defined.next() else { return Ok(()) };
    defined.try_for_each(|value| check_ordered(&first, &value))
}

/// An attribute of an attribute, with dots between the names; undefined if there is none.
fn at_path(value: Value, path: &str) -> Value {
    path.split('.').filter(|name| !name.is_empty()).fold(value, |value, name| {
        let item = name.parse().map_or_else(|_| value.get_attr(name), |at| value.get_item_by_index(at));
        item.unwrap_or_default()
    })
}
