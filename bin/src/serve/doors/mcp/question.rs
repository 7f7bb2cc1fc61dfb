//! Questions of runs as elicitations: forms that the client shows to its user.

use rethread::Json;
use rethread::event::{AnswerType, OperationType};
use rethread::operate::OpenInteraction;
use rmcp::RoleServer;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::serve::doors::question::{is_plain, is_shown_whole, shown, text_of};

/// The field of a form that has the answer.
const ANSWER: &str = "answer";

/// What a client can show to its user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shows {
    form: bool,
    /// A page to be opened.
    url: bool,
}

impl Shows {
    pub(super) const ALL: Self = Self { form: true, url: true };
    pub(super) const NOTHING: Self = Self { form: false, url: false };

    /// What the client of a request can show.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities();
        match capabilities.and_then(|capabilities| capabilities.elicitation) {
            // Without either, as the first revision with questions has it, they are forms.
            Some(can) => Self { form: can.form.is_some() || can.url.is_none(), url: can.url.is_some() },
            None => Self::NOTHING,
        }
    }

    /// What the client of a task can show. One that polls tasks reads forms.
    pub(super) fn of_task(context: &RequestContext<RoleServer>) -> Self {
        Self { form: true, ..Self::of(context) }
    }

    /// Whether it can show anything.
    pub(super) fn any(self) -> bool {
        self.form || self.url
    }

    /// Whether it can show a question. The prompt of a person who answers for a model is a whole request.
    pub(super) fn can_ask(self, question: &OpenInteraction) -> bool {
        match question.request.operation_type {
            OperationType::UpdateVariables
            | OperationType::AddMessage
            | OperationType::AnswerTool
            | OperationType::ApproveTool
            | OperationType::ApproveContent => self.form && is_shown_whole(question),
            OperationType::InformTool => match page(question) {
                Some(url) => self.url && is_plain(&url.into()),
                None => self.form && is_shown_whole(question) && own_form(question).is_some(),
            },
            OperationType::RelayModel => false,
        }
    }
}

/// What the user of a client did with a question.
pub(super) enum Given {
    Answer(Json),
    /// The tool that asks goes on without an answer.
    Withdrawn,
    /// Nothing: it stays open.
    Nothing,
}

/// Whether a tool that runs asks, such as an MCP server in the middle of a call.
pub(super) fn is_of_tool(question: &OpenInteraction) -> bool {
    question.request.operation_type == OperationType::InformTool
}

/// A part of the question of a tool.
fn of_tool<'a>(question: &'a OpenInteraction, part: &str) -> Option<&'a Value> {
    question.request.metadata.as_ref().filter(|_| is_of_tool(question))?.0.get(part)
}

/// The page that a tool wants to be opened.
fn page(question: &OpenInteraction) -> Option<&str> {
    of_tool(question, "url")?.as_str()
}

/// The question in words.
pub(super) fn in_words(question: &OpenInteraction) -> String {
    let text = text_of(question);
    match of_tool(question, "from").and_then(Value::as_str).filter(|_| question.request.answer.is_none()) {
        Some(from) => format!("{} asks: {text}", shown(from)),
        None => text,
    }
}

/// The schema of an answer, if a form can ask for it as it is: an object with fields of simple types, whose texts a person
/// sees as they are.
fn own_form(question: &OpenInteraction) -> Option<ElicitationSchema> {
    let schema = match &question.request.answer {
        Some(AnswerType::JsonSchema { schema }) => &*schema.0,
        Some(_) => return None,
        None => of_tool(question, "schema")?,
    };
    ElicitationSchema::from_json_schema(schema.as_object().filter(|_| is_plain(schema))?.clone()).ok()
}

/// The form that asks a question, or the page that is to be opened.
pub(super) fn form(question: &OpenInteraction) -> ElicitRequestParams {
    let message = in_words(question);
    if let Some(url) = page(question) {
        let (url, elicitation_id) = (url.to_owned(), question.key());
        return ElicitRequestParams::UrlElicitationParams { meta: None, message, url, elicitation_id };
    }
    let requested_schema = own_form(question).unwrap_or_else(|| {
        let field = match &question.request.answer {
            Some(AnswerType::JsonSchema { .. }) => json!({ "type": "string", "description": "The answer, as JSON" }),
            Some(AnswerType::Boolean {}) => json!({ "type": "boolean" }),
            Some(AnswerType::Choice { choices }) if is_plain(&json!(choices)) => {
                json!({ "type": "string", "enum": choices })
            }
            Some(AnswerType::Choice { .. }) => json!({ "type": "string" }),
            Some(AnswerType::Number {}) => json!({ "type": "number" }),
            Some(AnswerType::Text {}) => json!({ "type": "string" }),
            None if question.is_approval() => json!({ "type": "boolean", "description": "Whether to go on with it" }),
            None => json!({ "type": "string" }),
        };
        let schema = json!({ "type": "object", "properties": { ANSWER: field }, "required": [ANSWER] });
        serde_json::from_value(schema).unwrap_or_else(|_| ElicitationSchema::new(Default::default()))
    });
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema }
}

/// Returns the answer that a form gave. A tool that asks is told that the user gives none.
pub(super) fn answer(question: &OpenInteraction, given: ElicitResult) -> Given {
    match given.action {
        ElicitationAction::Accept => accepted(question, given.content).map_or(Given::Nothing, Given::Answer),
        ElicitationAction::Decline if is_of_tool(question) => Given::Answer(json!({ "decision": "reject" }).into()),
        ElicitationAction::Cancel if is_of_tool(question) => Given::Withdrawn,
        _ => Given::Nothing,
    }
}

fn accepted(question: &OpenInteraction, content: Option<Value>) -> Option<Json> {
    if page(question).is_some() {
        return Some(Json::from(true));
    }
    let content = content?;
    if own_form(question).is_some() {
        return Some(Json::from(content));
    }
    let answer = content.get(ANSWER)?.clone();
    Some(Json::from(match &question.request.answer {
        None | Some(AnswerType::JsonSchema { .. }) => parsed(answer),
        Some(_) => answer,
    }))
}

/// A text as JSON, if it is JSON, as on a terminal.
fn parsed(value: Value) -> Value {
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or(value)
}
