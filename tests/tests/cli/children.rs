//! Threads that a node starts, at the command line.

use crate::{Scene, id_of};

const ORDER: &str = "
version: '1'
name: order
nodes:
  - {id: begin, start_thread: {workflow: report, inputs: {topic: '{{ input }}'}, into: report}}
  - {id: collect, wait: {thread: '{{ report.thread_id }}'}}
workflows:
  report:
    nodes: [{id: say, context_processor: {processor: extract, config: {variable: said, expression: \"'about ' ~ topic\"}}}]
";

#[test]
fn run_prints_the_child_and_show_and_tree_name_its_parent() {
    let scene = Scene::new();
    scene.write("order.yaml", ORDER);
    let run = scene.run("run order.yaml --input tea").ok();
    assert!(run.stderr.contains("started") && run.stderr.contains("for the end of thread"), "{run}");
    let run = scene.run("run order.yaml --input milk --json").ok().json();
    assert_eq!(run["output"], "about milk");
    let state = scene.run(&format!("replay {} --json", id_of(&run))).ok().json();
    let child = state["variables"]["report"]["thread_id"].as_str().unwrap().to_owned();
    let parent = format!("{} at ", id_of(&run));
    let shown = scene.run(&format!("show {child}")).ok();
    assert!(
        shown.stdout.contains(&format!("started by  {parent}")) && shown.stdout.contains("order/report"),
        "{shown}"
    );
    let tree = scene.run(&format!("tree {child}")).ok();
    assert!(tree.stdout.starts_with(&format!("started by {parent}")), "{tree}");
    let threads = scene.run("threads").ok();
    assert!(threads.stdout.contains(&child), "{threads}");
    let explained = scene.run(&format!("explain {}", id_of(&run))).ok();
    assert!(
        explained.stdout.contains("starts report") && explained.stdout.contains("for the end of thread"),
        "{explained}"
    );
    scene.run("verify").ok();
}
