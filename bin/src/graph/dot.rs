//! A picture as a Graphviz digraph.
//!
//! Nodes are named by numbers. Text of the definition appears only in quoted strings, in which `"` and
//! `\` are escaped, and `&`, which would begin an entity (<https://graphviz.org/doc/info/lang.html>).

use std::fmt::Write;

use super::picture::{Arrow, ArrowKind, Box, Part, Picture, Shape, lines_of};

/// The digraph, with a line break at its end.
pub(super) fn text(picture: &Picture) -> String {
    let mut text = format!("digraph {} {{\n", label([picture.title.as_str()]));
    for what in ["rankdir=TB", "node [fontname=\"sans-serif\"]", "edge [fontname=\"sans-serif\", fontsize=10]"] {
        line(&mut text, "  ", what);
    }
    for (i, part) in picture.parts.iter().enumerate() {
        draw(&mut text, i, part);
    }
    for arrow in &picture.arrows {
        line(&mut text, "  ", &draw_arrow(arrow));
    }
    text.push_str("}\n");
    text
}

fn line(text: &mut String, indent: &str, what: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{indent}{what}");
}

fn draw(text: &mut String, i: usize, part: &Part) {
    let mut indent = "  ";
    if let Some(name) = &part.name {
        line(text, indent, &format!("subgraph cluster_{i} {{"));
        indent = "    ";
        line(text, indent, &format!("label={}", label([name.as_str()])));
    }
    for shown in &part.boxes {
        line(text, indent, &draw_box(shown));
    }
    for arrow in &part.arrows {
        line(text, indent, &draw_arrow(arrow));
    }
    if part.name.is_some() {
        line(text, "  ", "}");
    }
}

fn draw_box(shown: &Box) -> String {
    let shape = match shown.shape {
        Shape::Entry => return format!("n{} [shape=point, label=\"\"]", shown.number),
        Shape::Llm => "box, style=rounded",
        Shape::Tool => "component",
        Shape::Person => "house",
        Shape::Processor => "note",
        Shape::Route => "diamond",
        Shape::Fork | Shape::Join => "hexagon",
        Shape::LoopStart => "trapezium",
        Shape::LoopEnd => "invtrapezium",
        Shape::SubWorkflow => "box3d",
        Shape::Start => "oval",
        Shape::End => "doublecircle",
    };
    // A double circle has its second border already.
    let border = if shown.is_end && shown.shape != Shape::End { ", peripheries=2" } else { "" };
    let text = label(shown.lines.iter().map(String::as_str));
    format!("n{} [shape={shape}{border}, label={text}]", shown.number)
}

fn draw_arrow(arrow: &Arrow) -> String {
    let mut attributes = Vec::new();
    if let Some(text) = &arrow.label {
        attributes.push(format!("label={}", label([text.as_str()])));
    }
    match arrow.kind {
        ArrowKind::On => {}
        ArrowKind::OnError => attributes.push("style=dashed".into()),
        // A back edge does not influence the ranks.
        ArrowKind::Again => attributes.push("constraint=false".into()),
        ArrowKind::Into => attributes.push("style=bold".into()),
    }
    let attributes = if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
    format!("n{} -> n{}{attributes}", arrow.from, arrow.to)
}

fn label<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<_> = parts.into_iter().flat_map(lines_of).map(|line| escaped(&line)).collect();
    format!("\"{}\"", lines.join("\\n"))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}
