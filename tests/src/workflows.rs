//! Workflows that several tests run.

/// Answers with a text, in parts, and knows a name.
pub const CHAT: &str = r#"
version: "1"
name: chat
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      extra:
        script:
          answers: [{match: my name, text: You are Ada.}]
          otherwise: {chunks: ["Hello", ", ", "Ada!"]}
"#;
