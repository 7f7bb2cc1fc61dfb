//! The conversation of a thread.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::codec::SharedList;
use crate::event::{CheckedContent, ContextItem, LlmExecutionRequest, NodeContext, SaidItem};
use crate::ids::{CallId, Hash, NodeId, Seq};
use crate::message::{Message, Role, ToolSpec};

/// A message and the event that added it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// The event.
    pub seq: Seq,
    /// The message.
    pub message: Arc<Message>,
    /// Whether the application put it there (MESSAGE_ADDED), and not a node: it outlives a failed try of a node.
    pub added: bool,
    /// Whether it replaces messages that were summarised.
    pub summary: bool,
    /// The node that said it; absent for what the application added.
    pub node: Option<NodeId>,
}

/// The conversation of a thread: finished turns (history) and the present one (context). An answer comes right after
/// the messages that the model had read when it was called, and tool results come right after the answer that requested
/// them; messages that the application adds meanwhile come after them.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub struct Conversation {
    /// Everything, in order.
    pub entries: SharedList<Entry>,
    /// Where the last turn of a model node begins.
    pub turn_from: u64,
    /// The index of the instructions in force, so that finding them costs the same however long the thread is.
    system_at: Option<u64>,
    /// The node that the thread is in.
    node: Option<NodeId>,
    /// The last call of a model that read all there was: what the application adds later is unread.
    read_by: Option<CallId>,
    /// What nodes said in their last visit that had a conversation of their own, which is not in this one.
    own_turns: BTreeMap<NodeId, SharedList<Entry>>,
    /// The last turn, if it is not in this conversation.
    own_turn: Option<SharedList<Entry>>,
    /// What `own_turn` was as the node began, if a turn of it has begun.
    before_node: Option<Option<SharedList<Entry>>>,
    /// How many of its first messages were said in another conversation.
    n_given: u64,
    /// The tools of its calls so far, each combination once.
    offers: Vec<Arc<ToolOffer>>,
}

/// The tools that a call of a conversation has. Later calls of the conversation declare them again, so that a request
/// begins with what was sent before.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ToolOffer {
    /// The request of the first node that had them.
    pub seq: Seq,
    /// The hash of the catalogue that describes the tools.
    pub catalog: Option<Hash>,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The agents, handoffs and tools of the client.
    pub beside: Vec<ToolSpec>,
}

impl ToolOffer {
    /// The tools of a request.
    pub fn of(seq: Seq, request: &LlmExecutionRequest) -> Self {
        let beside = request.tools_beside().collect();
        Self { seq, catalog: request.tool_catalog, tools: request.tools.clone(), beside }
    }

    fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.beside.is_empty()
    }

    /// Whether these are the tools of a request.
    pub fn is_of(&self, request: &LlmExecutionRequest) -> bool {
        let is_catalogue = (&self.catalog, &self.tools) == (&request.tool_catalog, &request.tools);
        is_catalogue && request.tools_beside().eq(self.beside.iter().cloned())
    }
}

/// A position in a conversation to which it can be truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Mark {
    /// How many messages there are before it.
    pub n_entries: u64,
    /// Where the last turn before it begins.
    pub turn_from: u64,
}

impl Conversation {
    /// The instructions in force: the last system message.
    pub fn system_prompt(&self) -> Option<String> {
        let system = self.entries.get(index(self.system_at?))?;
        Some(system.message.joined_text())
    }

    /// Returns the messages, without instructions that later ones replaced. The log has them all.
    pub fn in_force(&self) -> impl Iterator<Item = &Entry> {
        let system_at = self.system_at.map(index);
        let entries = self.entries.iter().enumerate();
        entries
            .filter(move |(i, entry)| entry.message.role != Role::System || system_at == Some(*i))
            .map(|(_, entry)| entry)
    }

    /// Returns the index of the first instructions, if they come after other messages although no model has been called in
    /// this conversation before them: they come first in its requests then.
    pub(super) fn late_instructions(&self) -> Option<usize> {
        self.system_at?;
        let first = self.entries.iter().position(|entry| entry.message.role == Role::System)?;
        let n_given = index(self.n_given);
        // The messages of a start have no model of this thread either.
        let is_answer = |entry: &Entry| entry.message.role == Role::Assistant && !entry.added && entry.seq != Seq(0);
        let is_called = self.entries.iter().take(first).skip(n_given).any(is_answer);
        (first > 0 && !is_called).then_some(first)
    }

