//! Isolation by bubblewrap: its arguments, its trial, and the thread that starts it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::placeholder::Placeholder;
use super::{Isolation, Launch};
use crate::Workspace;
use crate::process::Group;
use crate::workspace::{ReservedPlace, without_links};

/// Where the program is looked for. Not in `PATH`, which may lead into a workspace.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];
/// How long the trial may take, and a start until it reports its process id.
const START_MAX: Duration = Duration::from_secs(10);
/// The bytes of each folder for temporary files, which are memory.
const TEMPORARY_BYTES_MAX: &str = "1073741824";
/// Folders that are empty and writable for each program.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Folders of the system that are never writable as a whole.
const OF_THE_SYSTEM: [&str; 5] = ["/", "/proc", "/dev", "/sys", "/run"];
/// Becomes bubblewrap, with the output of the program as descriptor 3 only. Bubblewrap holds its own output open in two
/// processes until the program ends; it does not hold other descriptors.
const WITH_OUTPUT: &str = "exec 3>&1 >/dev/null; exec \"$@\"";
/// Takes the output of a server, sets limits, says so, waits for a line, and becomes the program. Until bubblewrap has
/// bound itself to this process the end of this process does not end it, but ends the wait.
const WITH_LIMITS: &str = "{ [ \"$4\" = none ] || exec >&3 3>&-; } && ulimit -t \"$1\" && ulimit -d \"$2\" && \
    { [ \"$3\" = none ] || ulimit -u \"$3\" 2>/dev/null || ulimit -p \"$3\"; } && echo && read -r _ && \
    { [ \"$4\" = input ] || exec < /dev/null; } && shift 4 && exec \"$@\"; exit 126";
/// The least number of the descriptor on which bubblewrap reports its process: those below are the program's.
const NUMBER_MIN: i32 = 10;
/// How many sockets of other programs are covered one by one.
const SOCKETS_MAX: usize = 100;
/// How often a sandbox is started that ends before its program begins: a socket that was to be covered may have been removed
/// just then, and on a busy machine that takes a while to start one, again and again.
const STARTS_MAX: u32 = 20;
/// How many starts wait for their turn.
const WAITING_MAX: usize = 64;
/// How long a dropped sandbox is waited for, before what was made for it may be removed.
const DROP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The program, which has shown that it works here.
pub(super) struct Bubblewrap {
    pub(super) program: &'static str,
    /// Whether it knows `--size`.
    limits_sizes: bool,
}

/// Why bubblewrap is not available; determined once per process.
pub(super) fn fault() -> Option<&'static str> {
    found().as_ref().err().map(String::as_str)
}

/// The program, or why it is not available.
pub(super) fn found() -> &'static Result<Bubblewrap, String> {
    static FOUND: OnceLock<Result<Bubblewrap, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let program = PLACES.into_iter().find(|place| Path::new(place).exists());
        let program = program.ok_or("bubblewrap (`bwrap`) is not installed in /usr/bin, /bin or /usr/local/bin")?;
        let version = run(std::process::Command::new(program).arg("--version"))?;
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
        let found = Bubblewrap { program, limits_sizes: minor >= 7 || !version.contains(" 0.") };
        let isolation = Isolation::default();
        let mut arguments = found.namespaces(&isolation);
        arguments.push("--".into());
        arguments.extend(limited(&isolation, false, ["/bin/sh".into(), "-c".into(), ":".into()]));
        run(std::process::Command::new(program).args(arguments)).map(|_| found)
    })
}

