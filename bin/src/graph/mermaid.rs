//! A picture as a Mermaid flowchart.
//!
//! Nodes are named by numbers. Text of the definition appears only in quoted labels, where everything but
//! letters, digits, spaces and a few marks is written as an entity (<https://mermaid.js.org/syntax/flowchart.html>,
//! "Entity codes to escape characters"). So no text of a workflow can mean anything to Mermaid.

use std::fmt::Write;

use super::picture::{Arrow, ArrowKind, Box, Part, Picture, Shape, lines_of};

/// The flowchart, with a line break at its end.
pub(super) fn text(picture: &Picture) -> String {
    let title = lines_of(&picture.title).join(" ");
    // A JSON text is a YAML text, too.
    let title = serde_json::Value::from(title);
    let mut text = format!("---\ntitle: {title}\n---\nflowchart TD\n");
    for (i, part) in picture.parts.iter().enumerate() {
        draw(&mut text, i, part);
    }
    for arrow in &picture.arrows {
        line(&mut text, "    ", &draw_arrow(arrow));
    }
    let ends: Vec<_> = picture.parts.iter().flat_map(|part| &part.boxes).filter(|shown| shown.is_end).collect();
    if !ends.is_empty() {
        let ends: Vec<_> = ends.iter().map(|shown| format!("n{}", shown.number)).collect();
        line(&mut text, "    ", "classDef ending stroke-width:3px");
        line(&mut text, "    ", &format!("class {} ending", ends.join(",")));
    }
    text
}

fn line(text: &mut String, indent: &str, what: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{indent}{what}");
}

fn draw(text: &mut String, i: usize, part: &Part) {
    let mut indent = "    ";
    if let Some(name) = &part.name {
        line(text, indent, &format!("subgraph w{i}[\"{}\"]", label([name.as_str()])));
        indent = "        ";
    }
    for shown in &part.boxes {
        line(text, indent, &draw_box(shown));
    }
    for arrow in &part.arrows {
        line(text, indent, &draw_arrow(arrow));
    }
    if part.name.is_some() {
        line(text, "    ", "end");
    }
}

fn draw_box(shown: &Box) -> String {
    let (open, close) = match shown.shape {
        Shape::Entry => return format!("n{}(( ))", shown.number),
        Shape::Llm => ("(\"", "\")"),
        Shape::Tool => ("[/\"", "\"/]"),
        Shape::Person => (">\"", "\"]"),
        Shape::Processor => ("[\\\"", "\"\\]"),
        Shape::Route => ("{\"", "\"}"),
        Shape::Fork | Shape::Join => ("{{\"", "\"}}"),
        Shape::LoopStart => ("[/\"", "\"\\]"),
        Shape::LoopEnd => ("[\\\"", "\"/]"),
        Shape::SubWorkflow => ("[[\"", "\"]]"),
        Shape::Start => ("([\"", "\"])"),
        Shape::End => ("(((\"", "\")))"),
    };
    format!("n{}{open}{}{close}", shown.number, label(shown.lines.iter().map(String::as_str)))
}

fn draw_arrow(arrow: &Arrow) -> String {
    let line = match arrow.kind {
        ArrowKind::On | ArrowKind::Again => "-->",
        ArrowKind::OnError => "-.->",
        ArrowKind::Into => "==>",
    };
    let text = arrow.label.as_deref().map(|text| format!("|\"{}\"|", label([text]))).unwrap_or_default();
    format!("n{} {line}{text} n{}", arrow.from, arrow.to)
}

fn label<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<_> = parts.into_iter().flat_map(lines_of).map(|line| escaped(&line)).collect();
    // An empty label would be no label.
    if lines.iter().all(|line| line.trim().is_empty()) { "#160;".into() } else { lines.join("<br/>") }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Mermaid refuses to draw text that begins like a list item in Markdown: `1. a`, `- a`.
    let mut may_be_an_item = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let before_space = chars.peek() == Some(&' ');
        match c {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '.' | '-' | '+' if !(may_be_an_item && before_space) => escaped.push(c),
            ':' if before_space => escaped.push(c),
            ' ' | '_' | ',' | '=' | '\'' | '!' | '?' | '“' | '”' | '…' => escaped.push(c),
            _ if c.is_alphanumeric() => escaped.push(c),
            _ => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
        }
        may_be_an_item &= c.is_ascii_digit() || c == ' ';
    }
    escaped
}
