//! The usage of a thread so far.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::event::{BranchEnded, BranchSpent};
use crate::message::{Usage, grown, sum_of};

/// What BUDGET_EXCEEDED says of calls whose cost is not known.
pub(in crate::thread) const UNPRICED: &str = "unpriced_calls";

/// Sums over the whole thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize)]
pub struct Totals {
    /// Nodes entered, inside of loops and sub-workflows too.
    pub n_iterations: u32,
    /// Model calls answered.
    pub n_llm_calls: u64,
    /// Model calls answered whose cost is not known.
    pub n_unpriced: u64,
    /// Tool calls ended.
    pub n_tool_calls: u64,
    /// Tokens.
    pub usage: Usage,
    /// Cost in billionths of a US dollar, of the calls whose price is known.
    pub cost_nanousd: Option<u64>,
}

/// A model call whose cost is unknown and not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(in crate::thread) struct Unpriced {
    /// The model, for people.
    pub(in crate::thread) model: String,
    /// Whether BUDGET_EXCEEDED has named it.
    pub(in crate::thread) is_recorded: bool,
}

impl From<&BranchSpent> for Totals {
    fn from(event: &BranchSpent) -> Self {
        let BranchSpent { n_llm_calls, n_tool_calls, usage, cost_nanousd, n_unpriced, .. } = *event;
        Self { n_iterations: 0, n_llm_calls, n_unpriced, n_tool_calls, usage, cost_nanousd }
    }
}

impl From<&BranchEnded> for Totals {
    fn from(event: &BranchEnded) -> Self {
        let BranchEnded { n_llm_calls, n_tool_calls, usage, cost_nanousd, n_unpriced, .. } = *event;
        Self { n_iterations: 0, n_llm_calls, n_unpriced, n_tool_calls, usage, cost_nanousd }
    }
}

impl Totals {
    /// Tokens of prompts and answers.
    pub fn tokens(&self) -> u64 {
        self.usage.tokens()
    }

    /// Returns the usage since `before`.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Self {
        let n_llm_calls = self.n_llm_calls.saturating_sub(before.n_llm_calls);
        let n_unpriced = self.n_unpriced.saturating_sub(before.n_unpriced);
        // Calls with a price may have cost nothing.
        let nothing = self.cost_nanousd.filter(|_| n_llm_calls > n_unpriced).map(|_| 0);
        Self {
            n_iterations: self.n_iterations.saturating_sub(before.n_iterations),
            n_llm_calls,
            n_unpriced,
            n_tool_calls: self.n_tool_calls.saturating_sub(before.n_tool_calls),
            usage: self.usage.since(&before.usage),
            cost_nanousd: grown(self.cost_nanousd, before.cost_nanousd).or(nothing),
        }
    }

    /// Whether something was spent since `before`, which is an earlier state of the same sums.
    pub fn is_beyond(&self, before: &Self) -> bool {
        let of =
            |totals: &Self| [totals.n_llm_calls, totals.n_unpriced, totals.tokens(), totals.cost_nanousd.unwrap_or(0)];
        of(self).into_iter().zip(of(before)).any(|(now, before)| now > before)
    }

    /// Adds what a branch has spent.
    pub(in crate::thread) fn add(&mut self, spent: &Self) {
        self.n_llm_calls = self.n_llm_calls.saturating_add(spent.n_llm_calls);
        self.n_tool_calls = self.n_tool_calls.saturating_add(spent.n_tool_calls);
        self.n_unpriced = self.n_unpriced.saturating_add(spent.n_unpriced);
        self.usage.add(&spent.usage);
        self.add_cost(spent.cost_nanousd);
    }

    /// Adds a cost, where it is known.
    pub(in crate::thread) fn add_cost(&mut self, cost_nanousd: Option<u64>) {
        self.cost_nanousd = sum_of(self.cost_nanousd, cost_nanousd, u64::saturating_add);
    }
}
