//! A Redis server that processes of many hosts share, by connections of the caller's own thread.
//!
//! The record of a key is either an entry or a placeholder, which a miss writes; both begin with a
//! random token, and a value is stored only in the place of the token that its miss has seen. To
//! delete the record is to void every ticket, and a record that the server loses is no value.

mod address;
mod answer;
mod cluster;
mod connection;
mod flat;
mod joint;
mod listing;
mod loop_reads;
mod notices;
mod sentinel;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use redis::{ErrorKind, RedisError, Script, ServerErrorKind};

pub use answer::read_answer;
pub use loop_reads::LoopReads;
pub use notices::NOTICE_BYTES_MAX;

use address::{RedisDiscovery, RedisRoute};
use connection::{CallBounds, ServerConnection};
use stream::{StreamState, numbering};

use super::host::{ByProcess, Host};
use super::idle::IdleConnections;
use super::known::KnownTokens;
use super::protocol;
use super::releases::{ReleaseWait, Releases};
use super::server::TierServer;
use super::tier::{
    JointReads, LeaseAct, LeaseAnswer, LeaseHolder, LeasingTier, Lookup, MissTicket, NEVER_MS,
    NotingTier, Stored, Tier, TierError, TierHit,
};
use super::tokens::Token;

/// Kind, token, lifetime in milliseconds.
const HEADER_BYTES: usize = 1 + TOKEN_BYTES + 8;
const TOKEN_BYTES: usize = 16;
const PLACEHOLDER: u8 = 0;
const ENTRY: u8 = 1;
/// A run that takes longer than this is not stored: its placeholder has expired.
const PLACEHOLDER_MS: u64 = 3_600_000;
/// Redis refuses expiries near the end of its numbers. Ten years.
const LIFETIME_MS_MAX: u64 = 315_360_000_000;
/// Keys that [`RedisTier::clear`] asks for at once.
const SCAN_COUNT: usize = 1_000;

/// The record, or a placeholder with the given token in its place.
const MISS: &str = "
    local found = redis.call('GET', KEYS[1])
    if found then return found end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return ARGV[1]
";
/// Stores a record if the one there has its token, or in any case; for ever if the lifetime is 0.
const STORE: &str = concat!(
    "
    if ARGV[3] == 'held' then
        local found = redis.call('GETRANGE', KEYS[1], 1, 16)
        if found ~= string.sub(ARGV[1], 2, 17) then return 0 end
    end
    if ARGV[2] == '0' then redis.call('SET', KEYS[1], ARGV[1])
    else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
",
    numbering!(2),
    "
    return 1
"
);
/// Whether what was deleted was an entry.
const DELETE: &str = concat!(
    "
    local kind = redis.call('GETRANGE', KEYS[1], 0, 0)
    redis.call('DEL', KEYS[1])
",
    numbering!(2),
    "
    return kind == '\\1' and 1 or 0
"
);
/// The lease is a record of its own: the holder, and the end by the server's clock. It stays
/// longer than it lasts, so that one that is overdue is told from one that was given back; then the
/// record of the key gets another token. That a lease was given back is published only if others
/// have waited for it.
const LEASE: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local found = redis.call('GET', KEYS[2])
    local own = found and string.sub(found, 1, 16) == ARGV[1]
    local over = found and tonumber(string.sub(found, 17)) <= now
    if ARGV[2] == 'release' then
        if own then
            redis.call('DEL', KEYS[2])
            if redis.call('DEL', KEYS[3]) == 1 then redis.pcall('PUBLISH', ARGV[6], KEYS[1]) end
        end
        return own and 1 or 0
    end
    if not own and (ARGV[2] == 'renew' or (found and not over)) then
        if ARGV[2] == 'take' then redis.call('SET', KEYS[3], '', 'PX', ARGV[4]) end
        return 0
    end
    redis.call('SET', KEYS[2], ARGV[1] .. string.format('%d', now + ARGV[3]), 'PX', ARGV[4])
    if over and not own then
        local record = redis.call('GET', KEYS[1])
        if record then
            record = string.sub(record, 1, 1) .. ARGV[5] .. string.sub(record, 18)
            redis.call('SET', KEYS[1], record, 'KEEPTTL')
        end
    end
    return 1
";

