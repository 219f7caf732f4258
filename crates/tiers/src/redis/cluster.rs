//! The server of a Redis Cluster that has what is stored here (redis.io "Redis cluster
//! specification"). All keys of a tier are in one slot, which one server has, so that one
//! connection reads tokens before entries.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};

use super::address::RedisPlace;
use super::connection::{CallBounds, ServerConnection};

/// The first server names the right one; that one may just have handed the slot on.
const REDIRECTS_MAX: usize = 3;

/// A connection to the server that has the slot of `key`, found by one of those at `places`. The
/// first one that knew it is the first that is tried next time: `first`.
pub fn connect(
    places: &[RedisPlace],
    key: &[u8],
    first: &AtomicUsize,
    limit: Duration,
    bounds: CallBounds,
) -> RedisResult<ServerConnection> {
    let until = Instant::now() + limit;
    let begin = first.load(Ordering::Relaxed);
    let mut failed = RedisError::from((ErrorKind::InvalidClientConfig, "no server is named"));
    for turn in 0..places.len() {
        let index = (begin + turn) % places.len();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        // One that does not answer leaves time for the others.
        match connect_by(&places[index], key, left / 2, bounds) {
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
    known: &RedisPlace,
    key: &[u8],
    limit: Duration,
    bounds: CallBounds,
) -> RedisResult<ServerConnection> {
    let until = Instant::now() + limit.max(Duration::from_millis(1));
    let mut place = known.clone();
    let mut redirects = 0;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        // The question is a part of connecting: it may take what is left of the time for that.
        let asking = CallBounds {
            timeout: left.min(bounds.timeout),
            ..bounds
        };
        let mut connection = ServerConnection::open(&place, left, asking)?;
        let answer = redis::cmd("EXISTS").arg(key).exec(&mut connection);
        let Err(error) = answer else {
            return Ok(connection.bounded_by(bounds));
        };
        match error.kind() {
            // It has the slot until all of it has been moved.
            ErrorKind::Server(ServerErrorKind::Ask | ServerErrorKind::TryAgain) => {
                return Ok(connection.bounded_by(bounds));
            }
            ErrorKind::Server(ServerErrorKind::Moved) if redirects < REDIRECTS_MAX => {
                place = named_by(&error, known)?;
                redirects += 1;
            }
            _ => return Err(error),
        }
    }
}

/// Where a slot has moved to.
fn named_by(error: &RedisError, known: &RedisPlace) -> RedisResult<RedisPlace> {
    let address = error.redirect_node().map(|(address, _)| address);
    let (host, port) = address
        .and_then(|address| address.rsplit_once(':'))
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .ok_or((ErrorKind::Parse, "the Cluster names no server"))?;
    known.moved_to((!host.is_empty()).then(|| host.to_owned()), port)
}

#[cfg(test)]
mod tests {
    use redis::{ConnectionAddr, IntoConnectionInfo, ServerError, Value};

    use super::*;

    #[test]
    fn redirections_name_a_server_of_any_kind_of_address() {
        let known = RedisPlace {
            info: "redis://first:1".into_connection_info().unwrap(),
            tls: None,
        };
        let place = |said: &str| {
            let answer = format!("-MOVED {said}\r\n");
            let answer = redis::parse_redis_value(answer.as_bytes()).unwrap();
            let Value::ServerError(error) = answer else {
                panic!("{answer:?}");
            };
            let error = <RedisError as From<ServerError>>::from(error);
            let place = named_by(&error, &known).ok()?;
            let ConnectionAddr::Tcp(host, port) = place.info.addr() else {
                panic!("by TCP before");
            };
            Some(format!("{host} {port}"))
        };
        for (said, found) in [
            ("866 10.0.0.7:7001", Some("10.0.0.7 7001")),
            ("866 cache-2.example:7001", Some("cache-2.example 7001")),
            ("866 2001:db8::7:7001", Some("2001:db8::7 7001")),
            // It does not know by which name it was reached.
            ("866 :7001", Some("first 7001")),
            ("866 10.0.0.7", None),
            ("866 10.0.0.7:70001", None),
            ("866", None),
        ] {
            assert_eq!(place(said).as_deref(), found, "{said}");
        }
    }
}
