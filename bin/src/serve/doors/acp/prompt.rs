//! The content of a prompt as the input of a run.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use rethread::Json;

use super::error::invalid;

/// Returns the text of a prompt. Files that the client embeds are part of it, and links are named.
///
/// # Errors
/// For an empty prompt, and for images, sound and binary files, which `initialize` does not offer.
pub(super) fn input(prompt: &[ContentBlock]) -> Result<Json, Error> {
    let parts = prompt.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let text = parts.join("\n");
    if text.trim().is_empty() {
        return Err(invalid("prompt", "there is no text in it"));
    }
    Ok(Json::from(text))
}

fn text(block: &ContentBlock) -> Result<String, Error> {
    let unfit = |what: &str| Err(invalid("prompt", format!("{what} cannot be sent to this agent: send a text")));
    match block {
        ContentBlock::Text(block) => Ok(block.text.clone()),
        ContentBlock::ResourceLink(link) => Ok(format!("[{}]({})", link.name, link.uri)),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(file) => {
                Ok(format!("<file uri=\"{}\">\n{}\n</file>", file.uri, file.text))
            }
            _ => unfit("a binary file"),
        },
        ContentBlock::Image(_) => unfit("an image"),
        ContentBlock::Audio(_) => unfit("sound"),
        _ => unfit("this content"),
    }
}
