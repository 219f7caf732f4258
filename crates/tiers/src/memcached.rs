//! A Memcached server as a store of records, by its meta commands (memcached 1.6,
//! `doc/protocol.txt`, "Meta Commands").
//!
//! Own code, since the clients on crates.io have no bounds on an answer's bytes and time, or no
//! TLS; three commands are needed. It compares nothing here, so that there are no leases, and what
//! [`RecordTier`](super::RecordTier) says of deletions holds.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use rustls::pki_types::ServerName;

use super::host::Host;
use super::idle::IdleConnections;
use super::paced::PacedChannel;
use super::protocol::{self, END};
use super::records::RecordStore;
use super::server::TierServer;
use super::tier::{TierError, TierFault};
use super::tls::{TlsPlace, tls_config};

const BUFFER_BYTES: usize = 16 << 10;
/// Bytes of a line of an answer; a head or an error.
const LINE_BYTES_MAX: u64 = 2_048;
/// Bytes of a key, by the protocol.
const KEY_BYTES_MAX: usize = 250;
/// Characters of what a server says that an error repeats.
const SAID_MAX: usize = 200;
const PORT: u16 = 11_211;

const UNREADABLE: &str = "the address of the Memcached server cannot be read; it is \
                          memcached://host[:port], memcacheds://host[:port] for TLS, or \
                          memcached+unix:///path, without a name, a password or parameters";

enum MemcachedPlace {
    Tcp {
        host: String,
        port: u16,
        tls: Option<TlsPlace>,
    },
    Unix(PathBuf),
}

/// The records in a Memcached server.
pub struct MemcachedStore {
    place: MemcachedPlace,
    settings: TierServer,
    idle: IdleConnections<BufReader<PacedChannel>>,
}

/// What a server answers to one command.
enum MetaAnswer {
    Done,
    None,
    Value(Vec<u8>),
}

fn off(text: &str) -> TierError {
    TierError::new(TierFault::Off, text)
}

fn place(settings: &TierServer) -> Result<MemcachedPlace, TierError> {
    let (scheme, rest) = settings.url.split_once("://").ok_or(off(UNREADABLE))?;
    let tls = &settings.tls;
    if scheme != "memcacheds" && (tls.authorities.is_some() || tls.client.is_some()) {
        return Err(off(
            "authorities and certificates need an address with memcacheds://",
        ));
    }
    if scheme == "memcached+unix" && rest.starts_with('/') {
        return Ok(MemcachedPlace::Unix(rest.into()));
    }
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]%".contains(letter);
    if !rest.chars().all(is_host) {
        return Err(off(UNREADABLE));
    }
    // An address of IPv6 stands in brackets, for its own colons.
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port),
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => port.is_empty().then_some(PORT),
    };
    let (Some(port), false) = (port, host.is_empty()) else {
        return Err(off(UNREADABLE));
    };
    let tls = match scheme {
        "memcached" => None,
        "memcacheds" => {
            let name = ServerName::try_from(host.to_owned()).map_err(|_| off(UNREADABLE))?;
            Some((tls_config(tls)?.into(), name))
        }
        _ => return Err(off(UNREADABLE)),
    };
    Ok(MemcachedPlace::Tcp {
        host: host.to_owned(),
        port,
        tls,
    })
}

impl MemcachedStore {
    /// A store that connects at its first use in each process.
    ///
    /// # Errors
    /// [`TierFault::Off`] when the address cannot be understood, or the prefix is too long.
    pub fn new(settings: TierServer, host: &Host) -> Result<MemcachedStore, TierError> {
        let is_plain = settings.prefix.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || settings.prefix.len() > KEY_BYTES_MAX / 2 {
            return Err(off(
                "the prefix of keys in Memcached may have letters, digits and punctuation of \
                 ASCII, and 125 of them",
            ));
        }
        Ok(MemcachedStore {
            place: place(&settings)?,
            idle: IdleConnections::new(host, settings.idle_max),
            settings,
        })
    }

    fn connect(&self) -> io::Result<BufReader<PacedChannel>> {
        let limit = self.settings.connect_timeout;
        let channel = match &self.place {
            MemcachedPlace::Tcp { host, port, tls } => {
                PacedChannel::by_tcp(host, *port, tls.as_ref(), limit)
            }
            MemcachedPlace::Unix(path) => PacedChannel::by_path(path, limit),
        };
        channel.map(|channel| BufReader::with_capacity(BUFFER_BYTES, channel))
    }

    fn name(&self) -> String {
        match &self.place {
            MemcachedPlace::Tcp { host, port, .. } => format!("{host}:{port}"),
            MemcachedPlace::Unix(path) => path.display().to_string(),
        }
    }