/// Runs a program to its end and returns what it prints.
fn run(command: &mut std::process::Command) -> Result<String, String> {
    let failed = |error: io::Error| format!("bubblewrap does not work here: {error}");
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    // One that has ended already says why.
    let _ = child.stdin.take().map(|mut input| input.write_all(b"\n"));
    let begun = Instant::now();
    while child.try_wait().map_err(failed)?.is_none() {
        if begun.elapsed() > START_MAX {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("bubblewrap does not work here: a test run took over {} s", START_MAX.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("bubblewrap does not work here: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

impl Bubblewrap {
    /// The arguments that make the namespaces, and everything in them read-only.
    pub(super) fn namespaces(&self, isolation: &Isolation) -> Vec<OsString> {
        let mut all: Vec<OsString> = [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
        ]
        .map(OsString::from)
        .into();
        if !isolation.network {
            all.push("--unshare-net".into());
        }
        add(&mut all, &["--ro-bind", "/", "/"]);
        // Read-only, since the system lets root write to some of it without any capability (`/proc/sys`).
        add(&mut all, &["--proc", "/proc", "--remount-ro", "/proc"]);
        add(&mut all, &["--dev", "/dev"]);
        for folder in TEMPORARY {
            if self.limits_sizes {
                add(&mut all, &["--size", TEMPORARY_BYTES_MAX]);
            }
            add(&mut all, &["--tmpfs", folder]);
        }
        add(&mut all, &["--remount-ro", "/dev"]);
        // Sockets of other programs are here.
        for folder in ["/run", "/var/run"] {
            if Path::new(folder).symlink_metadata().is_ok_and(|found| found.is_dir()) {
                add(&mut all, &["--tmpfs", folder]);
                // The names of hosts are found by this.
                if let Ok(resolver) = Path::new("/etc/resolv.conf").canonicalize()
                    && isolation.network
                    && resolver.starts_with(folder)
                {
                    bind(&mut all, "--ro-bind", &resolver);
                }
                add(&mut all, &["--remount-ro", folder]);
            }
        }
        all
    }

    /// All arguments before the program, and what must stay open while it runs.
    fn arguments(
        &self,
        isolation: &Isolation,
        workspace: &Workspace,
        Launch { folder, own_files, .. }: &Launch,
    ) -> Result<(Vec<OsString>, Vec<Placeholder>), String> {
        let roots = roots(isolation, workspace)?;
        let mut placeholders = Vec::new();
        // A folder on which something is mounted cannot be renamed, so the way to each place stays what it is.
        let way = |path: &Path| {
            let above: Vec<_> = path.ancestors().skip(1).map(Path::to_owned).collect();
            above.into_iter().filter(|above| roots.iter().any(|root| above.starts_with(root)))
        };
        let mut writable = roots.clone();
        writable.extend(roots.iter().flat_map(|root| way(root)));
        let mut covered = BTreeSet::new();
        let own_files: BTreeSet<_> = own_files.iter().map(|file| without_links(file)).collect();
        for ReservedPlace { path: place, is_program } in workspace.reserved_places() {
            let found = without_links(&place);
            if own_files.contains(&found) {
                continue;
            }
            // A program outside is one of the system. One that a link leads to, such as that of a virtual environment, is
            // what the link leads to.
            let place = if is_program { found.clone() } else { place };
            let root = roots.iter().find(|root| found.starts_with(root) || place.starts_with(root));
            if root.is_none() && (is_program || is_hidden(&found) && !found.starts_with(folder)) {
                continue;
            }
            if let Some(root) = root {
                if let Some(link) = link_below(&place, root) {
                    return Err(format!(
                        "`{}` is a symbolic link on the path to a reserved place, and a command could \
                         replace it; put a file or folder in its place",
                        link.display()
                    ));
                }
                let made = Placeholder::hold(&found);
                placeholders.extend(
                    made.map_err(|error| format!("`{}` cannot be hidden from commands: {error}", found.display()))?,
                );
                writable.extend(way(&found));
            }
            covered.insert(found);
        }
        covered.extend(sockets().into_iter().filter(|path| !roots.iter().any(|root| path.starts_with(root))));
        let mut all = self.namespaces(isolation);
        if TEMPORARY.iter().any(|hidden| folder.starts_with(hidden)) {
            bind(&mut all, "--ro-bind", folder);
        }
        // Sorted, so that a folder is mounted before those in it.
        for path in &writable {
            bind(&mut all, "--bind", path);
        }
        for path in &covered {
            if path.ancestors().skip(1).any(|above| covered.contains(above)) {
                continue;
            }
            match path.symlink_metadata() {
                Ok(found) if found.is_dir() => {
                    all.extend(["--tmpfs".into(), path.into(), "--remount-ro".into(), path.into()]);
                }
                Ok(_) => all.extend(["--ro-bind".into(), "/dev/null".into(), path.into()]),
                // It is in a folder that is read-only.
                Err(_) => {}
            }
        }
        all.extend(["--chdir".into(), folder.into()]);
        Ok((all, placeholders))
    }
}

fn add(all: &mut Vec<OsString>, arguments: &[&str]) {
    all.extend(arguments.iter().map(OsString::from));
}

fn bind(all: &mut Vec<OsString>, how: &str, path: &Path) {
    all.extend([how.into(), path.into(), path.into()]);
}

/// The program with its arguments and limits.
pub(super) fn limited(
    isolation: &Isolation,
    has_input: bool,
    program: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    // What is higher than the hard limit cannot be set, and holds already.
    let limit = |wanted: u64, resource| getrlimit(resource).maximum.map_or(wanted, |hard| hard.min(wanted));
    let limits = &isolation.limits;
    let seconds = limit(limits.cpu_s_max, Resource::Cpu).to_string();
    let kib = (limit(limits.memory_bytes_max, Resource::Data) / 1024).to_string();
    // Older systems count all processes of the user.
    let counts_namespaces = std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| {
        let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(5), Some(14))
    });
    let processes = match counts_namespaces {
        true => limit(limits.processes_max, Resource::Nproc).to_string(),
        false => "none".to_owned(),
    };
    let input = if has_input { "input" } else { "none" };
    let shell = ["/bin/sh", "-c", WITH_LIMITS, "sh", &seconds, &kib, &processes, input].map(str::to_owned);
    shell.into_iter().map(OsString::from).chain(program).collect()
}

/// The places that may be written, without links.
fn roots(isolation: &Isolation, workspace: &Workspace) -> Result<BTreeSet<PathBuf>, String> {
    if workspace.is_reserved() || !workspace.is_current() {
        return Err(format!(
            "the folder {} is reserved, or was replaced after the workspace was opened",
            workspace.root().display()
        ));
    }
    let more = isolation.writable.iter().filter_map(|path| {
        let home = || path.strip_prefix("~").ok().zip(std::env::var_os("HOME"));
        let path = home().map_or_else(|| path.clone(), |(rest, home)| Path::new(&home).join(rest));
        path.canonicalize().ok()
    });
    let roots: BTreeSet<_> = std::iter::once(workspace.root().to_owned()).chain(more).collect();
    match roots.iter().find(|root| OF_THE_SYSTEM.iter().any(|folder| root.as_path() == Path::new(folder))) {
        Some(root) => Err(format!(
            "an isolated command cannot have write access to all of {}; use a folder below",
            root.display()
        )),
        None => Ok(roots),
    }
}

/// Sockets of programs on this machine, by the names that the system lists.
fn sockets() -> Vec<PathBuf> {
    let listed = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let paths = listed.lines().filter_map(|line| line.split_whitespace().nth(7)).filter(|name| name.starts_with('/'));
    let paths = paths.filter_map(|path| Path::new(path).canonicalize().ok());
    let is_socket = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    paths.filter(|path| is_socket(path) && !is_hidden(path)).take(SOCKETS_MAX).collect()
}

/// Whether a path without links lies in a folder of the system that is empty for each program.
fn is_hidden(path: &Path) -> bool {
    TEMPORARY.iter().chain(&["/run"]).any(|folder| path.starts_with(folder))
}

/// The first link on the way to a place that lies in a folder that can be written.
fn link_below(place: &Path, root: &Path) -> Option<PathBuf> {
    let way: Vec<_> = place.ancestors().collect();
    let link = way.into_iter().rev().find(|path| {
        path.symlink_metadata().is_ok_and(|found| found.is_symlink())
            && path
                .parent()
                .and_then(|parent| parent.canonicalize().ok())
                .is_some_and(|parent| parent.starts_with(root))
    });
    link.map(Path::to_owned)
}

/// One start, for the thread that makes them.
struct Request {
    isolation: Isolation,
    workspace: Arc<Workspace>,
    launch: Launch,
    runtime: Handle,
    reply: oneshot::Sender<Result<Started, String>>,
}

/// A started program. Without its first process it ended before it began.
struct Started {
    child: Child,
    init: Option<Init>,
    placeholders: Vec<Placeholder>,
}

/// The thread from which all sandboxes are started. They end with the thread that started them, so it lives as long as
/// this process.
fn spawner() -> Result<&'static mpsc::Sender<Request>, String> {
    static SPAWNER: OnceLock<io::Result<mpsc::Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, mut requests) = mpsc::channel::<Request>(WAITING_MAX);
        std::thread::Builder::new().name("rethread-spawn".to_owned()).spawn(move || {
            while let Some(Request { isolation, workspace, launch, runtime, reply }) = requests.blocking_recv() {
                let _runtime = runtime.enter();
                // A panic would end this thread, and every sandbox with it.
                let started = catch_unwind(AssertUnwindSafe(|| start(&isolation, &workspace, launch)));
                let started = started.unwrap_or_else(|_| Err("the runtime is shutting down".to_owned()));
                // If the call has ended, what was started is dropped, and killed with that.
                let _ = reply.send(started);
            }
        })?;
        Ok(sender)
    });
    spawner.as_ref().map_err(ToString::to_string)
}

