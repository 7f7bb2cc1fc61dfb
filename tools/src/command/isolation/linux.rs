//! Landlock and seccomp, through the crates that their makers keep.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

/// Files that programs write to without changing anything.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/shm"];
/// The version of Landlock that is needed: the first that also holds back the cutting of files (Linux 6.2).
const NEEDED: ABI = ABI::V3;
/// "Operation not permitted".
const EPERM: u32 = 1;

/// Numbers of system calls that lead to a network, from the kernel's tables: `socket`, `io_uring_setup` (which opens
/// sockets without `socket`), and `ptrace`, `process_vm_writev` and `pidfd_getfd`, by which another process could be
/// made to lend its own.
#[cfg(target_arch = "x86_64")]
const TO_A_NETWORK: [i64; 5] = [41, 425, 101, 311, 438];
#[cfg(not(target_arch = "x86_64"))]
const TO_A_NETWORK: [i64; 5] = [198, 425, 117, 271, 438];
/// On x86-64 the same calls have a second number, which some kernels accept (x32). Calls of 32-bit programs have yet
/// others; the filter ends those programs.
#[cfg(target_arch = "x86_64")]
const X32: [i64; 5] = [0x4000_0029, 0x4000_01a9, 0x4000_0209, 0x4000_021c, 0x4000_01b6];
#[cfg(not(target_arch = "x86_64"))]
const X32: [i64; 0] = [];

/// From now on this thread and all it starts can write only below these places. A place that does not exist is passed
/// over.
pub(super) fn write_only_in<'a>(places: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let all = AccessFs::from_write(NEEDED);
    let places = places.chain(DEVICES.iter().map(Path::new));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(places, all)))
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(|error| error.to_string())?;
    if status.ruleset == RulesetStatus::FullyEnforced { Ok(()) } else { Err("Landlock is not in force".to_owned()) }
}

/// From now on this thread and all it starts can open no socket.
pub(super) fn without_network() -> Result<(), String> {
    let fault = |error: seccompiler::BackendError| error.to_string();
    let denied: BTreeMap<i64, Vec<SeccompRule>> =
        TO_A_NETWORK.into_iter().chain(X32).map(|number| (number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().map_err(fault)?;
    let filter = SeccompFilter::new(denied, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch).map_err(fault)?;
    let program: BpfProgram = filter.try_into().map_err(fault)?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}
