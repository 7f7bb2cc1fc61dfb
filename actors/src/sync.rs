//! The locks of what a test checks under every order of its threads, which replaces this module by its own.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use parking_lot::RwLock;
