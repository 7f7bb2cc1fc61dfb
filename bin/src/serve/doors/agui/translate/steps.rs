//! Nodes as steps. The names of open steps are unique: a node that is open twice has a number after its name.

use rethread::NodeId;

/// The nodes that are open, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Steps {
    open: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    node: NodeId,
    /// How many loops and sub-workflows it is in.
    depth: usize,
    name: String,
}

impl Steps {
    /// Begins a step and returns its name.
    pub(super) fn begin(&mut self, node: &NodeId, depth: usize) -> String {
        let is_free = |name: &String| self.open.iter().all(|step| step.name != *name);
        let names = std::iter::once(node.to_string()).chain((2_u32..).map(|n| format!("{node}#{n}")));
        let name = names.into_iter().find(is_free).unwrap_or_else(|| node.to_string());
        self.open.push(Step { node: node.clone(), depth, name: name.clone() });
        name
    }

    /// Ends the step of a node and those that are in it. Returns their names, the innermost first; none if it is not open.
    pub(super) fn end(&mut self, node: &NodeId) -> impl Iterator<Item = String> + use<> {
        let found = self.open.iter().rposition(|step| step.node == *node);
        self.cut(found.unwrap_or(self.open.len()))
    }

    /// Ends the steps that are deeper than this.
    pub(super) fn end_deeper(&mut self, depth: usize) -> impl Iterator<Item = String> + use<> {
        self.cut(self.open.iter().position(|step| step.depth > depth).unwrap_or(self.open.len()))
    }

    fn cut(&mut self, from: usize) -> impl Iterator<Item = String> + use<> {
        self.open.split_off(from).into_iter().rev().map(|step| step.name)
    }
}
