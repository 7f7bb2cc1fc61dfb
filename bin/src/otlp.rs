//! OpenTelemetry: the spans of runs are sent to a collector by OTLP, from the log. `rethread export --otlp` sends those of
//! threads, `rethread run` those of its run, and a server those of each run that ends.

mod at_exit;
mod config;
mod encode;
mod ends;
mod export;
#[cfg(feature = "server")]
mod follow;
mod sampling;
mod send;

pub(crate) use self::at_exit::AtExit;
pub(crate) use self::config::{Table, check, trace_context};
#[cfg(feature = "server")]
pub(crate) use self::config::{read, variable};
pub(crate) use self::export::{OtlpArgs, export};
#[cfg(feature = "server")]
pub(crate) use self::follow::{ExportStats, start};
