//! A Redis server of a test's own, and a proxy in front of it that delays and cuts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tiers::{RedisTier, TierServer, TierTls};

/// A server on a socket in a folder, without a port. It ends with this.
pub struct RedisServer {
    folder: TempDir,
    child: Child,
    words: Vec<String>,
}

impl RedisServer {
    pub fn start(words: &[&str]) -> RedisServer {
        let folder = tempfile::tempdir().unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let child = run(folder.path(), &words);
        RedisServer {
            folder,
            child,
            words,
        }
    }

    pub fn socket(&self) -> PathBuf {
        socket_in(self.folder.path())
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub fn stop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let _ = std::fs::remove_file(self.socket());
    }

    /// Another one in its place, which holds nothing.
    pub fn restart(&mut self) {
        self.stop();
        self.child = run(self.folder.path(), &self.words);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn run(folder: &Path, words: &[String]) -> Child {
    let mut child = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no"])
        .arg("--unixsocket")
        .arg(socket_in(folder))
        .args(words)
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is on the path: apt-get install redis-server");
    while UnixStream::connect(socket_in(folder)).is_err() {
        let ended = child.try_wait().unwrap();
        assert_eq!(ended, None, "redis-server has ended: {words:?}");
        thread::sleep(Duration::from_millis(2));
    }
    child
}

pub fn settings(url: &str) -> TierServer {
    TierServer {
        url: url.to_owned(),
        tls: TierTls::default(),
        prefix: "test:".to_owned(),
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(5),
        answer_bytes_max: 16 << 20,
        idle_max: 10,
    }
}

pub fn tier(url: &str) -> RedisTier {
    RedisTier::new(settings(url), super::host()).unwrap()
}

/// What a proxy does with the bytes of the server.
#[derive(Clone, Copy)]
pub enum ProxyMode {
    Pass,
    /// Holds them back until the mode is another one.
    Delay,
    /// Passes on the first half of each piece, and ends the connection.
    Cut,
}

pub struct Proxy {
    pub url: String,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    pub fn before(server: &RedisServer) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let mode: Arc<AtomicU8> = Arc::default();
        let (socket, shared) = (server.socket(), mode.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server the client finds its connection closed.
                if let Ok(server) = UnixStream::connect(&socket) {
                    pass_both_ways(client, server, shared.clone());
                }
            }
        });
        Proxy { url, mode }
    }

    pub fn set(&self, mode: ProxyMode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

fn pass_both_ways(client: TcpStream, server: UnixStream, mode: Arc<AtomicU8>) {
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        let mut piece = [0; 4_096];
        while let Ok(length @ 1..) = server.read(&mut piece) {
            while mode.load(Ordering::SeqCst) == ProxyMode::Delay as u8 {
                thread::sleep(Duration::from_millis(1));
            }
            let is_cut = mode.load(Ordering::SeqCst) == ProxyMode::Cut as u8;
            let length = if is_cut { length / 2 } else { length };
            if client.write_all(&piece[..length]).is_err() || is_cut {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}
