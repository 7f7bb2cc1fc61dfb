//! A network between two processes of this machine that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How often it looks whether it is mended.
const LOOK: Duration = Duration::from_millis(5);

/// Passes connections on to a port of this machine. While it is cut, nothing comes through and nobody is told, as if packets
/// were lost; afterwards, what was sent meanwhile arrives. It lives as long as the process.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Proxy {
    /// Begins to pass connections on.
    ///
    /// # Panics
    ///
    /// If the system has no free port.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = is_cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let cut = cut.clone();
                std::thread::spawn(move || connect(client, target, &cut));
            }
        });
        Self { port, is_cut }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets nothing through any more.
    pub fn cut(&self) {
        self.is_cut.store(true, Relaxed);
    }

    /// Lets everything through again.
    pub fn mend(&self) {
        self.is_cut.store(false, Relaxed);
    }
}

fn wait(is_cut: &AtomicBool) {
    while is_cut.load(Relaxed) {
        std::thread::sleep(LOOK);
    }
}

fn connect(client: TcpStream, target: u16, is_cut: &Arc<AtomicBool>) {
    wait(is_cut);
    // The client finds its connection closed.
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { return };
    let (Ok(from_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else { return };
    let cut = is_cut.clone();
    std::thread::spawn(move || pass(from_server, to_client, &cut));
    pass(client, server, is_cut);
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut piece = vec![0; 64 << 10];
    loop {
        let n = from.read(&mut piece).unwrap_or(0);
        wait(is_cut);
        if n == 0 || to.write_all(&piece[..n]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
