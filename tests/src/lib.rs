//! Whole-system scenarios, crash tests, golden logs and benches of rethread.
