//! A way to a cluster that can be cut, or go silent, as a network does whose other end is gone:
//! connections stay open, and nothing passes.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::Cluster;

/// In the name of its socket.
const PORT: u16 = 5_432;
/// Bytes that are passed on at once.
const PASSED_BYTES: usize = 16 << 10;

/// The way. Dropped, it takes no further connections; those that are there end with their client.
#[derive(Debug)]
pub struct Relay {
    folder: TempDir,
    state: Arc<RelayState>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RelayState {
    /// The cluster's socket.
    target: PathBuf,
    is_silent: AtomicBool,
    is_cut: AtomicBool,
    is_over: AtomicBool,
    /// The ends of all that were made.
    clients: Mutex<Vec<UnixStream>>,
    /// How often it has gone silent: what was connected before stays so.
    silences: AtomicU64,
    connections: AtomicU64,
}

impl Relay {
    /// Listens on a socket in a folder of its own, which goes with it.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(cluster: &Cluster) -> Result<Relay> {
        let folder = tempfile::Builder::new()
            .prefix("tidemark-relay-")
            .tempdir_in("/tmp")?;
        let listener = UnixListener::bind(socket_in(folder.path()))?;
        let state = Arc::new(RelayState {
            target: cluster.socket(),
            is_silent: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            clients: Mutex::default(),
            silences: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let of_thread = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("relay".to_owned());
        let listener = thread.spawn(move || of_thread.listen(&listener))?;
        Ok(Relay {
            folder,
            state,
            listener: Some(listener),
        })
    }

    /// Where a client finds a database of the cluster through it, as the cluster's owner.
    pub fn url(&self, database: &str) -> String {
        Cluster::url_in(self.folder.path(), PORT, database)
    }

    /// Lets nothing pass any more, in either direction.
    pub fn go_silent(&self) {
        self.state.silences.fetch_add(1, Ordering::SeqCst);
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// Ends all connections, and takes none until it goes on.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
        for client in self.state.clients().drain(..) {
            // One that has ended is no connection.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Lets new connections pass. Those that were there when it went silent stay so.
    pub fn go_on(&self) {
        self.state.is_cut.store(false, Ordering::SeqCst);
        self.state.is_silent.store(false, Ordering::SeqCst);
    }

    /// How many connections were made through it.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // So that it looks.
        let _ = UnixStream::connect(socket_in(self.folder.path()));
        if let Some(listener) = self.listener.take() {
            // It has printed why, if it panicked.
            let _ = listener.join();
        }
    }
}

impl RelayState {
    fn listen(self: &Arc<Self>, listener: &UnixListener) {
        for client in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            if let Ok(end) = client.try_clone() {
                self.clients().push(end);
            }
            // After it stands in the list, so that no cut misses it.
            if self.is_cut.load(Ordering::SeqCst) {
                let _ = client.shutdown(Shutdown::Both);
                continue;
            }
            self.connections.fetch_add(1, Ordering::SeqCst);
            // One that comes while it is silent never passes.
            let passes = !self.is_silent.load(Ordering::SeqCst);
            let passes_at = passes.then(|| self.silences.load(Ordering::SeqCst));
            // A client whose server does not take it learns so by the end of its connection.
            let _ = self.join(client, passes_at);
        }
    }

    fn join(self: &Arc<Self>, client: UnixStream, passes_at: Option<u64>) -> Result<()> {
        let server = UnixStream::connect(&self.target).context("the cluster does not answer")?;
        let back = (server.try_clone()?, client.try_clone()?);
        for (from, to) in [(client, server), back] {
            let state = Arc::clone(self);
            let thread = std::thread::Builder::new().name("relayed".to_owned());
            thread.spawn(move || state.pass(from, to, passes_at))?;
        }
        Ok(())
    }

    fn clients(&self) -> MutexGuard<'_, Vec<UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, mut from: UnixStream, mut to: UnixStream, passes_at: Option<u64>) {
        let mut bytes = [0; PASSED_BYTES];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let passes = passes_at == Some(self.silences.load(Ordering::SeqCst));
            if passes && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join(format!(".s.PGSQL.{PORT}"))
}
