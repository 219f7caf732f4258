//! The server that Sentinel names: one of several copies, which becomes another when it fails
//! (redis.io "Guidelines for Redis clients with support for Redis Sentinel").

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::address::RedisPlace;
use super::connection::{CallBounds, ServerConnection};

/// Sentinel answers with an address.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A connection to the server that one of the Sentinels names and that says it is no copy. The
/// first one that knew it is the first that is tried next time: `first`.
pub fn connect(
    service: &str,
    sentinels: &[RedisPlace],
    server: &RedisPlace,
    first: &AtomicUsize,
    limit: Duration,
    bounds: CallBounds,
) -> RedisResult<ServerConnection> {
    let until = Instant::now() + limit;
    let begin = first.load(Ordering::Relaxed);
    let mut failed = RedisError::from((ErrorKind::EmptySentinelList, "no Sentinel is named"));
    for turn in 0..sentinels.len() {
        let index = (begin + turn) % sentinels.len();
        let left = until.saturating_duration_since(Instant::now());
        // One that does not answer leaves time for the others.
        match connect_by(service, &sentinels[index], server, left / 2, bounds) {
            Ok(connection) => {
                first.store(index, Ordering::Relaxed);
                return Ok(connection);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn connect_by(
    service: &str,
    sentinel: &RedisPlace,
    server: &RedisPlace,
    limit: Duration,
    bounds: CallBounds,
) -> RedisResult<ServerConnection> {
    let limit = limit.max(Duration::from_millis(1));
    let until = Instant::now() + limit;
    let asking = CallBounds {
        timeout: limit,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let mut knowing = ServerConnection::open(sentinel, limit, asking)?;
    let mut find = redis::cmd("SENTINEL");
    find.arg("get-master-addr-by-name").arg(service);
    let Some((host, port)) = find.query::<Option<(String, u16)>>(&mut knowing)? else {
        let text = "Sentinel knows no service of this name";
        return Err((ErrorKind::MasterNameNotFoundBySentinel, text).into());
    };
    let left = until.saturating_duration_since(Instant::now());
    let place = server.moved_to(Some(host), port)?;
    let mut connection = ServerConnection::open(&place, left, bounds)?;
    // Sentinel may not know yet that it is a copy of another one now, which takes no writes.
    let role: Vec<Value> = redis::cmd("ROLE").query(&mut connection)?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(connection),
        _ => Err((
            ErrorKind::Client,
            "the server that Sentinel names is a copy",
        )
            .into()),
    }
}
