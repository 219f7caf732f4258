//! A connection to a Redis server on which a call has an end, however slowly the other side sends
//! or takes bytes, and an answer a largest size.

use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, ConnectionLike, ErrorKind, RedisError, RedisResult, Value};

use super::address::RedisPlace;
use super::answer::read_answer;
use crate::paced::{LoopSocket, PacedChannel};

const BUFFER_BYTES: usize = 16 << 10;

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
    stream: BufReader<PacedChannel>,
    bounds: CallBounds,
    database: i64,
    speaks_resp3: bool,
}

impl ServerConnection {
    /// Connects within `limit`, names and certificates included.
    pub fn open(
        place: &RedisPlace,
        limit: Duration,
        bounds: CallBounds,
    ) -> RedisResult<ServerConnection> {
        let channel = match place.info.addr() {
            ConnectionAddr::Unix(path) => PacedChannel::by_path(path, limit)?,
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                PacedChannel::by_tcp(host, *port, place.tls.as_ref(), limit)?
            }
            _ => {
                let text = "the address is of no kind that is known";
                return Err(RedisError::from((ErrorKind::InvalidClientConfig, text)));
            }
        };
        let mut connection = ServerConnection {
            stream: BufReader::with_capacity(BUFFER_BYTES, channel),
            bounds,
            database: place.info.redis_settings().db(),
            speaks_resp3: false,
        };
        connection.introduce(place)?;
        Ok(connection)
    }

    /// The same, whose calls may cost this from now on.
    pub fn bounded_by(self, bounds: CallBounds) -> ServerConnection {
        ServerConnection { bounds, ..self }
    }

    /// Its socket for an event loop, which does not wait; `None` by TLS.
    pub fn into_loop_socket(self) -> RedisResult<Option<LoopSocket>> {
        if !self.stream.buffer().is_empty() {
            return Err(unsent());
        }
        Ok(self.stream.into_inner().into_loop_socket()?)
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
        Ok(self.stream.get_mut().begin(self.bounds.timeout)?)
    }

    /// Sends commands that have `answers`, all of which are read.
    fn call(&mut self, commands: &[u8], answers: usize) -> RedisResult<Vec<Value>> {
        self.begin()?;
        self.send(commands)?;
        let values = (0..answers).map(|_| self.answer());
        let values = values.collect::<RedisResult<Vec<Value>>>()?;
        if !self.stream.buffer().is_empty() {
            return Err(unsent());
        }
        Ok(values)
    }

    /// Sends a command after whose answer the server says more by itself.
    pub fn open_channel(&mut self, command: &Cmd) -> RedisResult<()> {
        self.begin()?;
        self.ask(command)?.extract_error().map(drop)
    }

    /// Whether what the server says by itself is told from its answers from now on (RESP3), so that
    /// it can still be asked on a connection that listens. Servers before Redis 6 cannot.
    pub fn speak_resp3(&mut self) -> RedisResult<bool> {
        self.begin()?;
        let mut hello = redis::cmd("HELLO");
        match self.ask(hello.arg(3))? {
            Value::Map(_) => self.speaks_resp3 = true,
            Value::ServerError(_) => {}
            _ => return Err(unsent()),
        }
        Ok(self.speaks_resp3)
    }

    /// Whether it does.
    pub fn speaks_resp3(&self) -> bool {
        self.speaks_resp3
    }

    /// Sends commands whose answers come among what the server says by itself.
    pub fn post(&mut self, commands: &[u8]) -> RedisResult<()> {
        self.begin()?;
        self.send(commands)
    }

    /// Waits until the server says something by itself. False if it does not for so long.
    pub fn is_said_within(&mut self, limit: Duration) -> RedisResult<bool> {
        self.stream.get_mut().begin(limit)?;
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

/// The error for an answer to nothing.
pub fn unsent() -> RedisError {
    RedisError::from((ErrorKind::Parse, "the server answers what was not sent"))
}

/// Whether a server that answers so to a password refuses it. Others are loading, or no Redis.
fn is_refusal(code: &str) -> bool {
    matches!(code, "ERR" | "WRONGPASS" | "NOPERM" | "NOAUTH")
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