fn start(isolation: &Isolation, workspace: &Workspace, launch: Launch) -> Result<Started, String> {
    let failed = |error: io::Error| error.to_string();
    let found = found().as_ref().map_err(Clone::clone)?;
    let (mut arguments, placeholders) = found.arguments(isolation, workspace, &launch)?;
    let (read, low) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let write = rustix::io::fcntl_dupfd_cloexec(&low, NUMBER_MIN).map_err(|error| failed(error.into()))?;
    drop(low);
    rustix::io::fcntl_setfd(&write, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    arguments.extend(["--info-fd".into(), write.as_raw_fd().to_string().into(), "--".into()]);
    arguments.extend(limited(isolation, launch.has_input, std::iter::once(launch.program).chain(launch.arguments)));
    let environment = launch.environment.into_iter().filter(|(name, _)| name != "TMPDIR").collect();
    // The end of the output of a server is noticed. That of a command is not waited for.
    let (program, arguments) = match launch.has_input {
        true => {
            let shell = ["-c", WITH_OUTPUT, "sh", found.program].map(OsString::from);
            ("/bin/sh", shell.into_iter().chain(arguments).collect())
        }
        false => (found.program, arguments),
    };
    let launch = Launch {
        program: program.into(),
        arguments,
        environment,
        folder: "/".into(),
        has_input: true,
        own_files: Vec::new(),
    };
    let child = launch.start().map_err(failed)?;
    drop(write);
    let monitor = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let init = monitor.and_then(|monitor| Init::from_info(&read, monitor));
    Ok(Started { child, init, placeholders })
}

/// The first process of a sandbox. All processes of the sandbox end with it.
#[derive(Debug)]
struct Init {
    pid: Pid,
    handle: OwnedFd,
}

impl Init {
    /// The process whose number bubblewrap writes. None if it ends before.
    fn from_info(info: &OwnedFd, monitor: Pid) -> Option<Self> {
        let (begun, mut text) = (Instant::now(), Vec::new());
        while begun.elapsed() < START_MAX {
            if !is_ready(info, Timespec { tv_sec: 0, tv_nsec: 20_000_000 }) {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
                match waitid(WaitId::Pid(monitor), options) {
                    Ok(None) => continue,
                    _ => return None,
                }
            }
            let mut bytes = [0; 1024];
            match rustix::io::read(info, &mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(n_read) => text.extend_from_slice(&bytes[..n_read]),
            }
            if let Ok(parsed) = serde_json::from_slice::<Value>(&text) {
                let pid = Pid::from_raw(i32::try_from(parsed["child-pid"].as_i64()?).ok()?)?;
                return Some(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).ok()? });
            }
        }
        None
    }
}