    /// A node asks a model, with these instructions and tools. Instructions that are in force are not said again: what was
    /// sent stays sent, and what is new comes after it.
    pub(super) fn ask(&mut self, seq: Seq, request: &LlmExecutionRequest) {
        self.begin_turn();
        if let Some(system) = &request.system_prompt
            && self.system_prompt().as_ref() != Some(system)
        {
            self.say(seq, Arc::new(Message::text(Role::System, system)));
        }
        self.say(seq, Arc::new(Message::text(Role::User, &request.prompt)));
        let offer = || ToolOffer::of(seq, request);
        match self.offers.iter().position(|known| known.is_of(request)) {
            None => self.offers.extend(Some(offer()).filter(|offer| !offer.is_empty()).map(Arc::new)),
            // The try of a node that added them has failed, and nothing of it is left: this one adds them.
            Some(n) if n > 0 && self.end_of(self.offers[n].seq) == 0 => self.offers[n] = Arc::new(offer()),
            Some(_) => {}
        }
    }

    /// The tools of its calls so far, in the order in which they came. Each with the number of messages that came before: 0
    /// if those of its node are not there any more.
    pub(super) fn offers(&self) -> Vec<(usize, Arc<ToolOffer>)> {
        self.offers.iter().map(|offer| (self.end_of(offer.seq), offer.clone())).collect()
    }

    /// How many messages there are up to the last one of an event; 0 if there is none of it.
    fn end_of(&self, seq: Seq) -> usize {
        let n_after = self.entries.iter().rev().position(|entry| entry.seq == seq);
        n_after.map_or(0, |n| self.entries.len() - n)
    }

