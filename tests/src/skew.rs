//! Processes whose clock is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the seconds by which the clock of a process is ahead.
pub const SKEW: &str = "RETHREAD_TEST_SKEW_S";

/// Adds them to what the system says the time is. Intervals (`CLOCK_MONOTONIC`) stay as they are.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long ahead;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("RETHREAD_TEST_SKEW_S");
    ahead = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += ahead;
    return failed;
}
"#;

/// Compiles the library that makes the clock of a process wrong, for `LD_PRELOAD`.
///
/// # Panics
///
/// Without a C compiler, which the build of this project needs, too.
pub fn library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("skew.c"), folder.join("skew.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(compiled.success(), "cc: {compiled}");
    library
}