fn is_ready(handle: &OwnedFd, wait: Timespec) -> bool {
    poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&wait)).is_ok_and(|n_ready| n_ready > 0)
}

/// A running sandbox. Dropping it kills everything in it.
#[derive(Debug)]
pub(crate) struct Sandbox {
    init: Init,
    placeholders: Vec<Placeholder>,
}

impl Sandbox {
    /// Asks every process of the sandbox to end.
    pub(crate) fn terminate(&self) {
        let mut ahead = vec![self.init.pid];
        while let Some(pid) = ahead.pop().filter(|_| !self.is_gone()) {
            let n = pid.as_raw_pid();
            let children = std::fs::read_to_string(format!("/proc/{n}/task/{n}/children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
            for child in children {
                let _ = kill_process(child, Signal::TERM);
                ahead.push(child);
            }
        }
    }

    /// Ends every process of the sandbox.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.init.handle, Signal::KILL);
    }

    /// Whether no process of the sandbox is left.
    pub(crate) fn is_gone(&self) -> bool {
        is_ready(&self.init.handle, Timespec { tv_sec: 0, tv_nsec: 0 })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill();
        // A process that still runs could write where a placeholder was.
        if !self.placeholders.is_empty() && !is_ready(&self.init.handle, DROP_MAX) {
            std::mem::forget(std::mem::take(&mut self.placeholders));
        }
    }
}

/// Starts a program in a sandbox of its own. The error says why nothing was run.
pub(super) async fn spawn(
    isolation: &Isolation,
    launch: Launch,
    workspace: &Arc<Workspace>,
) -> Result<(Child, Group), String> {
    let mut said = String::new();
    for _ in 0..STARTS_MAX {
        match spawn_once(isolation, launch.clone(), workspace).await? {
            Ok(started) => return Ok(started),
            Err(refused) => said = refused,
        }
    }
    Err(format!("the sandbox did not start: {said}"))
}

/// Starts it once. The inner error is what the sandbox said when it ended before the program began.
async fn spawn_once(
    isolation: &Isolation,
    launch: Launch,
    workspace: &Arc<Workspace>,
) -> Result<Result<(Child, Group), String>, String> {
    let (reply, started) = oneshot::channel();
    let (isolation, workspace, has_input) = (isolation.clone(), Arc::clone(workspace), launch.has_input);
    let request = Request { isolation, workspace, launch, runtime: Handle::current(), reply };
    let ended = || "the thread that starts commands has ended".to_owned();
    spawner()?.send(request).await.map_err(|_| ended())?;
    let Started { mut child, init, placeholders } = started.await.map_err(|_| ended())??;
    let group = Group::of(&child).map_err(|error| error.message)?;
    let group = match init {
        Some(init) => group.with(Sandbox { init, placeholders }),
        None => group,
    };
    match tokio::time::timeout(START_MAX, start_program(&mut child, has_input)).await {
        Ok(Ok(())) => Ok(Ok((child, group))),
        waited => {
            drop(group);
            let output = tokio::time::timeout(Duration::from_secs(1), child.wait_with_output()).await;
            let said = output.ok().and_then(Result::ok).map(|output| output.stderr).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            match waited {
                Ok(_) => Ok(Err(said)),
                Err(_) => Err(format!("the sandbox did not start in {} s: {said}", START_MAX.as_secs())),
            }
        }
    }
}

/// Waits until the sandbox is ready, and starts the program.
async fn start_program(child: &mut Child, has_input: bool) -> io::Result<()> {
    let (Some(input), Some(output)) = (&mut child.stdin, &mut child.stdout) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    output.read_u8().await?;
    input.write_all(b"\n").await?;
    if !has_input {
        child.stdin = None;
    }
    Ok(())
}
