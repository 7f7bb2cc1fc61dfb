//! Asks a person at the terminal.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};

use rethread::event::{AnswerType, OperationType};
use rethread::operate::OpenInteraction;
use rethread::{InteractionRequest, Json};
use rethread_events::client_tools;

use crate::drive::Form;
use crate::family::Question;
use crate::output;

mod parts;
pub(crate) mod typed;

/// The largest answer that is read, in bytes.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The most characters of a question in a line about it.
const PROMPT_CHARS_MAX: usize = 400;

/// Returns whether a person can be asked at this terminal.
pub(crate) fn may_ask(form: Form) -> bool {
    form.is_chat
        || !form.no_input && !form.json && !form.jsonl && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Ends the line of a question that was not answered.
pub(crate) fn end_line() {
    output::print_message("");
}

/// The answer of the person.
pub(crate) enum Reply {
    /// This.
    Answer(Json),
    /// None for now: the question stays open.
    Postponed,
    /// The input has ended.
    InputClosed,
}

/// Returns the index of the first question that was not postponed.
pub(crate) fn next(open: &[Question], postponed: &HashSet<String>) -> Option<usize> {
    open.iter().position(|question| !postponed.contains(&question.asked.key()))
}

/// Asks on the terminal. A question with a type is answered by the line as it is; otherwise JSON is taken as JSON, anything
/// else as text.
pub(crate) async fn ask(Question { branch, asked: question }: &Question) -> Reply {
    typed::forget().await;
    if !branch.is_empty() {
        output::print_message(&output::cyan(format!("[{branch}] asks:")));
    }
    let request = &question.request;
    let prompt = output::sanitize_lines(request.prompt.as_deref().unwrap_or("Your answer"));
    let approval = match request.operation_type {
        OperationType::RelayModel => return relay(&prompt).await,
        OperationType::ApproveTool | OperationType::ApproveContent => true,
        OperationType::UpdateVariables
        | OperationType::AddMessage
        | OperationType::AnswerTool
        | OperationType::InformTool => false,
    };
    let mut hint = String::new();
    let Some(prompt) = (if approval { last_part(&prompt).await } else { Some(&*prompt) }) else {
        return Reply::InputClosed;
    };
    if approval {
        let other = match request.operation_type {
            OperationType::ApproveTool if client_tools::is_call(request.metadata.as_ref()) => {
                "no, or JSON as {\"decision\": \"answer\", \"content\": …} with the result"
            }
            OperationType::ApproveContent => {
                "yes, no, or JSON as {\"decision\": \"answer\", \"content\": \"a text in its place\"}"
            }
            _ => "yes, no, or JSON as {\"decision\": \"edit\", \"arguments\": {…}}",
        };
        output::print_message(&output::dim(format!("answer {other}; an empty line postpones the answer")));
    } else if request.operation_type == OperationType::InformTool {
        output::print_message(&output::dim(output::sanitize_lines(&form_of(question))));
    } else if let Some(answer) = &request.answer {
        hint = format!(" ({})", output::sanitize(&answer.expected(), PROMPT_CHARS_MAX));
    } else if let Some(choices) = choices(question) {
        hint = format!(" ({})", output::sanitize(&choices.join(", "), PROMPT_CHARS_MAX));
    }
    let _ = write!(io::stderr(), "{}{hint} ", output::bold(prompt));
    let _ = io::stderr().flush();
    let Some(line) = typed::line().await else {
        return Reply::InputClosed;
    };
    let line = line.trim_end_matches(['\r', '\n']);
    if approval && line.trim().is_empty() {
        return Reply::Postponed;
    }
    if request.answer.is_some() {
        return Reply::Answer(Json::from(line));
    }
    Reply::Answer(serde_json::from_str(line).unwrap_or_else(|_| Json::from(line)))
}

/// Shows what is to be approved, one screen after the other, and returns the part for the last screen, below which the
/// answer is typed; `None` if the terminal was closed.
async fn last_part(prompt: &str) -> Option<&str> {
    let (columns, lines) = output::screen();
    let mut parts = parts::of(prompt, columns, lines);
    let last = parts.pop()?;
    for (i, part) in parts.iter().enumerate() {
        output::print_message(&output::bold(part));
        output::print_message(&output::dim(format!(
            "part {} of {}: Enter shows the next part",
            i + 1,
            parts.len() + 1
        )));
        typed::line().await?;
    }
    Some(last)
}

/// Shows the prompt for a model, and reads the person's answer up to the end of the input.
async fn relay(prompt: &str) -> Reply {
    output::print_message(prompt);
    output::print_message(&output::bold("--- paste the answer here; end it with Ctrl-D on a line of its own ---"));
    let mut text = String::new();
    while let Some(line) = typed::line().await {
        text.push_str(&line);
        if text.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    if text.trim().is_empty() { Reply::InputClosed } else { Reply::Answer(Json::from(text)) }
}

/// Who asks during a call, and what the answer must look like.
fn form_of(question: &OpenInteraction) -> String {
    let metadata = question.request.metadata.as_ref().map(|metadata| &metadata.0);
    let text = |key: &str| metadata.and_then(|metadata| metadata[key].as_str()).unwrap_or_default();
    let who = format!("`{}` asks during a call", text("from"));
    let fields = metadata.and_then(|metadata| metadata["schema"]["properties"].as_object());
    match fields {
        Some(fields) => {
            let field = |(name, field): (&String, &serde_json::Value)| {
                let kind = field["enum"].as_array().map(|_| field["enum"].to_string());
                format!("{name} ({})", kind.unwrap_or_else(|| field["type"].as_str().unwrap_or("any").to_owned()))
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("{who}; answer with JSON: {}. {{\"decision\": \"reject\"}} gives no answer", fields.join(", "))
        }
        None => format!("{who} to open {}; answer yes when it is done, or no", text("url")),
    }
}

/// The answers that a model offers.
fn choices(question: &OpenInteraction) -> Option<Vec<String>> {
    let choices = question.request.metadata.as_ref()?.0.get("choices")?.as_array()?;
    Some(choices.iter().filter_map(|choice| choice.as_str()).map(str::to_owned).collect())
}

/// Prints the question, and the command that answers it.
pub(crate) fn print_how_to_answer(Question { branch, asked: question }: &Question) {
    let who = if branch.is_empty() { String::new() } else { format!(", branch {branch}") };
    let prompt = question.request.prompt.as_deref().unwrap_or_default();
    let prompt = if question.is_approval() {
        output::sanitize_lines(prompt)
    } else {
        output::sanitize(prompt, PROMPT_CHARS_MAX)
    };
    output::print_message(&format!("waiting for a person{who}: {prompt}"));
    output::print_message(&format!("answer it:  {}", how_to_answer(question)));
}

/// The command that answers a question.
pub(crate) fn how_to_answer(question: &OpenInteraction) -> String {
    let answer = match question.request.operation_type {
        OperationType::ApproveTool if client_tools::is_call(question.request.metadata.as_ref()) => {
            "--value '{\"decision\": \"answer\", \"content\": …}' (or --reject REASON)"
        }
        OperationType::ApproveTool => "--approve (or --reject REASON, --edit JSON)",
        OperationType::ApproveContent => {
            "--approve (or --reject REASON, --value '{\"decision\": \"answer\", \"content\": \"…\"}')"
        }
        _ if matches!(question.request.answer, Some(AnswerType::Boolean {})) => "--text yes (or no)",
        _ if matches!(question.request.answer, Some(AnswerType::JsonSchema { .. })) => "--value JSON",
        OperationType::UpdateVariables
        | OperationType::AddMessage
        | OperationType::AnswerTool
        | OperationType::InformTool
        | OperationType::RelayModel => "--text ANSWER",
    };
    format!("rethread respond {} {answer}", question.key())
}

/// Returns the kind of the question, in a few words.
pub(crate) fn kind(request: &InteractionRequest) -> &'static str {
    match request.operation_type {
        OperationType::UpdateVariables => "sets variables",
        OperationType::AddMessage => "adds a message",
        OperationType::ApproveTool if client_tools::is_call(request.metadata.as_ref()) => "runs in the client",
        OperationType::ApproveTool => "approves a tool",
        OperationType::ApproveContent => "approves a message",
        OperationType::AnswerTool => "answers the model",
        OperationType::RelayModel => "answers for the model",
        OperationType::InformTool => "informs a tool",
    }
}
