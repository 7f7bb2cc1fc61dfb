//! The real program, driven as a shell would drive it: a folder of its own, arguments, two pipes, an exit code.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long any command of a test may take before it counts as hanging. Generous: machines that test are busy.
pub const HANG: Duration = Duration::from_secs(120);

/// The program `rethread`, built from the present sources in the profile of the running test.
///
/// `cargo test --workspace --all-features` has built it already, because its package has an integration test; a test that is run
/// alone finds it missing or older than its sources and has cargo build it.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = folder().join(format!("rethread{}", std::env::consts::EXE_SUFFIX));
        build_unless_fresh(&program, &["--bin", "rethread"]);
        program
    })
}

/// An example of this package, as [`program`]: `cargo test --workspace --all-features` builds examples as well.
pub fn example(name: &str) -> PathBuf {
    let program = folder().join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    build_unless_fresh(&program, &["--example", name]);
    program
}

/// The folder `target/<profile>`, since this is `target/<profile>/deps/<test>`.
fn folder() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

fn build_unless_fresh(program: &Path, what: &[&str]) {
    // Several tests of a process may want it at once.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    if !is_fresh(program) {
        build(&folder(), what);
    }
    assert!(program.is_file(), "{} was not built", program.display());
}

/// Whether the program is younger than all its sources. A build of the program alone lists them in a file beside it; one of
/// the workspace does not, and then all sources of the workspace count but those of tests.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let Ok(built) = changed(program) else { return false };
    let mut sources = vec![root().join("Cargo.lock")];
    if let Ok(list) = fs::read_to_string(program.with_extension("d")) {
        let Some((_, listed)) = list.split_once(": ") else { return false };
        let listed = listed.trim_end().replace("\\ ", "\0");
        sources.extend(listed.split(' ').map(|source| PathBuf::from(source.replace('\0', " "))));
    } else {
        let Ok(folders) = fs::read_dir(root()) else { return false };
        for package in folders.flatten().map(|entry| entry.path()) {
            if package.join("Cargo.toml").is_file() && package.file_name().is_some_and(|name| name != "tests") {
                sources.push(package.join("Cargo.toml"));
                sources_in(&package.join("src"), &mut sources);
            }
        }
    }
    sources.iter().all(|source| changed(source).is_ok_and(|changed| changed <= built))
}

/// Adds the files of a folder, without unit tests.
fn sources_in(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" {
            sources_in(&path, sources);
        } else if path.is_file() && name != "tests.rs" {
            sources.push(path);
        }
    }
}

fn build(folder: &Path, what: &[&str]) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        // With the workspace and a small test, so that all crates have the features with which they are built already for tests:
        // a build of the program alone compiles the workspace again.
        .args(["build", "--quiet", "--workspace", "--all-features", "--test", "docs"])
        .args(what)
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent().unwrap())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A folder with a place for a log and a workspace for tools, removed at the end unless `RETHREAD_KEEP` is set.
#[derive(Debug)]
pub struct Scene {
    folder: tempfile::TempDir,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// An empty one.
    pub fn new() -> Self {
        let mut folder = tempfile::tempdir().unwrap();
        folder.disable_cleanup(std::env::var_os("RETHREAD_KEEP").is_some());
        fs::create_dir(folder.path().join("workspace")).unwrap();
        Self { folder }
    }

    /// Where commands run.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until no process runs in it any more: commands outlive a program that was killed. If the system does not
    /// list processes, waits a moment.
    pub fn wait_until_idle(&self) {
        let here = self.path().canonicalize().unwrap();
        let works_here =
            |process: &Path| fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(&here));
        let until = Instant::now() + HANG;
        loop {
            let Ok(processes) = fs::read_dir("/proc/") else {
                return std::thread::sleep(Duration::from_millis(200));
            };
            if !processes.flatten().any(|process| works_here(&process.path())) {
                return;
            }
            assert!(Instant::now() < until, "something still works in {}", here.display());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The log's folder.
    pub fn data_dir(&self) -> PathBuf {
        self.file(".rethread")
    }

    /// Removes the log, also below a process that has it open: a file that a seal creates meanwhile makes a pass over the
    /// folder fail, so it is repeated.
    pub fn remove_data_dir(&self) {
        for _ in 0..1000 {
            match std::fs::remove_dir_all(self.data_dir()) {
                Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
                ended => return ended.unwrap(),
            }
        }
        panic!("{} is never empty", self.data_dir().display());
    }

    /// A command that runs here, with nothing of this process' environment but the way to programs.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        self.at_home(&mut command);
        command
    }

    /// What a person has is in the scene, and not in the home of who runs the tests.
    fn at_home(&self, command: &mut Command) {
        for (name, folder) in [("XDG_CONFIG_HOME", "home/config"), ("XDG_STATE_HOME", "home/state")] {
            command.env(name, self.file(folder));
        }
    }

    /// Runs a command to its end; the words are its arguments, split at spaces.
    pub fn run(&self, words: &str) -> Ran {
        self.run_args(words.split_whitespace())
    }

