use super::*;

#[test]
fn parts_contain_the_whole_text_and_fit_the_screen() {
    assert_eq!(of("", 80, 24), [""]);
    assert_eq!(of("short", 80, 24), ["short"]);
    // Two lines of ten columns fit above the lines that stay free.
    assert_eq!(of("0123456789abcdefghijX", 10, 6), ["0123456789abcdefghij", "X"]);
    assert_eq!(of("a\nb\nc\nd", 10, 6), ["a\nb\n", "c\nd"]);
    assert_eq!(of("語語語語語語語語語語語", 10, 6), ["語語語語語語語語語語", "語"]);
    assert_eq!(of("\t\t\t", 10, 6), ["\t\t", "\t"]);
    let long: String = (0..5_000).map(|n| format!("{n} ⟨U+202E⟩ 語\n")).collect();
    for (columns, lines) in [(0, 0), (1, 1), (10, 6), (80, 24), (300, 100)] {
        assert_eq!(of(&long, columns, lines).concat(), long, "{columns} by {lines}");
    }
}