/// A Redis server, in this process and in the children it forks.
pub struct RedisTier {
    route: RedisRoute,
    /// What all its keys begin with.
    key_prefix: String,
    /// What its channels begin with.
    channel_prefix: String,
    /// The Sentinel, or the server of a Cluster, that knew the server last.
    first_asked: AtomicUsize,
    settings: TierServer,
    host: Host,
    idle: IdleConnections<ServerConnection>,
    tokens: ByProcess<KnownTokens<Token>>,
    releases: ByProcess<Arc<Releases>>,
    stream: ByProcess<StreamState>,
    scripts: Scripts,
}

struct Scripts {
    miss: Script,
    store: Script,
    store_guarded: Script,
    delete: Script,
    lease: Script,
}

/// Whether another server has, or may have, what this one had.
fn is_elsewhere(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::ClusterDown
        )
    )
}

/// What a record holds.
enum Record {
    Entry { token: u128, lifetime_ms: u64 },
    Placeholder { token: u128 },
}

impl Record {
    fn of(bytes: &[u8]) -> Option<Record> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let (token, lifetime) = header[1..].split_at(TOKEN_BYTES);
        let token = u128::from_be_bytes(token.try_into().ok()?);
        match header[0] {
            ENTRY => Some(Record::Entry {
                token,
                lifetime_ms: u64::from_be_bytes(lifetime.try_into().ok()?),
            }),
            PLACEHOLDER => Some(Record::Placeholder { token }),
            _ => None,
        }
    }

    /// The value in the bytes of an entry.
    fn value_in(bytes: &[u8]) -> &[u8] {
        &bytes[HEADER_BYTES..]
    }

    fn token(&self) -> u128 {
        match self {
            Record::Entry { token, .. } | Record::Placeholder { token } => *token,
        }
    }
}

fn record_bytes(kind: u8, token: u128, lifetime_ms: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + value.len());
    bytes.push(kind);
    bytes.extend(token.to_be_bytes());
    bytes.extend(lifetime_ms.to_be_bytes());
    bytes.extend(value);
    bytes
}

impl RedisTier {
    /// A tier that connects at its first use in each process.
    ///
    /// # Errors
    /// [`TierFault::Off`] when the address cannot be understood. The text does not repeat it, since
    /// it may hold a password.
    pub fn new(settings: TierServer, host: Host) -> Result<RedisTier, TierError> {
        RedisTier::by(settings, RedisDiscovery::None, host)
    }

    /// As [`RedisTier::new`], of a server that Sentinels at these addresses know: the host of its
    /// own address is the name that they have for it.
    ///
    /// # Errors
    /// As there.
    pub fn by_sentinels(
        settings: TierServer,
        sentinels: &[String],
        host: Host,
    ) -> Result<RedisTier, TierError> {
        RedisTier::by(settings, RedisDiscovery::Sentinels(sentinels), host)
    }

    /// As [`RedisTier::new`], of a server that is one of a Cluster, as those at these addresses
    /// are. All that is stored is in one slot, and so on one server at a time: which one, the
    /// Cluster says.
    ///
    /// # Errors
    /// As there.
    pub fn in_cluster(
        settings: TierServer,
        others: &[String],
        host: Host,
    ) -> Result<RedisTier, TierError> {
        RedisTier::by(settings, RedisDiscovery::Cluster(others), host)
    }

    fn by(
        settings: TierServer,
        discovery: RedisDiscovery<'_>,
        host: Host,
    ) -> Result<RedisTier, TierError> {
        let route = address::route(&settings, discovery)?;
        let prefix = &settings.prefix;
        let key_prefix = match route {
            // What stands in the first braces chooses the slot. Those of a prefix that is empty, or
            // begins with a brace, would choose none.
            RedisRoute::Cluster(_) => format!("{{tidemark:{prefix}}}"),
            _ => prefix.clone(),
        };
        let channel_prefix = match route.database() {
            0 => prefix.clone(),
            // All databases of a server have the same channels, and each has numbers of its own:
            // what is invalidated in another one would be a gap.
            number => format!("{prefix}{number}:"),
        };
        Ok(RedisTier {
            route,
            key_prefix,
            channel_prefix,
            first_asked: AtomicUsize::new(0),
            idle: IdleConnections::new(&host, settings.idle_max),
            tokens: ByProcess::new(&host),
            releases: ByProcess::new(&host),
            stream: ByProcess::new(&host),
            settings,
            host,
            scripts: Scripts {
                miss: Script::new(MISS),
                store: Script::new(STORE),
                store_guarded: Script::new(listing::STORE_GUARDED),
                delete: Script::new(DELETE),
                lease: Script::new(LEASE),
            },
        })
    }

