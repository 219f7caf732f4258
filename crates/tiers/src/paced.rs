//! Connections to servers on which what is begun has an end, however slowly the other side sends or
//! takes bytes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::tls::TlsPlace;

/// The system's timeout is set again when it would let a call end later than this part of its
/// limit: so a call whose answer comes at once costs no call of the system for its end.
const SLACK: u32 = 8;

enum PlainSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl PlainSocket {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            PlainSocket::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            PlainSocket::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            PlainSocket::Tcp(stream) => stream.read(to),
            PlainSocket::Unix(stream) => stream.read(to),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PlainSocket::Tcp(stream) => stream.write(bytes),
            PlainSocket::Unix(stream) => stream.write(bytes),
        }
    }
}

/// A socket of which an event loop knows when it can be used. It never waits.
pub struct LoopSocket(PlainSocket);

impl Read for LoopSocket {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for LoopSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for LoopSocket {
    fn as_raw_fd(&self) -> RawFd {
        match &self.0 {
            PlainSocket::Tcp(stream) => stream.as_raw_fd(),
            PlainSocket::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// A socket that gives up at the end of the call it is used for.
pub struct PacedSocket {
    socket: PlainSocket,
    until: Instant,
    limit: Duration,
    /// What the system's timeout is.
    set: Duration,
}

impl PacedSocket {
    fn new(socket: PlainSocket, limit: Duration) -> io::Result<PacedSocket> {
        socket.set_timeout(limit)?;
        Ok(PacedSocket {
            socket,
            until: Instant::now() + limit,
            limit,
            set: limit,
        })
    }

    /// From now on everything together may take so long.
    fn begin(&mut self, limit: Duration) -> io::Result<()> {
        let now = Instant::now();
        self.limit = limit;
        self.until = now + limit;
        self.pace(now)
    }

    fn pace(&mut self, now: Instant) -> io::Result<()> {
        let left = self.until.saturating_duration_since(now);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let slack = self.limit / SLACK;
        if self.set > left + slack || self.set + slack < left {
            self.socket.set_timeout(left)?;
            self.set = left;
        }
        Ok(())
    }
}

impl Read for PacedSocket {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.pace(Instant::now())?;
        self.socket.read(to)
    }
}

impl Write for PacedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pace(Instant::now())?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection, encrypted or not, on which what is begun has an end.
pub enum PacedChannel {
    Plain(PacedSocket),
    Tls(Box<StreamOwned<ClientConnection, PacedSocket>>),
}

impl PacedChannel {
    /// Connects by TCP, and by TLS if there is a configuration and a name.
    pub fn by_tcp(
        host: &str,
        port: u16,
        tls: Option<&TlsPlace>,
        limit: Duration,
    ) -> io::Result<PacedChannel> {
        let until = Instant::now() + limit;
        let socket = PlainSocket::Tcp(connected(host, port, until)?);
        let left = until.saturating_duration_since(Instant::now());
        let socket = PacedSocket::new(socket, left.max(Duration::from_millis(1)))?;
        let Some((config, name)) = tls else {
            return Ok(PacedChannel::Plain(socket));
        };
        let session = ClientConnection::new(Arc::clone(config), name.clone());
        let session = session.map_err(io::Error::other)?;
        Ok(PacedChannel::Tls(Box::new(StreamOwned::new(
            session, socket,
        ))))
    }

    /// Connects to a socket of this host.
    pub fn by_path(path: &Path, limit: Duration) -> io::Result<PacedChannel> {
        let socket = PlainSocket::Unix(UnixStream::connect(path)?);
        PacedSocket::new(socket, limit).map(PacedChannel::Plain)
    }

    /// Its socket for an event loop; `None` by TLS.
    pub fn into_loop_socket(self) -> io::Result<Option<LoopSocket>> {
        let PacedChannel::Plain(PacedSocket { socket, .. }) = self else {
            return Ok(None);
        };
        match &socket {
            PlainSocket::Tcp(stream) => stream.set_nonblocking(true)?,
            PlainSocket::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(Some(LoopSocket(socket)))
    }

    /// From now on everything together may take so long.
    pub fn begin(&mut self, limit: Duration) -> io::Result<()> {
        self.socket().begin(limit)
    }

    fn socket(&mut self) -> &mut PacedSocket {
        match self {
            PacedChannel::Plain(socket) => socket,
            PacedChannel::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for PacedChannel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            PacedChannel::Plain(socket) => socket.read(to),
            PacedChannel::Tls(stream) => stream.read(to),
        }
    }
}

impl Write for PacedChannel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PacedChannel::Plain(socket) => socket.write(bytes),
            PacedChannel::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            PacedChannel::Plain(socket) => socket.flush(),
            PacedChannel::Tls(stream) => stream.flush(),
        }
    }
}

fn connected(host: &str, port: u16, until: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                // A call waits for its answer, so that bytes kept back would only cost time.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
