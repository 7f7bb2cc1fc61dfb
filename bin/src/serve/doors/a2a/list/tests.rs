use super::*;

#[test]
fn token_of_a_page_is_its_last_task() {
    let text = "1700000000123456-01890000-0000-7000-8000-000000000001-17";
    assert_eq!(read_token(text).map(token).as_deref(), Some(text));
    for other in ["", "-", "17", "17-", "x-01890000-0000-7000-8000-000000000001-17", "17-01890000"] {
        assert_eq!(read_token(other), None, "{other}");
    }
}
