//! The tools that come with rethread.
