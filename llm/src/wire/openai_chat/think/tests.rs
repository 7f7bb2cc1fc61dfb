use proptest::prelude::*;

use super::*;

/// The thoughts and the text of a text that comes in these pieces.
fn split<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
    let (mut thoughts, mut text) = (String::new(), String::new());
    let mut take = |piece: Piece<'_>| match piece {
        Piece::Reasoning(piece) => thoughts.push_str(piece),
        Piece::Text(piece) | Piece::Refusal(piece) => text.push_str(piece),
    };
    let mut tag = ThinkTag::default();
    pieces.into_iter().for_each(|piece| tag.push(piece, &mut take));
    tag.end(&mut take);
    (thoughts, text)
}

#[test]
fn thoughts_are_split_off_a_text() {
    for (whole, thoughts, text) in [
        ("<think>\nHm. \n Hm.\n</think>\n\nHi.", "Hm. \n Hm.", "Hi."),
        ("Hm.\n</think>\nHi.", "Hm.", "Hi."),
        ("\n <think>\n\n</think>\n\nHi. \n", "", "Hi. \n"),
        ("</think>Hi.", "", "Hi."),
        (" Hi. <think> is a tag.", "", " Hi. <think> is a tag."),
        ("<think>Hm.</think>Hi. <think>no</think>", "Hm.", "Hi. <think>no</think>"),
        ("<think>cut of</thi", "cut of</thi", ""),
        ("<think>a </thin b</think>c", "a </thin b", "c"),
        ("<thi", "", "<thi"),
        ("", "", ""),
    ] {
        assert_eq!(split([whole]), (thoughts.to_owned(), text.to_owned()), "{whole}");
    }
}

#[test]
fn thoughts_arrive_while_the_model_thinks() {
    let mut seen = Vec::new();
    let mut tag = ThinkTag::default();
    for piece in ["<th", "ink>\n", "Hm", ". Hm", ".\n</", "think>", "\nHi", "."] {
        tag.push(piece, &mut |piece| {
            seen.push(match piece {
                Piece::Reasoning(text) => format!("thought {text}"),
                Piece::Text(text) | Piece::Refusal(text) => format!("text {text}"),
            });
        });
    }
    assert_eq!(seen, ["thought Hm", "thought . Hm", "thought .", "text Hi", "text ."]);
}

proptest! {
    #[test]
    fn result_does_not_depend_on_the_cuts(words in prop::collection::vec("<think>|</think>|</th|ink>|é| |\n|a", 0..12)) {
        let whole = words.concat();
        let chars: Vec<String> = whole.chars().map(String::from).collect();
        let by_char = split(chars.iter().map(String::as_str));
        prop_assert_eq!(&by_char, &split([whole.as_str()]));
        prop_assert_eq!(by_char, split(words.iter().map(String::as_str)));
    }
}
