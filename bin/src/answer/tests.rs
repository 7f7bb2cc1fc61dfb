use expect_test::expect;
use rethread_events::message::SourceKind;

use super::*;

fn text(text: &str, annotations: Vec<Annotation>) -> Part {
    Part::Text { text: text.into(), signature: None, annotations }
}

fn source(url: &str, title: &str, place: Option<(u64, u64)>) -> Annotation {
    let (start, end) = place.unzip();
    let (url, title) = (Some(url.to_owned()), Some(title.to_owned()));
    Annotation { url, title, start, end, ..Annotation::new(SourceKind::Url) }
}

fn media_of(media_type: &str, data: &str, name: Option<&str>) -> Media {
    Media { name: name.map(str::to_owned), ..Media::inline(Some(media_type), data) }
}

fn answer() -> Message {
    let content = vec![
        text("Grün. ", vec![source("https://a.example/1", "First", Some((0, 4)))]),
        Part::Image(media_of("image/png", "aGVsbG8=", Some("../../etc/\u{202e}leaf.png"))),
        text(
            "And blue.",
            vec![source("https://b.example/", "Second\u{1b}[2J", None), source("https://a.example/1", "First", None)],
        ),
        Part::Audio(Media::at("https://c.example/sound")),
    ];
    Message { role: Role::Assistant, content }
}

#[test]
fn places_are_those_in_the_joined_text() {
    let message = answer();
    let places: Vec<_> = placed(&message.content, 10).iter().map(|placed| (placed.start, placed.end)).collect();
    assert_eq!(places, [(10, 14), (16, 25), (16, 25)]);
    // A place outside of the text is moved to its end.
    let parts = [text("abc", vec![source("u", "t", Some((2, 90))), source("u", "t", Some((9, 1)))])];
    let places: Vec<_> = placed(&parts, 0).iter().map(|placed| (placed.start, placed.end)).collect();
    assert_eq!(places, [(2, 3), (3, 3)]);
}

#[test]
fn lines_name_each_source_once_and_each_file() {
    expect![[r#"
        source [1] First https://a.example/1
        source [2] Second⟨U+001B⟩[2J https://b.example/
        image ../../etc/⟨U+202E⟩leaf.png, image/png, 5 bytes
        audio, application/octet-stream, https://c.example/sound"#]]
    .assert_eq(&lines(&answer()).join("\n"));
    assert_eq!(counts(&answer()), "2 sources, 1 image, 1 recording");
    assert_eq!(counts(&Message::text(Role::Assistant, "no")), "");
}

#[test]
fn file_name_has_no_folder_and_the_extension_of_its_type() {
    let name = |media_type: &str, name: Option<&str>| {
        let media = media_of(media_type, "", name);
        Made { part: 0, kind: "document", media: &media }.file_name("answer-3.1")
    };
    assert_eq!(name("image/png", None), "answer-3.1.png");
    assert_eq!(name("image/jpeg", Some("a/b/photo.JPEG")), "photo.JPEG");
    assert_eq!(name("image/png", Some("photo.html")), "photo.html.png");
    assert_eq!(name("text/html; charset=utf-8", Some("..\\..\\page")), "page.html");
    assert_eq!(name("application/x-unknown", Some("../.bashrc")), "bashrc.bin");
    assert_eq!(name("application/pdf", Some("..")), "answer-3.1.pdf");
    assert_eq!(name("not a type\r\nX: y", Some("a\r\nb\0.txt")), "a__b_.txt");
    assert_eq!(name("application/octet-stream", Some("report.xlsx")), "report.xlsx");
    assert!(name("image/png", Some(&"ä".repeat(500))).len() <= NAME_BYTES_MAX + 4);
}

#[test]
fn bytes_are_read_from_each_form_of_base64() {
    for data in ["+/8=", "+/8", "-_8", "-_8="] {
        let media = media_of("image/png", data, None);
        let made = Made { part: 0, kind: "image", media: &media };
        assert_eq!((made.bytes(), made.n_bytes()), (Some(vec![0xfb, 0xff]), Some(2)), "{data}");
    }
    let media = media_of("image/png", "not base64!", None);
    assert_eq!(Made { part: 0, kind: "image", media: &media }.bytes(), None);
}
