//! A thread and all its branches, run side by side in memory, the way a runtime does it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::event::{BranchOf, ReplacedBranch};

/// Threads by their names: the root is `-`, its branches `0`, `1` …, those of branch 0 `0.0` …
#[derive(Clone)]
pub(super) struct Family {
    pub(super) threads: BTreeMap<String, Bench>,
    pub(super) now: Time,
    /// Threads whose names others have taken, in a later round of a loop.
    past: Vec<Bench>,
    out: String,
}

impl Family {
    pub(super) fn new(yaml: &str, input: impl Into<Json>) -> Self {
        let root = Bench::new(yaml, input);
        let (now, threads) = (root.now, BTreeMap::from([("-".to_owned(), root)]));
        let mut family = Self { now, threads, past: Vec::new(), out: String::new() };
        family.settle();
        family
    }

    pub(super) fn root(&self) -> &Bench {
        &self.threads["-"]
    }

    pub(super) fn of(&mut self, name: &str) -> &mut Bench {
        self.threads.get_mut(name).unwrap_or_else(|| panic!("there is no thread {name}"))
    }

    /// Does something to one thread, and what follows from it to all.
    pub(super) fn with(&mut self, name: &str, act: impl FnOnce(&mut Bench)) {
        act(self.of(name));
        self.settle();
    }

    pub(super) fn tick_after_ms(&mut self, name: &str, ms: u64) {
        self.now = self.now.plus_ms(ms);
        writeln!(self.out, "    {ms} ms later").unwrap();
        for bench in self.threads.values_mut() {
            bench.now = self.now;
        }
        self.with(name, |bench| bench.give(Input::Tick));
    }

    pub(super) fn note(&mut self, text: impl std::fmt::Display) {
        writeln!(self.out, "    {text}").unwrap();
    }

    /// Does what a runtime does: begins the branches that are wanted, reports those that have ended and what they spend,
    /// tells them what is left, cancels those that are not needed.
    pub(super) fn settle(&mut self) {
        while self.settle_once() {}
        self.take_output();
    }

    fn settle_once(&mut self) -> bool {
        for name in self.threads.keys().cloned().collect::<Vec<_>>() {
            self.take_output();
            for effect in self.threads[&name].thread.effects() {
                let Effect::RunBranch(run) = effect else { continue };
                let child = child_name(&name, run.index);
                match self.named(run.child) {
                    None => {
                        if self.close_earlier(&name, &child) {
                            return true;
                        }
                        let begun = self.begin(&name, &run);
                        self.threads.insert(child, begun);
                        return true;
                    }
                    Some(known) => {
                        if self.share_budget(&name, &run, &known) {
                            return true;
                        }
                        if let Some(outcome) = self.threads[&known].state().branch_outcome() {
                            let (index, child) = (run.index, run.child);
                            self.of(&name).give(Input::BranchEnded { index, child, outcome });
                            return true;
                        }
                    }
                }
            }
            if self.count_late(&name) {
                return true;
            }
            let open: Vec<_> = self.threads[&name].state().running_branches().cloned().collect();
            let id = self.threads[&name].state().thread();
            let orphan = self.threads.iter().find(|(_, bench)| {
                let owner = bench.state().branch().and_then(|branch| branch.owner);
                let is_child = owner.is_some_and(|(owner, _)| owner == id);
                is_child && !bench.state().is_ended() && open.iter().all(|run| run.child != bench.state().thread())
            });
            if let Some((orphan, _)) = orphan {
                let orphan = orphan.clone();
                self.of(&orphan).give(Input::Cancel { reason: Some("not needed".into()) });
                return true;
            }
        }
        false
    }

    /// Ends an earlier thread with the name of a branch that is to begin, and its branches. Returns whether that changed anything.
    fn close_earlier(&mut self, owner: &str, branch: &str) -> bool {
        let below = format!("{branch}.");
        let of_branch = |name: &&String| *name == branch || name.starts_with(&below);
        let names: Vec<_> = self.threads.keys().filter(of_branch).cloned().collect();
        for name in &names {
            let state = self.threads[name].state();
            // Its hooks go on.
            if !state.is_ended() && state.hooks().is_none() {
                self.of(name).give(Input::Cancel { reason: Some("not needed".into()) });
                return true;
            }
        }
        if names.iter().rev().any(|name| self.count_late(name)) || self.count_late(owner) {
            return true;
        }
        self.take_output();
        self.past.extend(names.iter().filter_map(|name| self.threads.remove(name)));
        false
    }