    fn failure(&self, error: &RedisError) -> TierError {
        self.route.failure(error)
    }

    fn connect(&self) -> Result<ServerConnection, RedisError> {
        let bounds = CallBounds {
            timeout: self.settings.timeout,
            answer_bytes_max: self.settings.answer_bytes_max,
        };
        let limit = self.settings.connect_timeout;
        match &self.route {
            RedisRoute::Server(place) => ServerConnection::open(place, limit, bounds),
            RedisRoute::Sentinels {
                service,
                sentinels,
                server,
            } => {
                let first = &self.first_asked;
                sentinel::connect(service, sentinels, server, first, limit, bounds)
            }
            RedisRoute::Cluster(places) => {
                cluster::connect(places, &self.key(b""), &self.first_asked, limit, bounds)
            }
        }
    }

    /// Does something with a connection that no other thread uses meanwhile.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut ServerConnection) -> Result<T, RedisError>,
    ) -> Result<T, TierError> {
        let mut connection = match self.idle.take()? {
            Some(connection) => connection,
            None => self.connect().map_err(|error| self.failure(&error))?,
        };
        match act(&mut connection) {
            Ok(done) => {
                self.idle.keep(connection);
                Ok(done)
            }
            Err(error) => {
                // What an answer belongs to is unknown on a connection that has failed, and those
                // that were made before may have ended with it.
                drop(connection);
                if error.is_io_error() || is_elsewhere(&error) {
                    self.idle.end();
                }
                Err(self.failure(&error))
            }
        }
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        let digits = protocol::digits(key);
        [&self.key_prefix, "{", &digits, "}"].concat().into()
    }

    fn token(&self) -> u128 {
        let mut bytes = [0; TOKEN_BYTES];
        (self.host.random)(&mut bytes);
        u128::from_be_bytes(bytes)
    }

    /// The record of a key, after a placeholder was put there if there was none.
    fn record(&self, connection: &mut ServerConnection, key: &[u8]) -> Result<Record, RedisError> {
        let placeholder = record_bytes(PLACEHOLDER, self.token(), 0, b"");
        let mut call = self.scripts.miss.key(key);
        call.arg(placeholder.as_slice()).arg(PLACEHOLDER_MS);
        let bytes: Vec<u8> = call.invoke(connection)?;
        // Bytes of another program: no value is stored over them, for no ticket fits.
        let other = Record::Placeholder { token: 0 };
        Ok(Record::of(&bytes).unwrap_or(other))
    }

    /// What a key holds, of which the server has said this. Without a record it gets a placeholder.
    fn lookup(
        &self,
        connection: &mut ServerConnection,
        key: &[u8],
        bytes: Option<Vec<u8>>,
        left_ms: i64,
    ) -> Result<Lookup, RedisError> {
        // -2: it has expired between the two.
        if let Some(bytes) = bytes.filter(|_| left_ms != -2)
            && let Some(record) = Record::of(&bytes)
        {
            return Ok(match record {
                Record::Entry { lifetime_ms, .. } => {
                    Lookup::Hit(self.hit(bytes, lifetime_ms, left_ms))
                }
                Record::Placeholder { token } => Lookup::Miss(MissTicket::of(token)),
            });
        }
        // An entry that was stored meanwhile has a ticket as well.
        let token = self.record(connection, key)?.token();
        Ok(Lookup::Miss(MissTicket::of(token)))
    }

    fn hit(&self, bytes: Vec<u8>, lifetime_ms: u64, left_ms: i64) -> TierHit {
        let now_ms = (self.host.now_ms)();
        let until_ms = match u64::try_from(left_ms) {
            Ok(left_ms) => now_ms.saturating_add(left_ms),
            Err(_) => NEVER_MS,
        };
        let written_ms = match until_ms {
            NEVER_MS => now_ms,
            until_ms => until_ms.saturating_sub(lifetime_ms).min(now_ms),
        };
        let value = HEADER_BYTES..bytes.len();
        TierHit::new(bytes, value, written_ms, until_ms)
    }
}

