//! The pipe by which a process says which requests it starts.
//!
//! Written before each handler is called, and read only when something is due by the clock or the
//! process has ended: a frame for each would wake the server twice as often.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::OFlags;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::UnixStream;

use crate::handed_descriptors::{self, HandedKind};

/// Where adapters expect it.
const STARTS: i32 = 4;
/// Reads at one time: as many as a full pipe gives (64 KiB, pipe(7)).
const READS_MAX: usize = 16;
const READ_BYTES: usize = 4096;

/// Makes the pipe, hands its end for reading to the server, and keeps the other. Call it where
/// no descriptor beyond that of the socket is open.
pub fn hand_over(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    handed_descriptors::hand_over(socket, HandedKind::Starts, &[read.as_fd()])?;
    drop(read);
    let starts = fcntl_dupfd_cloexec(write, STARTS)?;
    if starts.as_raw_fd() != STARTS {
        return Err(io::Error::other("descriptor 4 is taken"));
    }
    Ok(starts)
}

/// The end for reading, once it was handed over.
#[derive(Debug, Default)]
pub struct Starts {
    pipe: OnceLock<OwnedFd>,
}

impl Starts {
    /// What was handed over before.
    #[cfg(test)]
    pub fn of(pipe: OwnedFd) -> Starts {
        Starts { pipe: pipe.into() }
    }

    /// Takes it over; false when the process has ended before.
    pub async fn take_over(&self, socket: &UnixStream) -> io::Result<bool> {
        let handed = handed_descriptors::take_over::<1>(socket, HandedKind::Starts).await?;
        let Some([pipe]) = handed else {
            return Ok(false);
        };
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let _ = self.pipe.set(pipe);
        Ok(true)
    }

    /// Calls `started` for each request that was written since; hostile input. Does not wait.
    pub fn take(&self, mut started: impl FnMut(u32)) {
        let Some(pipe) = self.pipe.get() else { return };
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            let Ok(count) = rustix::io::read(pipe, &mut bytes) else {
                return;
            };
            for number in bytes[..count].as_chunks::<4>().0 {
                started(u32::from_le_bytes(*number));
            }
            if count < READ_BYTES {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_as_they_were_written() {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let starts = Starts::default();
        let taken = || {
            let mut taken = Vec::new();
            starts.take(|request| taken.push(request));
            taken
        };
        assert!(taken().is_empty());
        starts.pipe.set(read).unwrap();
        assert!(taken().is_empty());
        let mut written = Vec::new();
        // Until the pipe is full.
        for request in 0_u32.. {
            if rustix::io::write(&write, &request.to_le_bytes()).is_err() {
                break;
            }
            written.push(request);
        }
        assert_eq!(taken(), written);
        rustix::io::write(&write, &[1, 0, 0, 0, 9]).unwrap();
        assert_eq!(taken(), [1]);
        drop(write);
        assert!(taken().is_empty());
    }
}
