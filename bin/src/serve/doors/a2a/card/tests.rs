use super::*;

#[test]
fn address_is_a_scheme_and_a_host() {
    for address in ["http://127.0.0.1:7117", "https://agents.example.com", "http://[::1]:7117"] {
        assert!(is_address(address), "{address}");
    }
    for other in
        ["", "https://", "agents.example.com", "https://a/b", "https://a?b", "ftp://a", "https://a b", "https://u@a"]
    {
        assert!(!is_address(other), "{other}");
    }
}

#[test]
fn name_is_one_part_of_a_path() {
    assert_eq!(escaped("greeter-2"), "greeter-2");
    assert_eq!(escaped("team/chat"), "team%2Fchat");
    assert_eq!(escaped("a b%\u{e9}"), "a%20b%25%C3%A9");
}
