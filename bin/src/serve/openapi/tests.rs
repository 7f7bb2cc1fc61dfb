use super::*;

#[test]
fn every_operation_has_a_unique_name_a_summary_and_a_tag() {
    let mut api = api();
    let mut names = std::collections::BTreeSet::new();
    let tags: Vec<_> = api.tags.clone().unwrap_or_default().into_iter().map(|tag| tag.name).collect();
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            let name = operation.operation_id.clone().unwrap_or_default();
            assert!(names.insert(name.clone()), "{method} {path}: {name} is taken");
            assert!(operation.summary.as_ref().is_some_and(|text| !text.is_empty()), "{method} {path} has no summary");
            let tagged = operation.tags.iter().flatten().all(|tag| tags.contains(tag));
            assert!(tagged && operation.tags.is_some(), "{method} {path}");
        }
    }
}

#[test]
fn every_part_of_a_path_is_a_parameter() {
    let document = serde_json::to_value(api()).unwrap_or_default();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        let parts: Vec<_> = path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
        for (method, operation) in item.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_path = parameters.filter(|parameter| parameter["in"] == "path");
            let names: Vec<_> = in_path.filter_map(|parameter| parameter["name"].as_str()).collect();
            assert!(parts.len() == names.len() && parts.iter().all(|part| names.contains(part)), "{method} {path}");
        }
    }
}
