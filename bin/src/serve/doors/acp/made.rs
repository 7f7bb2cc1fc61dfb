//! Sources and media of an answer as content of the protocol.

use agent_client_protocol::v1::schema::{
    AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent,
    ResourceLink,
};
use rethread::{Message, Seq, ThreadId};

use crate::answer::{self, Made};

/// Returns the media of an answer, which the event `seq` of the thread brought, and after them links to its sources.
pub(super) fn content(message: &Message, thread: ThreadId, seq: Seq) -> Vec<ContentBlock> {
    let media = answer::media(message).filter_map(|made| of_media(&made, thread, seq));
    let sources = answer::sources(message).into_iter().filter_map(|source| {
        let url = source.url.as_deref()?;
        let link = ResourceLink::new(source.title.as_deref().unwrap_or(url), url);
        Some(ContentBlock::ResourceLink(link.title(source.title.clone())))
    });
    media.chain(sources).collect()
}

fn of_media(made: &Made<'_>, thread: ThreadId, seq: Seq) -> Option<ContentBlock> {
    let (part, media_type) = (made.part, made.media_type().to_owned());
    let name = made.file_name(&format!("{}-{seq}-{part}", made.kind));
    let Some(data) = made.media.data.as_deref() else {
        let link = ResourceLink::new(name, made.media.url.as_deref()?);
        return Some(ContentBlock::ResourceLink(link.mime_type(media_type)));
    };
    Some(match made.kind {
        "image" => ContentBlock::Image(ImageContent::new(data, media_type)),
        "audio" => ContentBlock::Audio(AudioContent::new(data, media_type)),
        _ => {
            let address = format!("rethread://threads/{thread}/events/{seq}/media/{part}/{name}");
            let blob = BlobResourceContents::new(data, address).mime_type(media_type);
            ContentBlock::Resource(EmbeddedResource::new(EmbeddedResourceResource::BlobResourceContents(blob)))
        }
    })
}
