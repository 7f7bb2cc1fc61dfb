//! A plan, and how far it is.

use bincode::{Decode, Encode};

use crate::fault::ExecutionError;
use crate::thread::request::ModelBinding;

/// A plan and how far it is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct PlanRun {
    /// How far it is.
    pub stage: PlanStage,
    /// How many plans failed before.
    pub n_replans: u32,
    /// The steps of the plan that was made last.
    pub steps: Vec<String>,
    /// Who does the steps.
    pub own: ModelBinding,
}

/// How far a plan is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum PlanStage {
    /// The call for a plan is due.
    ToPlan {
        /// The step of the plan before that failed, and why.
        failed: Option<(u32, ExecutionError)>,
    },
    /// The call for a plan is open.
    Planning {
        /// How often it was called.
        attempt: u32,
    },
    /// This step comes next; the answer, if there is no step.
    Next(u32),
    /// This step is being done.
    Step(u32),
    /// The answer is being written.
    Finishing,
}

impl PlanRun {
    /// The place of the step that is being done, or comes next.
    pub fn step(&self) -> Option<u32> {
        match self.stage {
            PlanStage::Step(index) => Some(index),
            PlanStage::Next(index) => Some(index).filter(|index| (*index as usize) < self.steps.len()),
            PlanStage::ToPlan { .. } | PlanStage::Planning { .. } | PlanStage::Finishing => None,
        }
    }

    pub(in crate::thread) fn new(own: ModelBinding) -> Self {
        Self { stage: PlanStage::ToPlan { failed: None }, n_replans: 0, steps: Vec::new(), own }
    }
}
