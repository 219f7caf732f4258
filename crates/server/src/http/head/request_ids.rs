//! Ids of requests: those that clients send, and those that the server makes.

use std::cell::Cell;

use hyper::header::HeaderValue;

use crate::rng::Rng;

/// Longest request id that is taken over from a client, in characters: room for a UUID or a
/// trace id, and no room for a novel in the log.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// Longest request id that is made here: chance, a thread, a number, and what stands between.
const ID_BYTES_MAX: usize = 8 + 1 + 20 + 1 + 16;
const _: () = assert!(
    ID_BYTES_MAX <= REQUEST_ID_CHARS_MAX,
    "there is room for those made here"
);

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
            _ => self.make().header(),
        }
    }

    /// The same, in place.
    pub fn text(&self, sent: Option<&HeaderValue>) -> RequestName {
        match sent {
            Some(sent) if is_sane(sent.as_bytes()) => RequestName::of(&[sent.as_bytes()]),
            _ => self.make(),
        }
    }

    fn make(&self) -> RequestName {
        let number = self.next.get();
        self.next.set(number + 1);
        // Each answer carries one, so its digits are written without the means for any text.
        let mut digits = [0; 16];
        let mut first = digits.len();
        let mut rest = number;
        while first == digits.len() || rest > 0 {
            first -= 1;
            digits[first] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        RequestName::of(&[self.prefix.as_bytes(), &digits[first..]])
    }
}

/// The id of one request, in place.
#[derive(Clone, Copy, Debug)]
pub struct RequestName {
    bytes: [u8; REQUEST_ID_CHARS_MAX],
    length: usize,
}

impl RequestName {
    /// The parts one after the other, which are ASCII and no more than the longest id.
    fn of(parts: &[&[u8]]) -> RequestName {
        let (mut bytes, mut length) = ([0; REQUEST_ID_CHARS_MAX], 0);
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        RequestName { bytes, length }
    }

    /// As written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("ids are ASCII")
    }

    /// As a header.
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(self.as_bytes()).expect("what stands in ids is legal")
    }
}

fn is_sane(id: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=REQUEST_ID_CHARS_MAX).contains(&id.len()) && id.iter().all(legal)
}

/// A number by chance.
pub fn random(rng: Rng) -> u32 {
    let mut bytes = [0; 4];
    rng(&mut bytes);
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ones(bytes: &mut [u8]) {
        bytes.fill(0x11);
    }

    #[test]
    fn a_sane_request_id_is_taken_over() {
        let ids = RequestIds::new(3, ones);
        assert_eq!(ids.name(None), "11111111-3-0");
        ids.next.set(0x0123_4567_89ab_cdef);
        assert_eq!(ids.text(None).as_str(), "11111111-3-123456789abcdef");
        assert_eq!(ids.name(None), "11111111-3-123456789abcdf0");
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
