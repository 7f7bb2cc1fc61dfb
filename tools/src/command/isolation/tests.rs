use std::net::TcpListener;

use serde_json::json;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::built_in::run_command;
use crate::command::CommandOptions;

fn fixture(isolation: Isolation) -> Fixture {
    let shell = Some("/bin/sh".into());
    Fixture::new([run_command(CommandOptions { shell, isolation, ..CommandOptions::default() })])
}

async fn run(f: &Fixture, command: &str) -> String {
    f.call("run_command", json!({ "command": command })).await
}

/// Where the system cannot do it, the only promise is the refusal.
async fn can(f: &Fixture, support: bool) -> bool {
    let text = run(f, "true").await;
    assert_eq!(support, text == "[exit code 0]\n", "{text}");
    if !support {
        assert!(
            text.starts_with("configuration: nothing was run: this system cannot have commands kept from "),
            "{text}"
        );
    }
    support
}

#[tokio::test]
async fn a_command_without_network_reaches_nobody_and_runs_otherwise() {
    let f = fixture(Isolation { without_network: true, ..Isolation::default() });
    if !can(&f, Support::of_this_system().network).await {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("bash -c 'echo > /dev/tcp/127.0.0.1/{port}' 2>/dev/null; echo $?");
    assert_ne!(run(&f, &connect).await, "0\n[exit code 0]\n");
    assert!(listener.accept().is_err());
    // The same without the wall, as far as there is a bash: so the refusal was the wall's.
    let open = fixture(Isolation::default());
    if run(&open, "command -v bash >/dev/null; echo $?").await.starts_with('0') {
        assert_eq!(run(&open, &connect).await, "0\n[exit code 0]\n");
        assert!(listener.accept().is_ok());
    }
    assert_eq!(run(&f, "echo a | (cat; echo b > file); cat file").await, "a\nb\n[exit code 0]\n");
}

#[tokio::test]
async fn a_command_that_may_write_in_the_workspace_only_reads_elsewhere_and_writes_nothing() {
    let wanted = Isolation { write_in_workspace_only: true, writable: Vec::new(), ..Isolation::default() };
    let f = fixture(wanted);
    if !can(&f, Support::of_this_system().files).await {
        return;
    }
    let text = run(
        &f,
        "cat ../outside; echo x > ../outside; echo x > ../new; rm ../outside; echo in > in; echo n > /dev/null",
    )
    .await;
    assert!(text.starts_with("secret") && text.ends_with("[exit code 0]\n"), "{text}");
    assert_eq!(std::fs::read_to_string(f.path("../outside")).unwrap(), "secret");
    assert!(!f.path("../new").exists());
    assert_eq!(f.read("in"), "in\n");
}

#[tokio::test]
async fn no_command_is_let_into_a_workspace_with_a_reserved_place_in_it() {
    let wanted = Isolation { write_in_workspace_only: true, ..Isolation::default() };
    let f = fixture(wanted);
    let reserved = crate::Reserved::default().place(f.path("log")).place(f.path("../outside"));
    let workspace = Workspace::open_without(f.path(""), &reserved).unwrap();
    let call =
        f.registry.call("run_command", json!({ "command": ["touch", "here"] }), crate::ToolContext::new(workspace));
    let error = call.await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.starts_with("nothing was run: `log` in the workspace is not for tools"), "{}", error.message);
    assert!(!f.path("here").exists());
}

#[tokio::test]
async fn what_holds_one_command_in_does_not_hold_in_this_process() {
    let f = fixture(Isolation { without_network: true, when_missing: WhenMissing::Run, ..Isolation::default() });
    assert_eq!(run(&f, "true").await, "[exit code 0]\n");
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(run(&fixture(Isolation::default()), "true").await, "[exit code 0]\n");
}

#[test]
fn the_description_says_what_holds_and_what_does_not() {
    assert_eq!(Isolation::default().described(), "");
    let wanted = Isolation { without_network: true, write_in_workspace_only: true, ..Isolation::default() };
    let text = wanted.described();
    let support = Support::of_this_system();
    assert_eq!(support.network, text.contains("Commands have no network."), "{text}");
    assert_eq!(!support.files || !support.network, text.contains("This system cannot"), "{text}");
}
