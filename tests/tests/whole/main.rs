//! Whole threads on whole runtimes: what the library promises to those who embed it.

// All of it is test code, its helpers included.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

mod agents;
mod answers;
mod archive;
mod branches;
mod child_races;
mod children;
mod control;
mod crash;
mod embedding;
mod equipment;
mod event_loops;
mod everything;
mod fork;
mod fork_fits;
mod full;
mod guardrails;
mod handler;
mod hooks;
mod interaction;
mod label_limits;
mod limits;
mod long;
mod memory;
mod migrate;
mod moments;
mod monitor;
mod mounted;
mod named;
mod one_run;
mod outputs;
mod owners;
mod page;
mod panics;
mod passivation;
mod people;
mod poison;
mod principals;
mod queues;
mod recovery;
mod rerun;
mod schedules;
mod search;
mod shutdown;
mod signals;
mod steps;
mod strategies;
mod stream;
mod tool_asks;
mod tool_runtime;
mod tools;
mod waits;
mod workspaces;