    /// Reports to the owner of branches what those spent that had ended for it before. Returns whether that changed anything.
    fn count_late(&mut self, owner: &str) -> bool {
        for (child, of) in self.threads[owner].state().uncounted_branches().clone() {
            let Some(branch) = self.named(child).map(|name| &self.threads[&name]) else { continue };
            if let Some(outcome) = branch.state().branch_outcome() {
                let n_events = self.threads[owner].log.len();
                self.of(owner).give(Input::BranchEnded { index: of.index, child, outcome });
                if self.threads[owner].log.len() > n_events {
                    return true;
                }
            }
        }
        false
    }

    /// Reports to the owner of a branch what that has spent, and to the branch what is left. Returns whether that changed
    /// anything.
    fn share_budget(&mut self, owner: &str, run: &BranchRun, branch: &str) -> bool {
        let n_events = |family: &Self| [owner, branch].map(|name| family.threads[name].log.len());
        let before = n_events(self);
        if let Some((_, index, totals)) = self.threads[branch].state().spending_for_parent() {
            self.of(owner).give(Input::BranchSpent { index, child: run.child, totals });
        }
        let state = self.threads[owner].state();
        if let Some(left) = state.branch_run(run.index).and_then(|run| state.left_for(run)) {
            self.of(branch).give(Input::BudgetLeft(left));
        }
        n_events(self) != before
    }

    fn named(&self, id: ThreadId) -> Option<String> {
        self.threads.iter().find(|(_, bench)| bench.state().thread() == id).map(|(name, _)| name.clone())
    }

    fn begin(&self, owner: &str, run: &BranchRun) -> Bench {
        let owner = &self.threads[owner];
        let origin = self.named(run.from.0).map_or(owner, |name| &self.threads[&name]);
        let seq = usize::try_from(run.from.1.0).unwrap();
        let branch = Some(BranchOf { owner: owner.state().thread(), index: run.index });
        let fork =
            Fork { branch, globals: (*run.globals).clone(), left: owner.state().left_for(run), ..Fork::default() };
        origin.fork_as(run.child, seq, fork, self.now)
    }

    /// A fork of the root with forks of the branches that run, at the moment of event `seq` of the root.
    pub(super) fn fork_root(&self, seq: usize, seqs: impl Fn(&str) -> Option<u64>) -> Bench {
        let at = self.root().fold_to(seq);
        let open: Vec<_> = at.running_branches().cloned().collect();
        let branches = open.iter().map(|run| {
            let name = child_name("-", run.index);
            let child = ThreadId::from_bytes([100 + u8::try_from(run.index).unwrap(); 16]);
            ReplacedBranch { path: vec![run.index], child, seq: seqs(&name).map(Seq) }
        });
        let fork = Fork { branches: branches.collect(), ..Fork::default() };
        self.root().fork_as(ThreadId::from_bytes([9; 16]), seq, fork, self.now)
    }

    /// The family of a fork of the root; the branches of the old one are in it as `old…`.
    pub(super) fn without_root(&self, root: Bench) -> Self {
        let old = self.threads.iter().filter(|(name, _)| *name != "-");
        let mut threads: BTreeMap<_, _> = old.map(|(name, bench)| (format!("old{name}"), bench.clone())).collect();
        threads.insert("-".to_owned(), root);
        Self { threads, now: self.now, past: Vec::new(), out: String::new() }
    }

    fn take_output(&mut self) {
        for (name, bench) in &mut self.threads {
            for line in std::mem::take(&mut bench.out).lines() {
                writeln!(self.out, "{name:<3} {line}").unwrap();
            }
        }
    }

    #[track_caller]
    pub(super) fn check(mut self, expected: Expect) {
        self.take_output();
        for (name, bench) in &self.threads {
            writeln!(self.out, "=> {name} {}", bench.state().status()).unwrap();
        }
        let output = self.root().state().output().map(|output| output.0.to_string()).unwrap_or_default();
        writeln!(self.out, "output {output}").unwrap();
        expected.assert_eq(&self.out);
        self.laws_hold();
    }

    pub(super) fn laws_hold(&self) {
        for bench in self.threads.values() {
            laws::hold(bench);
        }
        laws::usage_adds_up(&self.threads.values().chain(&self.past).collect::<Vec<_>>());
    }
}

fn child_name(owner: &str, index: u32) -> String {
    if owner == "-" { index.to_string() } else { format!("{owner}.{index}") }
}