    fn failure(&self, error: &io::Error) -> TierError {
        let fault = match error.kind() {
            io::ErrorKind::FileTooLarge => TierFault::TooLarge,
            _ => TierFault::Io,
        };
        TierError::new(fault, format!("Memcached at {}: {error}", self.name()))
    }

    fn key(&self, key: &[u8]) -> Result<String, TierError> {
        let name = [self.settings.prefix.as_str(), &protocol::digits(key)].concat();
        if name.len() > KEY_BYTES_MAX {
            let text = format!("{} bytes in a key, not {KEY_BYTES_MAX}", name.len());
            return Err(TierError::new(TierFault::TooLarge, text));
        }
        Ok(name)
    }

    /// Sends the parts of one command and reads its answer.
    fn call(&self, parts: &[&[u8]]) -> Result<MetaAnswer, TierError> {
        let mut connection = match self.idle.take()? {
            Some(connection) => connection,
            None => self.connect().map_err(|error| self.failure(&error))?,
        };
        match self.call_by(&mut connection, parts) {
            Ok(answer) => {
                self.idle.keep(connection);
                Ok(answer)
            }
            Err(error) => {
                // What an answer belongs to is unknown on a connection that has failed.
                drop(connection);
                if error.kind() != io::ErrorKind::FileTooLarge {
                    self.idle.end();
                }
                Err(self.failure(&error))
            }
        }
    }

    fn call_by(
        &self,
        connection: &mut BufReader<PacedChannel>,
        parts: &[&[u8]],
    ) -> io::Result<MetaAnswer> {
        let channel = connection.get_mut();
        channel.begin(self.settings.timeout)?;
        channel.write_all(&parts.concat())?;
        channel.flush()?;
        let answer = meta_answer(connection, self.settings.answer_bytes_max)?;
        if !connection.buffer().is_empty() {
            return Err(foreign("the server answers what was not sent"));
        }
        Ok(answer)
    }
}

fn foreign(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn too_large(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// One answer, of a value of no more than `bytes_max` bytes.
fn meta_answer(from: &mut impl BufRead, bytes_max: usize) -> io::Result<MetaAnswer> {
    let mut line = Vec::new();
    from.by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let Some(line) = line.strip_suffix(END) else {
        return Err(foreign("a line of an answer does not end"));
    };
    let mut words = line.split(|byte| *byte == b' ');
    match words.next().unwrap_or_default() {
        b"HD" | b"MN" => Ok(MetaAnswer::Done),
        b"EN" | b"NF" => Ok(MetaAnswer::None),
        b"VA" => {
            let length = words.next().and_then(|word| str::from_utf8(word).ok());
            let length = length.and_then(|word| word.parse::<usize>().ok());
            let length = length.ok_or_else(|| foreign("a length in an answer cannot be read"))?;
            if length > bytes_max {
                return Err(too_large(format!(
                    "{length} bytes in a record, not {bytes_max}"
                )));
            }
            let record = protocol::text(from, length)?;
            let too_long = || foreign("a record in an answer is longer than it says");
            record.map(MetaAnswer::Value).ok_or_else(too_long)
        }
        _ => {
            let said = String::from_utf8_lossy(line);
            let said: String = said.chars().take(SAID_MAX).collect();
            let is_size = said.contains("too large");
            Err(if is_size {
                too_large(said)
            } else {
                foreign(&said)
            })
        }
    }
}

impl RecordStore for MemcachedStore {
    fn check(&self) -> Result<(), TierError> {
        self.call(&[b"mn\r\n"]).map(drop)
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TierError> {
        let key = self.key(key)?;
        match self.call(&[b"mg ", key.as_bytes(), b" v\r\n"])? {
            MetaAnswer::Value(bytes) => Ok(Some(bytes)),
            MetaAnswer::None => Ok(None),
            MetaAnswer::Done => Err(self.failure(&foreign("no record where one was read"))),
        }
    }

    fn write(&self, key: &[u8], record: &[u8], lifetime_ms: u64) -> Result<(), TierError> {
        // Rounded up: a record that stays too long is known to be over by what it holds.
        let seconds = lifetime_ms.div_ceil(1_000).max(1);
        let head = format!("ms {} {} T{seconds}\r\n", self.key(key)?, record.len());
        match self.call(&[head.as_bytes(), record, END])? {
            MetaAnswer::Done => Ok(()),
            _ => Err(self.failure(&foreign("the record was not stored"))),
        }
    }

    fn remove(&self, key: &[u8]) -> Result<bool, TierError> {
        let key = self.key(key)?;
        match self.call(&[b"md ", key.as_bytes(), END])? {
            MetaAnswer::Done => Ok(true),
            MetaAnswer::None => Ok(false),
            MetaAnswer::Value(_) => Err(self.failure(&foreign("a record where none was read"))),
        }
    }
}
