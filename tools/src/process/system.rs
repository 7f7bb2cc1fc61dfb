//! Information from the system about processes, on Linux; there is none on other systems.

use std::fs;
#[cfg(target_os = "linux")]
use std::io::Read;

#[cfg(target_os = "linux")]
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

#[cfg(target_os = "linux")]
/// The bytes of an environment that are read.
const ENVIRONMENT_BYTES_MAX: u64 = 2 * 1024 * 1024;
#[cfg(target_os = "linux")]
/// How often it is looked for processes that were started while others were being killed.
const N_ROUNDS_MAX: usize = 10;

/// The id of the system's boot.
pub(super) fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// When a process was started, in clock ticks since the boot.
pub(super) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have anything in it; the fields after it are counted from the last bracket.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Kills every process whose environment has `name=value` in it: also those that left their process group, except
/// where one has cleared its environment. Says how many it killed. Blocks for some milliseconds.
#[cfg(target_os = "linux")]
pub(super) fn kill_marked(name: &str, value: &str) -> usize {
    let mark = format!("{name}={value}");
    let mut n_killed = 0;
    for _ in 0..N_ROUNDS_MAX {
        let found = marked(&mark);
        if found.is_empty() {
            break;
        }
        for pid in found {
            // The handle refers to this process, so that a number that is reused between the two reads
            // is noticed.
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if has_mark(pid.as_raw_pid(), &mark) && pidfd_send_signal(&handle, Signal::KILL).is_ok() {
                n_killed += 1;
            }
        }
    }
    n_killed
}

/// There is no way to ask.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_marked(_name: &str, _value: &str) -> usize {
    0
}

#[cfg(target_os = "linux")]
fn marked(mark: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id() as i32;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|pid| *pid != own && has_mark(*pid, mark)).filter_map(Pid::from_raw).collect()
}

#[cfg(target_os = "linux")]
fn has_mark(pid: i32, mark: &str) -> bool {
    let mut environment = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err() {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}
