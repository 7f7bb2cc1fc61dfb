//! What some tests need beside Rust, Python and a C compiler: a browser, packages of npm, a mount.
//!
//! `.ci/run` installs it and sets `CI=true`. There a test whose needs are missing fails; elsewhere it prints that it was
//! skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Whether nothing may be skipped: `CI` is `true`.
pub fn are_required() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Prints that a test is skipped, and why.
///
/// # Panics
///
/// Where nothing may be skipped.
#[track_caller]
#[allow(clippy::print_stderr)]
pub fn skipped(why: &str) {
    assert!(!are_required(), "{why}, and CI=true forbids to skip a test");
    eprintln!("SKIPPED: {why}");
}

/// Returns whether a program is installed, by its `--version`.
pub fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a program is installed; where it is not, the test is [`skipped`].
#[track_caller]
pub fn program(name: &str) -> bool {
    let is_there = has(name);
    if !is_there {
        skipped(&format!("`{name}` is not installed"));
    }
    is_there
}

/// The folder in which these packages of npm (`name@version`) are installed, under `node_modules`; kept in `target/`. Where
/// npm cannot install them, the test is [`skipped`].
#[track_caller]
pub fn npm(target_tmp: &str, name: &str, packages: &[&str]) -> Option<PathBuf> {
    if !program("node") || !program("npm") {
        return None;
    }
    installed("npm", target_tmp, name, packages, |folder| install(folder, packages))
}

/// Installs packages once, unless they are there.
#[track_caller]
fn installed(
    manager: &str,
    target_tmp: &str,
    name: &str,
    packages: &[&str],
    install: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    // Two at once would take away from each other what they have just written.
    static ONE: Mutex<()> = Mutex::new(());
    let folder = Path::new(target_tmp).join(name);
    let (mark, wanted) = (folder.join("installed"), packages.join(" "));
    let installed = {
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::fs::create_dir_all(&folder).unwrap();
        let is_there = std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted);
        is_there || install(&folder) && std::fs::write(&mark, wanted).is_ok()
    };
    if !installed {
        skipped(&format!("{manager} cannot install {}", packages.join(", ")));
    }
    installed.then_some(folder)
}

/// The folder in which these packages of PyPI (`name==version`) are installed, for `PYTHONPATH`; kept in `target/`. Where
/// pip cannot install them, the test is [`skipped`].
#[track_caller]
pub fn pypi(target_tmp: &str, name: &str, packages: &[&str]) -> Option<PathBuf> {
    if !program("python3") {
        return None;
    }
    let install = |folder: &Path| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target", "."]);
        command.args(packages).current_dir(folder).output().is_ok_and(|output| output.status.success())
    };
    installed("pip", target_tmp, name, packages, install)
}

fn install(folder: &Path, packages: &[&str]) -> bool {
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix", "."]).args(packages);
    command.current_dir(folder).output().is_ok_and(|output| output.status.success())
}

/// A scratch folder that an isolated command sees: not below `/tmp` and the like, of which it has its own. Beside the
/// running test, or in the home folder where the checkout itself lies there.
///
/// # Panics
///
/// Where neither is a place for it.
pub fn scratch_outside_tmp() -> tempfile::TempDir {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_covered = |place: &PathBuf| ["/tmp", "/var/tmp", "/run", "/dev"].iter().any(|own| place.starts_with(own));
    let place = std::iter::once(beside).chain(home).find(|place| !is_covered(place));
    tempfile::tempdir_in(place.unwrap()).unwrap()
}
