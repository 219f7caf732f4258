//! A connection to a Redis server on which a call has an end, however slowly the other side sends
//! or takes bytes, and an answer a largest size.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionAddr, ConnectionLike, ErrorKind, RedisError, RedisResult, Value};
use rustls::{ClientConnection, StreamOwned};

use super::address::RedisPlace;
use super::answer::read_answer;

const BUFFER_BYTES: usize = 16 << 10;
/// The system's timeout is set again when it would let a call end later than this part of its
/// limit: so a call whose answer comes at once costs no call of the system for its end.
const SLACK: u32 = 8;

enum RedisSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl RedisSocket {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            RedisSocket::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            RedisSocket::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }
}

/// A socket that gives up at the end of the call it is used for.
struct PacedSocket {
    socket: RedisSocket,
    until: Instant,
    limit: Duration,
    /// What the system's timeout is.
    set: Duration,
}

impl PacedSocket {
    fn new(socket: RedisSocket, limit: Duration) -> io::Result<PacedSocket> {
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
        self.limit = limit;
        self.until = Instant::now() + limit;
        self.pace()
    }

    fn pace(&mut self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
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
        self.pace()?;
        match &mut self.socket {
            RedisSocket::Tcp(stream) => stream.read(to),
            RedisSocket::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for PacedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pace()?;
        match &mut self.socket {
            RedisSocket::Tcp(stream) => stream.write(bytes),
            RedisSocket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Channel {
    Plain(PacedSocket),
    Tls(Box<StreamOwned<ClientConnection, PacedSocket>>),
}

impl Channel {
    fn socket(&mut self) -> &mut PacedSocket {
        match self {
            Channel::Plain(socket) => socket,
            Channel::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for Channel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.read(to),
            Channel::Tls(stream) => stream.read(to),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(socket) => socket.write(bytes),
            Channel::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(socket) => socket.flush(),
            Channel::Tls(stream) => stream.flush(),
        }
    }
}

/// What the calls of one connection may cost.
#[derive(Clone, Copy)]
pub struct CallBounds {
    /// From the first byte that is sent to the last one of the answer.
    pub timeout: Duration,
    /// Bytes of the texts in one answer.
    pub answer_bytes_max: usize,
}

/// A connection that has said who it is. After an error it is of no more use: what an answer
/// belongs to is unknown then.
pub struct ServerConnection {
    stream: BufReader<Channel>,
    bounds: CallBounds,
    database: i64,
}

impl ServerConnection {
    /// Connects within `limit`, names and certificates included.
    pub fn open(
        place: &RedisPlace,
        limit: Duration,
        bounds: CallBounds,
    ) -> RedisResult<ServerConnection> {
        let until = Instant::now() + limit;
        let socket = match place.info.addr() {
            ConnectionAddr::Unix(path) => RedisSocket::Unix(UnixStream::connect(path)?),
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                RedisSocket::Tcp(connected(host, *port, until)?)
            }
            _ => {
                let text = "the address is of no kind that is known";
                return Err(RedisError::from((ErrorKind::InvalidClientConfig, text)));
            }
        };
        let left = until.saturating_duration_since(Instant::now());
        let socket = PacedSocket::new(socket, left.max(Duration::from_millis(1)))?;
        let channel = match &place.tls {
            None => Channel::Plain(socket),
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::clone(config), name.clone());
                let session = session.map_err(io::Error::other)?;
                Channel::Tls(Box::new(StreamOwned::new(session, socket)))
            }
        };
        let mut connection = ServerConnection {
            stream: BufReader::with_capacity(BUFFER_BYTES, channel),
            bounds,
            database: place.info.redis_settings().db(),
        };
        connection.introduce(place)?;
        Ok(connection)
    }

    /// Its name and password, and its database, still within the time for connecting.
    fn introduce(&mut self, place: &RedisPlace) -> RedisResult<()> {
        let settings = place.info.redis_settings();
        if let Some(password) = settings.password() {
            let mut name = redis::cmd("AUTH");
            if let Some(user) = settings.username() {
                name.arg(user);
            }
            match self.ask(name.arg(password))? {
                Value::Okay => {}
                Value::ServerError(error) if is_refusal(error.code()) => {
                    let said = error.details().unwrap_or_default().to_owned();
                    let text = "the name or password is refused";
                    return Err((ErrorKind::AuthenticationFailed, text, said).into());
                }
                other => drop(other.extract_error()?),
            }
        }
        if self.database != 0 {
            let mut select = redis::cmd("SELECT");
            self.ask(select.arg(self.database))?.extract_error()?;
        }
        Ok(())
    }

    fn send(&mut self, commands: &[u8]) -> RedisResult<()> {
        let channel = self.stream.get_mut();
        channel.write_all(commands)?;
        Ok(channel.flush()?)
    }

    fn answer(&mut self) -> RedisResult<Value> {
        read_answer(&mut self.stream, self.bounds.answer_bytes_max)
    }

    fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.send(&command.get_packed_command())?;
        self.answer()
    }

    fn begin(&mut self) -> RedisResult<()> {
        let socket = self.stream.get_mut().socket();
        Ok(socket.begin(self.bounds.timeout)?)
    }

    /// Sends commands that have `answers`, all of which are read.
    fn call(&mut self, commands: &[u8], answers: usize) -> RedisResult<Vec<Value>> {
        self.begin()?;
        self.send(commands)?;
        let values = (0..answers).map(|_| self.answer());
        let values = values.collect::<RedisResult<Vec<Value>>>()?;
        if !self.stream.buffer().is_empty() {
            let text = "the server answers what was not sent";
            return Err(RedisError::from((ErrorKind::Parse, text)));
        }
        Ok(values)
    }

    /// Sends a command after whose answer the server says more by itself.
    pub fn open_channel(&mut self, command: &Cmd) -> RedisResult<()> {
        self.begin()?;
        self.ask(command)?.extract_error().map(drop)
    }

    /// Waits until the server says something by itself. False if it does not for so long.
    pub fn is_said_within(&mut self, limit: Duration) -> RedisResult<bool> {
        self.stream.get_mut().socket().begin(limit)?;
        loop {
            let waited = self.stream.fill_buf();
            match waited.map(<[u8]>::is_empty) {
                Ok(false) => return Ok(true),
                Ok(true) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    /// What the server says by itself, of no more than `bytes_max` bytes.
    pub fn said(&mut self, bytes_max: usize) -> RedisResult<Value> {
        self.begin()?;
        read_answer(&mut self.stream, bytes_max)
    }
}

/// Whether a server that answers so to a password refuses it. Others are loading, or no Redis.
fn is_refusal(code: &str) -> bool {
    matches!(code, "ERR" | "WRONGPASS" | "NOPERM" | "NOAUTH")
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

impl ConnectionLike for ServerConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        let mut answers = self.call(command, 1)?;
        Ok(answers.pop().unwrap_or_default())
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let mut answers = self.call(commands, offset + count)?;
        Ok(answers.split_off(offset))
    }

    fn get_db(&self) -> i64 {
        self.database
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").exec(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
}
