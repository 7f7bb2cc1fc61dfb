//! Ends the commands and servers that would outlive this process, also if it is killed or crashes.
//!
//! A shell reads the numbers of process groups from a pipe whose other end only this process has. The pipe ends with this
//! process. Then the shell kills the groups that are still registered, and processes that left their group. Isolated commands end without it, see
//! [`crate::Isolation`].

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{LazyLock, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Pid;

/// The variable by which a process that left its group is found.
pub(crate) const GUARDED: &str = "RETHREAD_GUARDED";

/// Reads `+ GROUP` and `- GROUP` to the end of its input. Then it kills the groups that are left, and the processes that
/// left a group. The value of [`GUARDED`] is the first argument. Signals of a terminal are for others.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
all=' '
while read -r what group; do
  case $what in
    +) all="$all$group " ;;
    -) all="${all%% $group *} ${all#* $group }" ;;
  esac
done
for group in $all; do kill -KILL "-$group"; done
cd /proc || exit
for round in 1 2 3; do
  grep -lzxF "RETHREAD_GUARDED=$1" [0-9]*/environ | while read -r file; do kill -KILL "${file%%/*}"; done
done
"#;

/// The groups that run, and the shell that waits for the end of this process.
#[derive(Default)]
struct Guard {
    shell: Option<(Child, ChildStdin)>,
    groups: BTreeSet<i32>,
}

static GUARD: LazyLock<Mutex<Guard>> = LazyLock::new(Mutex::default);

/// Returns the value of [`GUARDED`], the same for all that this process starts.
pub(crate) fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{}-{:x}", std::process::id(), since.as_nanos())
    })
}

/// Registers a group, before the call that starts it returns.
pub(super) fn add(group: Pid) {
    let mut guard = GUARD.lock();
    let group = group.as_raw_pid();
    guard.groups.insert(group);
    if let Err(error) = guard.write(&format!("+ {group}\n")) {
        tracing::warn!(%error, "commands and MCP servers run on if this process is killed: the shell that would end them");
    }
}

/// Removes a group, before its number can belong to another.
pub(super) fn remove(group: Pid) {
    let mut guard = GUARD.lock();
    if guard.groups.remove(&group.as_raw_pid()) {
        // An error means that the shell has ended: the next one is not told about this group.
        let _ = guard.write(&format!("- {}\n", group.as_raw_pid()));
    }
}

impl Guard {
    /// Writes a line, to a new shell if there is none or the last one was ended.
    fn write(&mut self, line: &str) -> io::Result<()> {
        if let Some((_, input)) = &mut self.shell
            && input.write_all(line.as_bytes()).is_ok()
        {
            return Ok(());
        }
        if let Some((mut shell, input)) = self.shell.take() {
            // A shell that reads no more ends nothing of its own accord.
            let _ = shell.kill();
            drop(input);
            let _ = shell.wait();
        }
        if self.groups.is_empty() {
            return Ok(());
        }
        let (shell, mut input) = start()?;
        let lines: String = self.groups.iter().map(|group| format!("+ {group}\n")).collect();
        input.write_all(lines.as_bytes())?;
        self.shell = Some((shell, input));
        Ok(())
    }
}

fn start() -> io::Result<(Child, ChildStdin)> {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "rethread-guard", mark()])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not in the group of this process, which may be killed as a whole.
        .process_group(0)
        .spawn()?;
    let input = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // A shell that was stopped does not stop this process.
    fcntl_setfl(&input, fcntl_getfl(&input)? | OFlags::NONBLOCK)?;
    Ok((shell, input))
}
