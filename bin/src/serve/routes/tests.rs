use std::collections::BTreeSet;

use super::super::openapi;
use super::*;

/// What is no part of the API, like the routes of doors, which others define.
const PAGE: [&str; 2] = ["/", "/assets/{file}"];

#[test]
fn document_lists_exactly_the_routes() {
    let mut api = openapi::api();
    let mut described = BTreeSet::new();
    for (path, item) in &mut api.paths.paths {
        described.extend(openapi::operations(item).map(|(method, _)| (path.clone(), method)));
    }
    let is_described = |route: &&Route| !PAGE.contains(&route.path) && Door::of(route.path).is_none();
    let routes = ROUTES.iter().filter(is_described);
    let served: BTreeSet<_> = routes.map(|route| (route.path.to_owned(), route.method)).collect();
    assert_eq!(described, served);
}

#[test]
fn changing_routes_need_more_than_the_scope_read() {
    // A rerun writes nothing but with `live_from`, which its handler asks more for. So do the tools of MCP
    // and the methods of A2A that run threads.
    let harmless = [
        "/v1/log/verify",
        "/v1/session",
        "/v1/threads/{thread}/rerun",
        "/mcp",
        "/a2a/{workflow}",
        "/a2a/{workflow}/tasks/{task}",
    ];
    for route in ROUTES.iter().filter(|route| route.method != "get" && !harmless.contains(&route.path)) {
        assert!(matches!(route.access, Access::Signed | Access::Operate | Access::Admin), "{route:?}");
    }
}
