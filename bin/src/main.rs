//! The rethread command line.
fn main() {}
