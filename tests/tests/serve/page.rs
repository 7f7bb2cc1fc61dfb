//! The inspector: its modules in node, and the page itself in a real Chromium, through what a person would do. The
//! tests are in `tests/page/`; each needs nothing but node, and those of the page a Chromium.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rethread_tests::binary::{program, root};
use rethread_tests::needs;

/// How long a test may take: it ends in a failure then, and not never.
const TEST_TIMEOUT: &str = "--test-timeout=600000";

/// Two browsers at most: each keeps more than a core busy, and what they show has to come in time.
static BROWSERS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// The Chromium to be driven: that of `RETHREAD_CHROMIUM`, or the first that is installed.
fn chromium() -> Option<String> {
    let named = std::env::var("RETHREAD_CHROMIUM").into_iter();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    named.chain(known).find(|name| needs::has(name))
}

/// The version of axe-core that checks the page.
const AXE: &str = "axe-core@4.10.3";

/// Runs the tests of a file or a folder of `tests/page/`.
#[track_caller]
fn node(what: &str, chromium: Option<&str>) {
    node_with(what, chromium, &[]);
}

#[track_caller]
fn node_with(what: &str, chromium: Option<&str>, env: &[(&str, PathBuf)]) {
    let path: PathBuf = root().join("tests/page").join(what);
    let mut command = Command::new("node");
    command.args(["--test", TEST_TIMEOUT]).arg(path).env("RETHREAD_PROGRAM", program());
    command.envs(env.iter().cloned());
    if let Some(chromium) = chromium {
        command.env("RETHREAD_CHROMIUM", chromium);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().find_map(|line| line.strip_prefix("# pass ").or(line.strip_prefix("ℹ pass ")));
    assert!(passed.is_some_and(|n| n != "0"), "no test ran: {said}");
}

#[track_caller]
fn flows(file: &str) {
    flows_with(file, &[]);
}

#[track_caller]
fn flows_with(file: &str, env: &[(&str, PathBuf)]) {
    if !needs::program("node") {
        return;
    }
    let Some(chromium) = chromium() else {
        return needs::skipped("no Chromium is installed (Debian's package `chromium`)");
    };
    let place = BEGUN.fetch_add(1, Ordering::Relaxed) % BROWSERS.len();
    let _one_at_a_time = BROWSERS[place].lock().unwrap_or_else(PoisonError::into_inner);
    node_with(&format!("flows/{file}.test.mjs"), Some(&chromium), env);
}

#[test]
fn page_modules_pass_their_unit_tests() {
    if !needs::program("node") {
        return;
    }
    for file in ["values", "marks", "stream", "pictures", "media"] {
        node(&format!("units/{file}.test.mjs"), None);
    }
}

#[test]
fn a_person_can_watch_step_back_and_fork_in_the_page() {
    flows("look");
}

#[test]
fn page_answers_work_concurrently_and_across_a_crash() {
    flows("answer");
}

#[test]
fn page_works_by_keyboard_in_dark_mode_and_on_small_screens() {
    flows("everybody");
}

#[test]
fn page_shows_hidden_characters_failures_and_branches() {
    flows("shown");
}

/// The version of the chat page that talks through the OpenAI-compatible door.
const DEEP_CHAT: &str = "deep-chat@2.4.2";

#[test]
fn chat_page_of_others_talks_through_the_openai_door() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "deep-chat", &[DEEP_CHAT]) else { return };
    flows_with("deep_chat", &[("RETHREAD_DEEP_CHAT", folder.join("node_modules/deep-chat/dist/deepChat.bundle.js"))]);
}

#[test]
fn no_view_of_the_page_has_a_serious_finding_of_axe() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "axe", &[AXE]) else { return };
    flows_with("axe", &[("RETHREAD_AXE", folder.join("node_modules/axe-core/axe.min.js"))]);
}
