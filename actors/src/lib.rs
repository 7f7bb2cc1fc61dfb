//! A runtime that runs LLM agents as event-sourced actors.