    /// Runs a command on a terminal of its own; each answer is typed once what it is for was said.
    pub fn run_on_terminal(&self, steps: &[(&str, &str)], words: &str) -> Ran {
        let script = self.write("terminal.py", include_str!("terminal.py"));
        let mut command = Command::new("python3");
        command.arg(script).arg(serde_json::to_string(steps).unwrap()).arg(program()).args(words.split_whitespace());
        command.current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm").env("NO_COLOR", "1");
        self.at_home(&mut command);
        Running::start(command).end()
    }

    /// As [`Scene::run`], with arguments that may hold spaces.
    pub fn run_args<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        Running::start(self.command(arguments)).end()
    }
}

/// What a command did.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its arguments.
    pub what: String,
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

impl Ran {
    /// Checks the exit code, and that it did not panic.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert!(!self.stderr.contains("panicked"), "{self}");
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Checks that it succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Its one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Its JSON lines.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(read).collect()
    }

    /// Checks that it said this.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "`{part}` is missing: {self}");
        self
    }

    /// Checks that it wrote nothing on stdout.
    #[track_caller]
    pub fn silent(self) -> Self {
        assert!(self.stdout.is_empty(), "{self}");
        self
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code;
        write!(f, "{}\nexit code {code:?}\nstdout: {}\nstderr: {}", self.what, self.stdout, self.stderr)
    }
}

/// A running command. Killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    what: String,
    pid: u32,
    /// Absent when its end is waited for elsewhere.
    child: Option<Child>,
    stdout: Lines,
    stderr: Lines,
}

/// The lines of one of its pipes.
#[derive(Debug)]
struct Lines {
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Lines {
    /// Reads a pipe to its end, even if no lines are taken.
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut pipe, mut line) = (BufReader::new(pipe), Vec::new());
            while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Self { lines, seen: Vec::new() }
    }

    /// The next one; nothing at the end and when the time is up.
    fn next(&mut self, until: Instant) -> Option<&str> {
        let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
        self.seen.push(line);
        self.seen.last().map(String::as_str)
    }

    fn wait_for(&mut self, part: &str) -> Option<String> {
        let until = Instant::now() + HANG;
        while let Some(line) = self.next(until) {
            if line.contains(part) {
                return Some(line.to_owned());
            }
        }
        None
    }

    fn all(self) -> String {
        self.seen.into_iter().chain(self.lines).collect()
    }
}

impl Running {
    /// Starts it and reads both its pipes.
    pub fn start(mut command: Command) -> Self {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let mut what = format!("rethread {}", arguments.join(" "));
        if let Some((end, _)) = what.char_indices().nth(400) {
            what.truncate(end);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, stderr) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        Self { what, pid: child.id(), child: Some(child), stdout, stderr }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes to its stdin, which must be a pipe.
    pub fn write(&mut self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    /// Writes bytes to its stdin, which must be a pipe.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        self.child.as_mut().unwrap().stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Closes its stdin, which must be a pipe.
    pub fn end_input(&mut self) {
        drop(self.child.as_mut().unwrap().stdin.take());
    }

    /// Waits for a line of stdout with this in it.
    #[track_caller]
    pub fn wait_for(&mut self, part: &str) -> String {
        match self.stdout.wait_for(part) {
            Some(line) => line,
            None => panic!("{}: no line with `{part}`: {:?} {:?}", self.what, self.stdout.seen, self.stderr),
        }
    }

    /// Waits for a line of stderr with this in it.
    #[track_caller]
    pub fn wait_until_said(&mut self, part: &str) -> String {
        match self.stderr.wait_for(part) {
            Some(line) => line,
            None => panic!("{}: it does not say `{part}`: {:?}", self.what, self.stderr.seen),
        }
    }

    /// Waits until it has written this many lines, has ended, or the time is up.
    pub fn wait_for_lines(&mut self, n: usize, at_most: Duration) {
        let until = Instant::now() + at_most;
        while self.stdout.seen.len() < n && self.stdout.next(until).is_some() {}
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Sends it a signal: `INT`, `TERM`, `STOP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {}", self.pid)]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it by force and gives what it wrote until then.
    pub fn kill(mut self) -> Ran {
        let mut child = self.child.take().unwrap();
        let _ = child.kill();
        self.collect(child.wait().unwrap())
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(self) -> Ran {
        self.end_within(HANG)
    }

    /// Waits for its end, which may take longer than that of most programs.
    #[track_caller]
    pub fn end_within(mut self, limit: Duration) -> Ran {
        let mut child = self.child.take().unwrap();
        let (sender, ended) = mpsc::channel();
        // Waiting closes its stdin first.
        std::thread::spawn(move || sender.send(child.wait()));
        match ended.recv_timeout(limit) {
            Ok(status) => self.collect(status.unwrap()),
            Err(_) => {
                self.signal("KILL");
                let status = ended.recv().unwrap().unwrap();
                panic!("{} hangs: {}", self.what.clone(), self.collect(status));
            }
        }
    }

    fn collect(mut self, status: ExitStatus) -> Ran {
        let nothing = || Lines::of(std::io::empty());
        let stdout = std::mem::replace(&mut self.stdout, nothing()).all();
        let stderr = std::mem::replace(&mut self.stderr, nothing()).all();
        Ran { what: self.what.clone(), code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
