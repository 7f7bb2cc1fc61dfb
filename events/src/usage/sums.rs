//! Sums over calls.

use std::collections::BTreeMap;

use super::call::{CallUsage, Callee, ModelName, ModelUsage};
use crate::fault::ErrorKind;
use crate::ids::ToolName;
use crate::message::{Usage, UsageSource, sum_of};

/// Sums by model and by tool. The order of the calls does not matter, so sums of pages can be made one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageSums {
    /// By the model that was asked.
    pub models: BTreeMap<ModelName, ModelSums>,
    /// By tool.
    pub tools: BTreeMap<ToolName, CallSums>,
}

/// Sums over all calls of a group, such as the threads with a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSums {
    /// Calls of models.
    pub models: ModelSums,
    /// Calls of tools.
    pub tools: CallSums,
}

/// Sums over calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSums {
    /// Calls that ended.
    pub n: u64,
    /// Calls among them that failed.
    pub n_failed: u64,
    /// Calls among them that were cancelled.
    pub n_cancelled: u64,
    /// How often they were tried again.
    pub n_retries: u64,
    /// How long they took, added up.
    pub total_ms: u64,
    /// How long the longest took.
    pub max_ms: u64,
}

/// Sums over calls of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelSums {
    /// Their number and their time.
    pub calls: CallSums,
    /// Calls among them whose answer came from the cache of answers.
    pub n_cached: u64,
    /// Tokens, of the calls that have figures.
    pub usage: Usage,
    /// Calls whose tokens are not known, or not all of them: they are not in `usage`. Failed calls of which the
    /// provider reported nothing are among them.
    pub n_usage_unknown: u64,
    /// Calls whose tokens were counted here, because the provider did not report them.
    pub n_usage_counted: u64,
    /// Cost in billionths of a US dollar, of the calls whose cost is known; absent where none is.
    pub cost_nanousd: Option<u64>,
    /// What the provider's cache of prompts saved, in billionths of a US dollar; absent where it saved and cost nothing.
    pub cache_saved_nanousd: Option<i64>,
    /// Calls whose cost is not known: they are not in `cost_nanousd`. Failed calls of which the provider reported nothing
    /// are among them.
    pub n_unpriced: u64,
}

impl UsageSums {
    /// Adds a call.
    pub fn add(&mut self, call: &CallUsage) {
        let model = match &call.callee {
            Callee::Tool(tool) => return self.tools.entry(tool.clone()).or_default().add(call),
            Callee::Model(model) => model,
        };
        self.models.entry(model.name.clone()).or_default().add(call, model);
    }
}

impl GroupSums {
    /// Adds a call.
    pub fn add(&mut self, call: &CallUsage) {
        match &call.callee {
            Callee::Tool(_) => self.tools.add(call),
            Callee::Model(model) => self.models.add(call, model),
        }
    }
}

impl ModelSums {
    fn add(&mut self, call: &CallUsage, model: &ModelUsage) {
        self.calls.add(call);
        self.usage.add(&model.usage);
        let count = |n: &mut u64, is_one: bool| *n += u64::from(is_one);
        count(&mut self.n_cached, model.cached);
        count(&mut self.n_usage_unknown, model.is_usage_unknown);
        count(&mut self.n_usage_counted, model.usage_source == Some(UsageSource::Counted));
        self.cache_saved_nanousd = sum_of(self.cache_saved_nanousd, model.cache_saved_nanousd, i64::saturating_add);
        self.cost_nanousd = sum_of(self.cost_nanousd, model.cost_nanousd, u64::saturating_add);
        count(&mut self.n_unpriced, model.is_unpriced);
    }
}

impl CallSums {
    fn add(&mut self, call: &CallUsage) {
        self.n += 1;
        match call.error {
            None => {}
            Some(ErrorKind::Cancelled) => self.n_cancelled += 1,
            Some(_) => self.n_failed += 1,
        }
        self.n_retries += u64::from(call.n_retries);
        self.total_ms = self.total_ms.saturating_add(call.duration_ms);
        self.max_ms = self.max_ms.max(call.duration_ms);
    }

    /// Returns the average duration of a call; absent if there was none.
    pub fn mean_ms(&self) -> Option<u64> {
        self.total_ms.checked_div(self.n)
    }
}
