use super::*;

#[test]
fn only_a_server_is_found_in_a_lock() {
    let address = |text| parse(text).map(|(address, pid)| format!("{address} {pid}"));
    assert_eq!(
        address("rethread serve at http://127.0.0.1:7117, pid 12\n").as_deref(),
        Some("http://127.0.0.1:7117/ 12")
    );
    assert_eq!(address("rethread serve at http://0.0.0.0:80, pid 1\n").as_deref(), Some("http://127.0.0.1/ 1"));
    assert_eq!(address("rethread serve at http://[::]:8000, pid 1").as_deref(), Some("http://[::1]:8000/ 1"));
    for other in
        ["", "rethread run, pid 12\n", "rethread serve at nowhere, pid 1", "rethread serve at http://127.0.0.1:1"]
    {
        assert_eq!(address(other), None, "{other}");
    }
}
