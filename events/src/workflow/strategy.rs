//! How an `llm` node comes to its answer.

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::event::{Combine, ModelChoice};
use crate::ids::ProfileId;
use crate::json::Json;

/// How an `llm` node comes to its answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The model is called, the tools that it asks for are run, and it is called again, until it asks for none.
    #[default]
    React,
    /// A plan first, then its steps one after the other, then the answer.
    #[serde(alias = "planAndExecute")]
    PlanAndExecute(PlanAndExecute),
    /// Several models.
    #[serde(alias = "multiLlm", alias = "multiLLM")]
    MultiLlm(MultiLlm),
    /// The application's own, by the name under which it was registered.
    Custom(CustomStrategy),
}

impl Strategy {
    pub(super) fn is_react(&self) -> bool {
        *self == Self::React
    }
}

/// A plan is asked for as structured output; each step runs as `react` does; a failed step leads to a new plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanAndExecute {
    /// The most steps of a plan; 10 when absent, 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxSteps")]
    pub max_steps: Option<u32>,
    /// How many new plans failed steps may lead to; 2 when absent, 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxReplans")]
    pub max_replans: Option<u32>,
    /// How many model calls one step may take before it counts as failed; only the node's `max_iterations` holds when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxStepIterations")]
    pub max_step_iterations: Option<u32>,
    /// The model that plans; the node's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<StrategyModel>,
    /// The instructions for plans to the planner, with `{{expressions}}`, in place of the built-in text. The form of
    /// the answer is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Several models on one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MultiLlm {
    /// The models: 2 to 16.
    pub profiles: Vec<StrategyModel>,
    /// How one answer comes of them.
    pub combine: Combine,
    /// The model that judges, merges or routes; the node's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<StrategyModel>,
    /// How many of the models must answer; 1 when absent. The node fails when fewer can.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "minAnswers")]
    pub min_answers: Option<u32>,
    /// What the judging, merging or routing model is to go by, with `{{expressions}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A strategy of the application: `RuntimeBuilder::strategy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomStrategy {
    /// Its name.
    pub name: String,
    /// Its settings; expressions are evaluated.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub config: OrderedMap<Json>,
    /// How long one decision may take; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

/// A model that a strategy names: a profile, or provider and model. In a file the name of a profile alone will do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(with = "ModelForm")]
pub struct StrategyModel {
    /// What it is called among the others; the name of its profile or model when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is good at, for the model that routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A named profile in place of provider and model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

impl StrategyModel {
    /// The model of a profile.
    pub fn profile(id: impl Into<ProfileId>) -> Self {
        Self { profile_id: Some(id.into()), ..Self::default() }
    }

    /// The name it goes by.
    pub(crate) fn label(&self) -> &str {
        let profile = self.profile_id.as_ref().map(ProfileId::as_str);
        self.name.as_deref().or(profile).or(self.model.as_deref()).unwrap_or_default()
    }

    /// How it is called; what is not said here is as the node says.
    pub(crate) fn choice(&self, of_node: &ModelChoice) -> ModelChoice {
        ModelChoice {
            profile: self.profile_id.clone(),
            provider: self.provider.clone(),
            model: self.model.clone(),
            extra: self.extra.clone(),
            ..of_node.clone()
        }
    }
}

/// The two forms in a file.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)] // only its schema is used
enum ModelForm {
    /// The name of a profile.
    Profile(ProfileId),
    /// In full.
    Full(ModelFields),
}

/// A model that a strategy names.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelFields {
    /// What it is called among the others; the name of its profile or model when absent.
    #[serde(default)]
    name: Option<String>,
    /// What it is good at, for the model that routes.
    #[serde(default)]
    description: Option<String>,
    /// A named profile in place of provider and model.
    #[serde(default, alias = "profile", alias = "profileId")]
    profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(default)]
    provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default)]
    model: Option<String>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default)]
    extra: Option<Json>,
}

impl<'de> Deserialize<'de> for StrategyModel {
    // By hand, because serde's errors of an untagged enum do not name the fault.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = StrategyModel;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a profile, or a model in full")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<StrategyModel, E> {
                Ok(StrategyModel::profile(name))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StrategyModel, A::Error> {
                let fields = ModelFields::deserialize(MapAccessDeserializer::new(map))?;
                let ModelFields { name, description, profile_id, provider, model, extra } = fields;
                Ok(StrategyModel { name, description, profile_id, provider, model, extra })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
