//! Bytes on their way to a process, which any thread may send.

use std::convert::Infallible;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// What is to be sent to one process. Not bounded here: what may be on its way is bounded by
/// credit.
#[derive(Debug)]
pub struct Outgoing {
    /// `None` where no process was started.
    socket: Option<OwnedWriteHalf>,
    waiting: Mutex<Vec<u8>>,
    /// Held by the thread that writes.
    writing: Mutex<HalfSent>,
    /// The socket has no room.
    is_full: Notify,
}

/// Bytes of which the socket has taken a part. They stay where they are until all are sent: a
/// process that reads slowly must not have the rest moved each time.
#[derive(Debug, Default)]
struct HalfSent {
    bytes: Vec<u8>,
    sent: usize,
}

/// [`Outgoing::flush`] for each.
pub fn flush_all(unsent: &[Arc<Outgoing>]) {
    for outgoing in unsent {
        outgoing.flush();
    }
}

impl Outgoing {
    /// Bytes for this socket. Someone must [`Outgoing::flush_when_writable`].
    pub fn new(socket: OwnedWriteHalf) -> Arc<Outgoing> {
        Arc::new(Outgoing {
            socket: Some(socket),
            waiting: Mutex::default(),
            writing: Mutex::default(),
            is_full: Notify::new(),
        })
    }

    /// For a process that was never started.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn nowhere() -> Arc<Outgoing> {
        Arc::new(Outgoing {
            socket: None,
            waiting: Mutex::default(),
            writing: Mutex::default(),
            is_full: Notify::new(),
        })
    }

    /// Takes bytes in; [`Outgoing::flush`] sends them.
    pub fn push(&self, bytes: Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            *waiting = bytes;
        } else {
            waiting.extend_from_slice(&bytes);
        }
    }

    /// Whether something waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting().is_empty()
    }

    /// How much waits.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> usize {
        self.waiting().len()
    }

    /// Sends what waits, as far as the socket has room. Never blocks. While another thread sends,
    /// that thread sends this as well.
    pub fn flush(&self) {
        // Looked at again after `writing` is free: what was pushed while it was held must not stay.
        while self.has_waiting() && self.send() {}
    }

    /// Whether all is sent. If not, another thread sends, or is to be woken by the socket.
    fn send(&self) -> bool {
        let Ok(mut half) = self.writing.try_lock() else {
            return false;
        };
        loop {
            if half.sent == half.bytes.len() {
                half.bytes = mem::take(&mut *self.waiting());
                half.sent = 0;
                if half.bytes.is_empty() {
                    return true;
                }
            }
            half.sent += self.write(&half.bytes[half.sent..]);
            if half.sent < half.bytes.len() {
                // Before the other is woken, who needs it.
                drop(half);
                self.is_full.notify_one();
                return false;
            }
        }
    }

    /// How many of the bytes are done with: all, unless the socket is full.
    fn write(&self, bytes: &[u8]) -> usize {
        let Some(socket) = &self.socket else {
            return bytes.len();
        };
        let mut sent = 0;
        while sent < bytes.len() {
            match socket.try_write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return sent,
                // A process that closed its end is seen by the reader.
                Err(_) => return bytes.len(),
            }
        }
        sent
    }

    /// Goes on whenever a full socket has room again.
    pub async fn flush_when_writable(self: Arc<Outgoing>) -> Infallible {
        loop {
            self.is_full.notified().await;
            if let Some(socket) = &self.socket
                && socket.writable().await.is_ok()
                && self.send()
            {
                self.flush();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    /// What many threads push arrives whole and each piece in one, also when the socket was full.
    #[tokio::test]
    async fn outgoing_bytes_of_many_threads_arrive_whole() {
        const THREADS: u8 = 4;
        const PIECES: usize = 200;
        const PIECE: usize = 5_000;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (_read, write) = ours.into_split();
        let outgoing = Outgoing::new(write);
        let going = tokio::spawn(outgoing.clone().flush_when_writable());
        let threads: Vec<_> = (0..THREADS)
            .map(|mark| {
                let outgoing = outgoing.clone();
                std::thread::spawn(move || {
                    for _ in 0..PIECES {
                        outgoing.push(vec![mark; PIECE]);
                        outgoing.flush();
                    }
                })
            })
            .collect();
        let mut counts = [0; THREADS as usize];
        let mut piece = vec![0; PIECE];
        for _ in 0..usize::from(THREADS) * PIECES {
            theirs.read_exact(&mut piece).await.unwrap();
            assert!(piece.iter().all(|byte| *byte == piece[0]));
            counts[usize::from(piece[0])] += 1;
        }
        assert_eq!(counts, [PIECES; THREADS as usize]);
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!outgoing.has_waiting());
        going.abort();
    }
}