impl LeasingTier for RedisTier {
    fn lease(
        &self,
        key: &[u8],
        holder: &LeaseHolder,
        act: LeaseAct,
    ) -> Result<LeaseAnswer, TierError> {
        let key = self.key(key);
        let (name, lifetime_ms) = match act {
            LeaseAct::Take { lifetime_ms } => ("take", lifetime_ms),
            LeaseAct::Renew { lifetime_ms } => ("renew", lifetime_ms),
            LeaseAct::Release => ("release", 0),
        };
        self.with(|connection| {
            let mut call = self.scripts.lease.key(&key);
            call.key([key.as_slice(), b":lease"].concat())
                .key([key.as_slice(), b":waited"].concat())
                .arg(holder.as_slice())
                .arg(name)
                .arg(lifetime_ms)
                .arg(PLACEHOLDER_MS)
                .arg(self.token().to_be_bytes().as_slice())
                .arg(self.released_channel());
            let is_own: bool = call.invoke(connection)?;
            Ok(if is_own {
                LeaseAnswer::Own
            } else {
                LeaseAnswer::Other
            })
        })
    }

    fn wait_for(&self, key: &[u8]) -> Option<ReleaseWait> {
        Some(self.releases.own()?.wait(self.key(key)))
    }

    fn noting(&self) -> Option<&dyn NotingTier> {
        Some(self)
    }
}

impl NotingTier for RedisTier {
    fn set_noted(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
        notice: &[u8],
    ) -> Result<Stored, TierError> {
        if lifetime_ms == Some(0) {
            self.delete_noted(key, notice)?;
            return Ok(Stored::Kept);
        }
        let key = self.key(key);
        let lifetime_ms = lifetime_ms.map_or(0, |lifetime_ms| lifetime_ms.min(LIFETIME_MS_MAX));
        let token = ticket.map_or_else(|| self.token(), MissTicket::number);
        let record = record_bytes(ENTRY, token, lifetime_ms, value);
        let mut call = self.scripts.store.key(&key);
        call.arg(record.as_slice()).arg(lifetime_ms);
        call.arg(if ticket.is_some() { "held" } else { "any" });
        if !notice.is_empty() {
            self.announce_by(&mut call, notice)?;
        }
        let is_kept: bool = self.with(|connection| call.invoke(connection))?;
        Ok(if is_kept {
            Stored::Kept
        } else {
            Stored::Overtaken
        })
    }

    fn delete_noted(&self, key: &[u8], notice: &[u8]) -> Result<bool, TierError> {
        let mut call = self.scripts.delete.key(self.key(key));
        if !notice.is_empty() {
            self.announce_by(&mut call, notice)?;
        }
        self.with(|connection| call.invoke(connection))
    }
}

impl Tier for RedisTier {
    fn check(&self) -> Result<(), TierError> {
        self.with(|connection| redis::cmd("PING").exec(connection))
    }

    fn get(&self, key: &[u8]) -> Result<Lookup, TierError> {
        let place = self.key(key);
        self.with(|connection| {
            let read = self.joint_read(&place, &[]);
            let (bytes, left_ms): (Option<Vec<u8>>, i64) = read.query(connection)?;
            if let Some(bytes) = &bytes {
                self.learn(key, bytes);
            }
            self.lookup(connection, &place, bytes, left_ms)
        })
    }

    fn joint_reads(&self) -> Option<&dyn JointReads> {
        Some(self)
    }

    fn ticket(&self, key: &[u8]) -> Result<MissTicket, TierError> {
        let key = self.key(key);
        self.with(|connection| Ok(MissTicket::of(self.record(connection, &key)?.token())))
    }

    fn set(
        &self,
        key: &[u8],
        value: &[u8],
        lifetime_ms: Option<u64>,
        ticket: Option<MissTicket>,
    ) -> Result<Stored, TierError> {
        self.set_noted(key, value, lifetime_ms, ticket, b"")
    }

    fn leases(&self) -> Option<&dyn LeasingTier> {
        Some(self)
    }

    fn delete(&self, key: &[u8]) -> Result<bool, TierError> {
        self.delete_noted(key, b"")
    }

    fn clear(&self) -> Result<(), TierError> {
        let all = self.pattern(b"");
        self.with(|connection| {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&all);
                scan.arg("COUNT").arg(SCAN_COUNT);
                let (next, keys): (u64, Vec<Vec<u8>>) = scan.query(connection)?;
                if !keys.is_empty() {
                    redis::cmd("UNLINK").arg(keys).exec(connection)?;
                }
                cursor = next;
                if cursor == 0 {
                    // Last: another epoch is a gap for all that listen.
                    return redis::cmd("DEL").arg(self.stream_key()).exec(connection);
                }
            }
        })
    }
}
