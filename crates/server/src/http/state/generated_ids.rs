//! Ids that the server makes: of containers and rows, and of requests.

use std::cell::Cell;
use std::io::Write as _;

use hyper::header::HeaderValue;
use model::Timestamp;

use crate::rng::Rng;

/// What clients send where the server is to choose an id.
pub const UNIQUE: &str = "unique()";

/// Longest request id that is taken over from a client, in characters: room for a UUID or a
/// trace id, and no room for a novel in the log.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// Longest request id that is made here: chance, a thread, a number, and what stands between.
const ID_BYTES_MAX: usize = 8 + 1 + 20 + 1 + 16;

/// A new id of 20 characters: 8 hex digits of seconds, 5 of microseconds, 7 of chance. The
/// official clients make theirs alike, so both sort by time.
pub fn unique_id(now: Timestamp, rng: Rng) -> String {
    let (seconds, microseconds) = (
        now.0.div_euclid(1_000_000) as u32,
        now.0.rem_euclid(1_000_000),
    );
    let chance = random(rng) & 0x0fff_ffff;
    format!("{seconds:08x}{microseconds:05x}{chance:07x}")
}

fn random(rng: Rng) -> u32 {
    let mut bytes = [0; 4];
    rng(&mut bytes);
    u32::from_ne_bytes(bytes)
}

/// Names the requests of one thread.
#[derive(Debug)]
pub struct RequestIds {
    prefix: String,
    next: Cell<u64>,
}

impl RequestIds {
    /// `thread` and chance tell the ids of threads and processes apart.
    pub fn new(thread: usize, rng: Rng) -> RequestIds {
        RequestIds {
            prefix: format!("{:08x}-{thread}-", random(rng)),
            next: Cell::new(0),
        }
    }

    /// The id that the client sent if it can stand in a log, a new one otherwise.
    pub fn name(&self, sent: Option<&HeaderValue>) -> HeaderValue {
        match sent {
            Some(sent) if is_sane(sent.as_bytes()) => sent.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let number = self.next.get();
        self.next.set(number + 1);
        // Each answer carries one, so it is written in place and copied once.
        let mut id = [0; ID_BYTES_MAX];
        let room = id.len();
        let mut rest = &mut id[..];
        write!(rest, "{}{number:x}", self.prefix).expect("there is room for any thread and number");
        let written = room - rest.len();
        HeaderValue::from_bytes(&id[..written]).expect("hex digits and hyphens are legal")
    }
}

fn is_sane(id: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.iter().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(bytes: &mut [u8]) {
        bytes.fill(0x11);
    }

    fn full(bytes: &mut [u8]) {
        bytes.fill(0xff);
    }

    #[test]
    fn an_id_is_time_and_chance() {
        let now = Timestamp(0x6b00_f557 * 1_000_000 + 999_999);
        assert_eq!(unique_id(now, ones), "6b00f557f423f1111111");
        assert_eq!(unique_id(Timestamp(0), full), "0000000000000fffffff");
    }

    #[test]
    fn a_sane_request_id_is_taken_over() {
        let ids = RequestIds::new(3, ones);
        assert_eq!(ids.name(None), "11111111-3-0");
        for sane in ["a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", &"x".repeat(64)] {
            assert_eq!(ids.name(Some(&sane.parse().unwrap())), sane);
        }
        for other in ["", "a b", "a\"b", &"x".repeat(65)] {
            assert!(
                ids.name(Some(&other.parse().unwrap()))
                    .to_str()
                    .unwrap()
                    .starts_with("11111111-3-"),
                "{other}"
            );
        }
    }
}
