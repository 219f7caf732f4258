//! A way to a cluster that can be cut, between any two messages, too, or go silent, as a network
//! does whose other end is gone: connections stay open, and nothing passes.

use std::io::{self, BufReader, BufWriter, Read, Write as _};
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
/// A message that opens a connection, or cancels what runs on one, has no type before its length.
const LENGTH_BYTES: usize = 4;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageWay {
    /// From a client.
    ToServer,
    /// From the cluster.
    ToClient,
}

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
    planned: Mutex<Option<PlannedCut>>,
    /// The ends of all that were made.
    clients: Mutex<Vec<UnixStream>>,
    /// How often it has gone silent: what was connected before stays so.
    silences: AtomicU64,
    connections: AtomicU64,
}

/// Before which message a connection is to end.
#[derive(Debug)]
struct PlannedCut {
    way: MessageWay,
    /// How many pass before it.
    left: u64,
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
            planned: Mutex::default(),
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

    /// Takes no connection until it goes on. Those that are there stay.
    pub fn take_no_more(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
    }

    /// Ends all connections, and takes none until it goes on.
    pub fn cut(&self) {
        self.take_no_more();
        for client in self.state.clients().drain(..) {
            // One that has ended is no connection.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Passes on so many messages that go this way, of whatever connections. The next one does not
    /// pass: its connection ends, as if the other end were gone. New ones are taken as before.
    pub fn plan_cut(&self, way: MessageWay, left: u64) {
        *self.state.planned() = Some(PlannedCut { way, left });
    }

    /// Plans no cut any more: whether the one that was planned was still to come.
    pub fn forget_cut(&self) -> bool {
        self.state.planned().take().is_some()
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
        for (way, (from, to)) in [
            (MessageWay::ToServer, (client, server)),
            (MessageWay::ToClient, back),
        ] {
            let state = Arc::clone(self);
            let thread = std::thread::Builder::new().name("relayed".to_owned());
            thread.spawn(move || state.pass(way, (&from, &to), passes_at))?;
        }
        Ok(())
    }

    fn planned(&self) -> MutexGuard<'_, Option<PlannedCut>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection ends before this message that goes this way.
    fn is_cut_before(&self, way: MessageWay) -> bool {
        let mut planned = self.planned();
        match &mut *planned {
            Some(cut) if cut.way == way && cut.left == 0 => {
                *planned = None;
                true
            }
            Some(cut) if cut.way == way => {
                cut.left -= 1;
                false
            }
            _ => false,
        }
    }

    fn clients(&self) -> MutexGuard<'_, Vec<UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(
        &self,
        way: MessageWay,
        (from, to): (&UnixStream, &UnixStream),
        passes_at: Option<u64>,
    ) {
        // It ends with either of its ends.
        let _ = self.pass_messages(way, (from, to), passes_at);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    fn pass_messages(
        &self,
        way: MessageWay,
        (from, to): (&UnixStream, &UnixStream),
        passes_at: Option<u64>,
    ) -> io::Result<()> {
        let (mut from, mut to) = (BufReader::new(from), BufWriter::new(to));
        let mut is_first = way == MessageWay::ToServer;
        loop {
            let message = read_message(&mut from, !is_first)?;
            is_first = false;
            if self.is_cut_before(way) {
                // What came before it has passed.
                return to.flush();
            }
            if passes_at == Some(self.silences.load(Ordering::SeqCst)) {
                to.write_all(&message)?;
            }
            if from.buffer().is_empty() {
                to.flush()?;
            }
        }
    }
}

/// The next message; at the end of the connection an error.
fn read_message(from: &mut impl Read, has_type: bool) -> io::Result<Vec<u8>> {
    let head_bytes = usize::from(has_type) + LENGTH_BYTES;
    let mut message = vec![0; head_bytes];
    from.read_exact(&mut message)?;
    let length = message
        .last_chunk::<LENGTH_BYTES>()
        .expect("it is in the head");
    // It counts itself.
    let body_bytes = u32::from_be_bytes(*length).saturating_sub(LENGTH_BYTES as u32);
    from.take(body_bytes.into()).read_to_end(&mut message)?;
    if message.len() < head_bytes + body_bytes as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message)
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join(format!(".s.PGSQL.{PORT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_one_by_one_and_the_first_has_no_type() {
        let opening = [0, 0, 0, 6, 1, 2];
        let sync = [b'S', 0, 0, 0, 4];
        let row = [b'D', 0, 0, 0, 5, 9];
        let all = [&opening[..], &sync, &row, &row[..4]].concat();
        let mut from = all.as_slice();
        assert_eq!(read_message(&mut from, false).unwrap(), opening);
        assert_eq!(read_message(&mut from, true).unwrap(), sync);
        assert_eq!(read_message(&mut from, true).unwrap(), row);
        let cut = read_message(&mut from, true).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
