//! The commands in a chat.

use std::io::Write as _;

use rethread::runs::ThreadMessage;
use rethread::{Role, Workflow};
use rethread_events::workflow::NamedModel;
use serde_json::json;

use super::{Chat, Definition};
use crate::exit::{CONFLICT, Failure, NOT_FOUND};
use crate::output;
use crate::threads::dollars;

const HELP: &str = "\
/clear         begin a new conversation
/history [N]   show the last messages, 20 unless N is given
/stats         show tokens, cost and time
/model [NAME]  show the model, or switch to another profile
/undo          withdraw the last message: your next one replaces it, in a fork
/save FILE     write the conversation, for `rethread run --messages FILE`
/exit          leave
Ctrl-C interrupts an answer. A message that begins with a slash is written with a space before it.";

/// How many messages are shown.
const HISTORY: usize = 20;
/// How many are read at once.
const PAGE: usize = 500;
/// How much of a message is shown.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// What happens after a command.
pub(super) enum Next {
    Message,
    Leave,
}

impl Chat<'_> {
    pub(super) async fn command(&mut self, line: &str) -> Result<Next, Failure> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (name, rest) {
            ("exit" | "quit", "") => return Ok(Next::Leave),
            ("help", "") => output::print(HELP)?,
            ("clear", "") => {
                self.thread = None;
                self.again = None;
                output::print_message(&output::dim("the next message begins a new conversation"));
            }
            ("history", n) => self.history(n).await?,
            ("stats", "") => self.stats().await?,
            ("model", "") => self.models().await?,
            ("model", profile) => self.change_model(profile)?,
            ("undo", "") => self.undo().await?,
            ("save", "") => return Err(Failure::new(2, "name the file: /save FILE")),
            ("save", file) => self.save(file).await?,
            _ => {
                let name = output::sanitize(line, 80);
                return Err(Failure::new(2, format!("/{name} is not a command: /help lists the commands")));
            }
        }
        Ok(Next::Message)
    }

    /// The last messages in order, without those that are taken back.
    async fn messages(&self, n: usize) -> Result<Vec<ThreadMessage>, Failure> {
        let Some(thread) = &self.thread else { return Ok(Vec::new()) };
        let mut messages: Vec<ThreadMessage> = Vec::new();
        let mut before = None;
        while messages.len() < n {
            let page = thread.messages(before, PAGE).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.index);
            let taken_back = self.again.as_ref().map(|run| run.started);
            messages.extend(page.into_iter().filter(|message| taken_back.is_none_or(|from| message.seq < from)));
        }
        messages.truncate(n);
        messages.reverse();
        Ok(messages)
    }

    async fn history(&self, n: &str) -> Result<(), Failure> {
        let n = match n {
            "" => HISTORY,
            n => n.parse().map_err(|_| Failure::new(2, "expected a number of messages: /history 50"))?,
        };
        for message in self.messages(n).await? {
            let who = match message.message.role {
                Role::User => output::bold("you"),
                Role::Assistant => output::bold("model"),
                Role::Tool => output::dim("tool"),
                Role::System => continue,
            };
            let calls = message.message.tool_calls().map(|call| format!("[{}]", call.name));
            let text = std::iter::once(message.message.whole_text()).chain(calls);
            let text = text.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join(" ");
            output::print(format!("{who}: {}", output::sanitize_indented(&text, MESSAGE_CHARS_MAX)))?;
        }
        Ok(())
    }

    async fn stats(&self) -> Result<(), Failure> {
        let Some(thread) = &self.thread else {
            output::print("no messages yet")?;
            return Ok(());
        };
        let state = thread.state().await?;
        let totals = state.totals();
        let cost = totals.cost_nanousd.map_or_else(|| "unknown".to_owned(), dollars);
        let partial = if totals.n_unpriced > 0 && totals.cost_nanousd.is_some() { " (partial)" } else { "" };
        let tokens = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        output::print(format!("thread        {}", thread.id()))?;
        output::print(format!("runs          {}", state.run_number()))?;
        output::print(format!("messages      {}", super::n_messages(&state)))?;
        output::print(format!("model calls   {}", totals.n_llm_calls))?;
        output::print(format!("tool calls    {}", totals.n_tool_calls))?;
        output::print(format!(
            "tokens        {} in, {} out",
            tokens(totals.usage.input_tokens),
            tokens(totals.usage.output_tokens)
        ))?;
        output::print(format!("cost          {cost}{partial}"))
    }

    /// The models that the present definition names.
    async fn models(&self) -> Result<(), Failure> {
        let named = match (&self.definition, &self.thread) {
            (Definition::Agent { args, is_new: true }, _) | (Definition::Agent { args, .. }, None) => {
                models(args.definition(self.open, super::AGENT)?.workflow())
            }
            (Definition::File(Some(file)), None) => models(file.workflow()),
            (_, Some(thread)) => match thread.state().await?.workflow() {
                Some(workflow) => self.runtime.workflow(workflow.hash).await?.map_or_else(Vec::new, |it| models(&it)),
                None => Vec::new(),
            },
            (_, None) => Vec::new(),
        };
        for model in named {
            output::print(output::sanitize(&model, 200))?;
        }
        Ok(())
    }

    fn change_model(&mut self, profile: &str) -> Result<(), Failure> {
        if self.server.is_none() && !self.open.profiles()?.names().any(|name| name == profile) {
            let names: Vec<_> = self.open.profiles()?.names().map(str::to_owned).collect();
            let message =
                format!("there is no profile `{}`; there are: {}", output::sanitize(profile, 80), names.join(", "));
            return Err(Failure::new(NOT_FOUND, message));
        }
        let Definition::Agent { args, is_new } = &mut self.definition else {
            let message = "the workflow file names its models: change it there, and continue with the new version";
            return Err(Failure::new(CONFLICT, message));
        };
        args.profile = Some(profile.to_owned());
        *is_new = true;
        output::print_message(&output::dim(format!("the next message goes to {}", output::sanitize(profile, 80))));
        Ok(())
    }

    async fn undo(&mut self) -> Result<(), Failure> {
        let before = self.again.as_ref().map(|run| run.run_id);
        let run = match &self.thread {
            Some(thread) => thread.runs(before, 1).await?.pop(),
            None => None,
        };
        let Some(run) = run else { return Err(Failure::new(CONFLICT, "there is no message to withdraw")) };
        let said = run.input.0.as_str().map_or_else(|| run.input.0.to_string(), str::to_owned);
        output::print_message(&output::dim(format!("withdrawn: {}", output::sanitize(&said, 200))));
        self.again = Some(run);
        Ok(())
    }

    async fn save(&self, file: &str) -> Result<(), Failure> {
        let messages = self.messages(usize::MAX).await?;
        let messages: Vec<_> = messages.iter().map(|it| &it.message).filter(|it| it.role != Role::System).collect();
        let cannot = |error: std::io::Error| Failure::other(format!("{file} cannot be written: {error}"));
        // An existing file is not overwritten.
        let mut new = std::fs::OpenOptions::new().write(true).create_new(true).open(file).map_err(cannot)?;
        writeln!(new, "{:#}", json!(messages)).map_err(cannot)?;
        let n = output::count(messages.len(), "message", "messages");
        output::print_message(&output::dim(format!("wrote {n} to {}", output::sanitize(file, 200))));
        Ok(())
    }
}

/// Returns what the nodes of a workflow call: profiles, or providers with their models.
fn models(workflow: &Workflow) -> Vec<String> {
    let mut found = Vec::new();
    workflow.each_model(|_, NamedModel { profile, provider, model, .. }| {
        let named = profile.map(|profile| profile.as_str()).into_iter().chain(provider).chain(model);
        let named = named.collect::<Vec<_>>().join(" ");
        // A place that names nothing of its own asks a model that is named elsewhere.
        if !named.is_empty() {
            found.push(named);
        }
    });
    found.sort();
    found.dedup();
    found
}
