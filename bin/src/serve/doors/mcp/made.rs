//! Sources and media of an answer as content of a result.

use rethread::{Message, ThreadId};
use rmcp::model::{ContentBlock, ProtocolVersion, Resource, ResourceContents};

use crate::answer::{self, Made};

/// The most bytes of all media of a result, in base64.
const MEDIA_BYTES_MAX: usize = 8 << 20;

/// Returns the media of an answer of the thread, and after them links to its sources, as far as this version of the protocol
/// has them.
pub(super) fn content(message: &Message, thread: ThreadId, version: &ProtocolVersion) -> Vec<ContentBlock> {
    let has_audio = *version >= ProtocolVersion::V_2025_03_26;
    let has_links = *version >= ProtocolVersion::V_2025_06_18;
    let (mut content, mut room, mut n_left_out) = (Vec::new(), MEDIA_BYTES_MAX, 0_usize);
    for made in answer::media(message) {
        let n_bytes = made.media.data.as_ref().map_or(0, |data| data.len());
        let block = of_media(&made, thread).filter(|block| match block {
            ContentBlock::Audio(_) => has_audio,
            ContentBlock::ResourceLink(_) => has_links,
            _ => true,
        });
        match block {
            Some(block) if n_bytes <= room => {
                room -= n_bytes;
                content.push(block);
            }
            _ => n_left_out += 1,
        }
    }
    if n_left_out > 0 {
        let files = crate::output::count(n_left_out as u64, "file", "files");
        content
            .push(ContentBlock::text(format!("{files} of the answer left out: `rethread media {thread}` lists them")));
    }
    let link = |url: &str, title: Option<&str>| {
        let link = Resource::new(url, title.unwrap_or(url));
        ContentBlock::resource_link(match title {
            Some(title) => link.with_title(title),
            None => link,
        })
    };
    let sources = answer::sources(message).into_iter().filter(|_| has_links);
    content.extend(sources.filter_map(|source| Some(link(source.url.as_deref()?, source.title.as_deref()))));
    content
}

fn of_media(made: &Made<'_>, thread: ThreadId) -> Option<ContentBlock> {
    let (part, media_type) = (made.part, made.media_type());
    let name = made.file_name(&format!("{}-{part}", made.kind));
    let Some(data) = made.media.data.as_deref() else {
        let link = Resource::new(made.media.url.as_deref()?, name).with_mime_type(media_type);
        return Some(ContentBlock::resource_link(link));
    };
    Some(match made.kind {
        "image" => ContentBlock::image(data, media_type),
        "audio" => ContentBlock::audio(data, media_type),
        _ => {
            let address = format!("rethread://threads/{thread}/media/{part}/{name}");
            ContentBlock::resource(ResourceContents::blob(data, address).with_mime_type(media_type))
        }
    })
}