    /// The messages of the last turn of a model node, which may still run.
    pub fn turn(&self) -> Cow<'_, [Entry]> {
        match &self.own_turn {
            Some(own) => own.range(0..own.len()),
            None => self.entries.range(index(self.turn_from)..self.entries.len()),
        }
    }

    /// Returns the messages that the model reads in this call: all those before its first request.
    pub fn before(&self, call: CallId) -> Cow<'_, [Entry]> {
        self.entries.range(0..self.end_before(call))
    }

    /// How many messages the model reads in this call.
    pub(super) fn end_before(&self, call: CallId) -> usize {
        let added_since = self.entries.iter().rev().take_while(|entry| entry.added && entry.seq > call.0).count();
        self.entries.len() - added_since
    }

    /// The thread enters a node.
    pub(super) fn enter(&mut self, node: &NodeId) {
        self.node = Some(node.clone());
    }

    /// The conversation that a node with this context begins with; `None` where it is this one.
    pub(super) fn seen_by(&self, context: &NodeContext) -> Option<Self> {
        let mut seen = Self { node: self.node.clone(), read_by: self.read_by, ..Self::default() };
        match context {
            NodeContext::Shared => return None,
            // Kept by the thread.
            NodeContext::Fresh | NodeContext::Named(_) => {}
            NodeContext::From(nodes) => {
                // Instructions are not taken along: the node has its own.
                let is_wanted = |entry: &&Entry| {
                    entry.message.role != Role::System && entry.node.as_ref().is_some_and(|node| nodes.contains(node))
                };
                let mut wanted: Vec<_> = self.entries.iter().filter(is_wanted).collect();
                for own in nodes.iter().filter_map(|node| self.own_turns.get(node)) {
                    let Some(first) = own.iter().next() else { continue };
                    let at = wanted.iter().rposition(|entry| entry.seq < first.seq).map_or(0, |before| before + 1);
                    wanted.splice(at..at, own.iter().filter(is_wanted));
                }
                wanted.into_iter().for_each(|entry| seen.push(entry.clone()));
            }
        }
        seen.turn_from = seen.entries.len() as u64;
        seen.n_given = seen.turn_from;
        Some(seen)
    }

    /// A conversation that was kept, as that of the node which the thread is in now.
    pub(super) fn continued_in(&self, kept: Option<&Self>) -> Self {
        let kept = kept.cloned().unwrap_or_default();
        Self { node: self.node.clone(), read_by: self.read_by.max(kept.read_by), ..kept }
    }

    /// Returns this conversation with the messages of the other one after it.
    pub(super) fn followed_by(mut self, other: &Self) -> Self {
        other.entries.iter().for_each(|entry| self.push(entry.clone()));
        self.turn_from = self.entries.len() as u64;
        self
    }

    /// Returns this conversation with those messages after it that these nodes said in the running turn of the other one.
    pub(super) fn followed_by_turn(mut self, other: &Self, nodes: &[NodeId]) -> Self {
        let is_wanted = |entry: &&Entry| entry.node.as_ref().is_some_and(|node| nodes.contains(node));
        other.turn().iter().filter(is_wanted).for_each(|entry| self.push(entry.clone()));
        self.turn_from = self.entries.len() as u64;
        self
    }

    /// Makes the messages that the application added ordinary ones: they join no other conversation any more.
    pub(super) fn settle_added(&mut self) {
        if self.entries.iter().any(|entry| entry.added) {
            self.entries.all_mut().iter_mut().for_each(|entry| entry.added = false);
        }
    }

    /// Removes what the application added since a moment, for the node that has been running since then.
    pub(super) fn take_added(&mut self, since: Mark) -> Vec<Entry> {
        let (entries, from) = self.entries.tail_mut(index(since.n_entries).min(self.entries.len()));
        entries.extract_if(from.., |entry| entry.added).collect()
    }

    /// Adds messages that were taken out of another conversation.
    pub(super) fn put(&mut self, entries: Vec<Entry>) {
        entries.into_iter().for_each(|entry| self.push(entry));
        self.turn_from = self.entries.len() as u64;
    }

    /// A node whose conversation was another has ended: its turn joins this one, and what the application added to it.
    pub(super) fn join_turn(&mut self, node: &NodeId, other: &Self) {
        self.last_turn_is(None);
        self.own_turns.remove(node);
        self.read_by = self.read_with(other);
        let before = other.entries.iter().take(index(other.turn_from));
        before.filter(|entry| entry.added).for_each(|entry| self.push(entry.clone()));
        self.turn_from = self.entries.len() as u64;
        other.turn().iter().for_each(|entry| self.push(entry.clone()));
    }

    /// A node that had the other conversation has ended, and does not join this one: its turn is what was said last. If it
    /// `completed`, nodes may see what it said.
    pub(super) fn keep_own_turn(&mut self, node: &NodeId, other: &Self, completed: bool) {
        let said = other.turn().iter().map(|entry| Entry { added: false, ..entry.clone() }).collect::<Vec<_>>();
        let said = SharedList::from(said);
        if completed {
            self.own_turns.insert(node.clone(), said.clone());
        }
        self.last_turn_is(Some(said));
    }

    fn last_turn_is(&mut self, own: Option<SharedList<Entry>>) {
        let before = std::mem::replace(&mut self.own_turn, own);
        self.before_node.get_or_insert(before);
    }

    /// A node or sub-workflow whose conversation was another has ended: of it there is left what the application added.
    pub(super) fn join_added(&mut self, other: &Self) {
        self.read_by = self.read_with(other);
        other.entries.iter().filter(|entry| entry.added).for_each(|entry| self.push(entry.clone()));
    }

    /// Returns the entries that no model had read when the other conversation began, and none has read since.
    fn read_with(&self, other: &Self) -> Option<CallId> {
        if self.has_unread() { self.read_by } else { self.read_by.max(other.read_by) }
    }

    /// Records that a model is called with all messages so far.
    pub(super) fn read(&mut self, call: CallId) {
        self.read_by = Some(call);
    }

    /// The messages since `from` that the application added for the user and that no model has read, the last one first.
    pub(super) fn unread_since(&self, from: Seq) -> impl Iterator<Item = &Entry> {
        let from = self.read_by.map_or(from, |call| from.max(call.0.next()));
        let added = |entry: &&Entry| entry.added && entry.message.role == Role::User;
        self.entries.iter().rev().take_while(move |entry| entry.seq >= from).filter(added)
    }

    /// The event of the first message of the user since `from` that no model has read: what the application added, and what
    /// was said before the turn that runs.
    pub(super) fn first_unread_input(&self, from: Seq) -> Option<Seq> {
        let from = self.read_by.map_or(from, |call| from.max(call.0.next()));
        let turn_from = index(self.turn_from);
        let len = self.entries.len();
        let unread = self.entries.iter().rev().enumerate().map(|(after, entry)| (len - 1 - after, entry));
        let is_input = |(i, entry): &(usize, &Entry)| {
            let is_said = *i < turn_from && entry.node.is_some() && !entry.summary;
            entry.message.role == Role::User && (entry.added || is_said)
        };
        let inputs = unread.take_while(|(_, entry)| entry.seq >= from).filter(is_input);
        inputs.last().map(|(_, entry)| entry.seq)
    }

    /// Returns whether there are messages of the user that no model has read.
    pub(super) fn has_unread(&self) -> bool {
        self.unread_since(Seq(0)).next().is_some()
    }

    /// Removes these messages of the application: they begin a run.
    pub(super) fn remove_added(&mut self, seqs: &[Seq]) {
        self.entries.all_mut().retain(|entry| !(entry.added && seqs.contains(&entry.seq)));
    }

    /// Whether a message of the application is here.
    pub(super) fn has_added(&self, seq: Seq) -> bool {
        self.entries.iter().rev().any(|entry| entry.added && entry.seq == seq)
    }

    /// Removes the last answer, whose calls have no results yet, and what the application added after it: for an agent that
    /// is one of these calls.
    pub(super) fn leave_out_open_calls(&mut self) {
        let n_added = self.entries.iter().rev().take_while(|entry| entry.added).count();
        let Some(last) = self.entries.len().checked_sub(n_added + 1) else { return };
        if self.entries.get(last).is_some_and(|entry| entry.message.tool_calls().next().is_some()) {
            let (entries, at) = self.entries.tail_mut(last);
            entries.truncate(at);
        }
    }

    /// The message of the user that an event added.
    pub(super) fn message_of(&self, seq: Seq) -> Option<&Arc<Message>> {
        self.entries.get(self.place_of(seq)?).map(|entry| &entry.message)
    }

    fn place_of(&self, seq: Seq) -> Option<usize> {
        let is_it = |entry: &Entry| entry.seq == seq && entry.message.role == Role::User;
        let after = self.entries.iter().rev().position(is_it)?;
        Some(self.entries.len() - 1 - after)
    }

    /// The last answer of a model.
    pub(super) fn last_answer(&self) -> Option<&Arc<Message>> {
        self.entries.get(self.place_of_answer()?).map(|entry| &entry.message)
    }

    fn place_of_answer(&self) -> Option<usize> {
        let is_it = |entry: &Entry| !entry.added && entry.message.role == Role::Assistant;
        let after = self.entries.iter().rev().position(is_it)?;
        Some(self.entries.len() - 1 - after)
    }

    /// Another message in the place of one that a guardrail has checked.
    pub(super) fn replace_checked(&mut self, content: &CheckedContent, message: Arc<Message>) {
        let place = match content {
            CheckedContent::Input { message } => self.place_of(*message),
            CheckedContent::Answer {} => self.place_of_answer(),
            CheckedContent::ToolCall { .. } | CheckedContent::Candidate { .. } => None,
        };
        if let Some(place) = place {
            let (entries, at) = self.entries.tail_mut(place);
            if let Some(entry) = entries.get_mut(at) {
                entry.message = message;
            }
        }
    }

    /// Adds a message of a node at the end.
    pub(super) fn say(&mut self, seq: Seq, message: Arc<Message>) {
        self.push(Entry { seq, message, added: false, summary: false, node: self.node.clone() });
    }

    /// Adds a message of the application at the end.
    pub(super) fn add(&mut self, seq: Seq, message: Arc<Message>) {
        self.push(Entry { seq, message, added: true, summary: false, node: None });
    }

    fn push(&mut self, entry: Entry) {
        if entry.message.role == Role::System {
            self.system_at = Some(self.entries.len() as u64);
        }
        self.entries.push(entry);
    }

    /// Adds the answer of a model after what it had read.
    pub(super) fn answer(&mut self, seq: Seq, call: CallId, messages: Vec<Arc<Message>>) {
        self.insert(self.end_before(call), seq, messages);
    }

    /// Adds tool results after the answer that requested them, which is the last message of a node.
    pub(super) fn results(&mut self, seq: Seq, messages: Vec<Arc<Message>>) {
        let n_added = self.entries.iter().rev().take_while(|entry| entry.added).count();
        self.insert(self.entries.len() - n_added, seq, messages);
    }

    /// None of the messages is a system message, and none comes after the place: `system_at` stays true.
    fn insert(&mut self, at: usize, seq: Seq, messages: Vec<Arc<Message>>) {
        let node = self.node.clone();
        let of_node = |message| Entry { seq, message, added: false, summary: false, node: node.clone() };
        let (entries, at) = self.entries.tail_mut(at);
        entries.splice(at..at, messages.into_iter().map(of_node));
    }

    /// A node begins: returns the end as a position.
    pub(super) fn begin_node(&mut self) -> Mark {
        self.before_node = None;
        Mark { n_entries: self.entries.len() as u64, turn_from: self.turn_from }
    }

    /// The place of a mark after these replace all messages: after the replacement of the messages before it.
    pub(super) fn mark_after(&self, mark: Mark, items: &[ContextItem]) -> Mark {
        let after = |old: u64| {
            let mut n = 0;
            for item in items {
                match item {
                    ContextItem::Kept { from, .. } if *from >= old => break,
                    ContextItem::Kept { from, to } => n += (*to).min(old) - from,
                    ContextItem::New(_) => n += 1,
                }
            }
            n
        };
        Mark { n_entries: after(mark.n_entries), turn_from: after(mark.turn_from) }
    }

    /// A turn of a model node begins.
    pub(super) fn begin_turn(&mut self) {
        self.last_turn_is(None);
        self.turn_from = self.entries.len() as u64;
    }

    /// Removes the messages of a failed try of a node; those that the application added meanwhile stay.
    pub(super) fn remove_failed_try(&mut self, mark: Mark) {
        self.turn_from = mark.turn_from;
        if let Some(before) = self.before_node.take() {
            self.own_turn = before;
        }
        let (entries, from) = self.entries.tail_mut(index(mark.n_entries).min(self.entries.len()));
        entries.extract_if(from.., |entry| !entry.added).for_each(drop);
        if self.system_at.is_some_and(|at| at >= mark.n_entries) {
            let entries = (0_u64..).zip(self.entries.iter());
            let last = entries.filter(|(_, entry)| entry.message.role == Role::System).last();
            self.system_at = last.map(|(at, _)| at);
        }
    }

    /// Replaces all messages. A message that stays has the same event; the last turn begins where the
    /// first message of it that stays does. `summary` says whether the new ones are summaries.
    pub(super) fn replace(&mut self, seq: Seq, items: &[ContextItem], summary: bool) {
        let old = std::mem::take(self);
        let turn_from = index(old.turn_from);
        let mut of_turn = None;
        for item in items {
            match item {
                ContextItem::Kept { from, to } => {
                    let from = index(*from);
                    for (i, entry) in old.entries.range(from..index(*to)).iter().enumerate() {
                        if from + i >= turn_from {
                            of_turn.get_or_insert(self.entries.len());
                        }
                        self.push(entry.clone());
                    }
                }
                ContextItem::New(message) => {
                    let node = old.node.clone();
                    self.push(Entry { seq, message: message.clone(), added: false, summary, node });
                }
            }
        }
        self.turn_from = of_turn.unwrap_or(self.entries.len()) as u64;
        self.read_by = old.read_by;
        self.node = old.node;
        self.offers = old.offers;
        (self.own_turns, self.own_turn, self.before_node) = (old.own_turns, old.own_turn, old.before_node);
    }

    /// Returns the parts of which this conversation is made, where another was the earlier one. Both are in the order of
    /// their events, except for what was put in the place of other messages: that is new.
    pub(super) fn since(&self, earlier: &Self) -> Vec<SaidItem> {
        let earlier: Vec<_> = earlier.entries.iter().collect();
        let mut items = Vec::new();
        let mut next = 0;
        for entry in self.entries.iter() {
            let is_it = |old: &&Entry| old.seq == entry.seq && old.message == entry.message;
            let skipped = earlier[next..].iter().take_while(|old| old.seq < entry.seq).count();
            let found = earlier[next + skipped..].iter().take_while(|old| old.seq == entry.seq).position(is_it);
            match found {
                Some(n) => {
                    let at = (next + skipped + n) as u64;
                    next += skipped + n + 1;
                    match items.last_mut() {
                        Some(SaidItem::Kept { to, .. }) if *to == at => *to += 1,
                        _ => items.push(SaidItem::Kept { from: at, to: at + 1 }),
                    }
                }
                None => items.push(SaidItem::New {
                    node: entry.node.clone(),
                    summary: entry.summary,
                    message: entry.message.clone(),
                }),
            }
        }
        items
    }

    /// The conversation that another thread made of this one. `None` if it keeps messages that are not here.
    pub(super) fn rebuilt_from(&self, seq: Seq, items: &[SaidItem]) -> Option<Self> {
        let n = self.entries.len() as u64;
        // Usually it was only continued: what is there is shared.
        let (mut made, items) = match items {
            [SaidItem::Kept { from: 0, to }, new @ ..] if *to == n => (self.clone(), new),
            items => {
                let (node, offers) = (self.node.clone(), self.offers.clone());
                (Self { node, offers, ..Self::default() }, items)
            }
        };
        made.read_by = Some(CallId(seq));
        for item in items {
            match item {
                SaidItem::Kept { from, to } => {
                    let range = index(*from)..index(*to);
                    if range.is_empty() || *to > n {
                        return None;
                    }
                    self.entries.range(range).iter().for_each(|entry| made.push(entry.clone()));
                }
                SaidItem::New { node, summary, message } => {
                    let (node, summary, message) = (node.clone(), *summary, message.clone());
                    made.push(Entry { seq, message, added: false, summary, node });
                }
            }
        }
        made.turn_from = made.entries.len() as u64;
        Some(made)
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
