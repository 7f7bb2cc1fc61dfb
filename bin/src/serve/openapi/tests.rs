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
