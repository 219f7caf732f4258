//! Any bytes as what a Redis server answers: refused, or read as the library reads them, the same
//! in whichever pieces they come, with no more parts and bytes than may be.

use std::io::{BufReader, Read};

use redis::Value;
use tiers::read_answer;

/// Bytes that the texts of an answer may have here.
const BYTES_MAX: usize = 256;

/// Bytes of all texts, and values.
fn size(value: &Value) -> (usize, usize) {
    match value {
        Value::BulkString(bytes) => (bytes.len(), 1),
        Value::Array(values) => values
            .iter()
            .map(size)
            .fold((0, 1), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        _ => (0, 1),
    }
}

pub fn check(bytes: &[u8]) {
    let mut rest = bytes;
    let read = read_answer(&mut rest, BYTES_MAX);
    let mut slow = BufReader::with_capacity(1, bytes);
    let again = read_answer(&mut slow, BYTES_MAX);
    assert_eq!(read.as_ref().ok(), again.as_ref().ok());
    let Ok(value) = read else { return };
    let mut left = Vec::new();
    slow.read_to_end(&mut left).expect("memory can be read");
    assert_eq!(left, rest, "what follows an answer stays");
    let taken = &bytes[..bytes.len() - rest.len()];
    let (texts, values) = size(&value);
    assert!(texts <= BYTES_MAX && values <= taken.len());
    // The library takes no text that is not UTF-8, where errors here are made readable.
    if str::from_utf8(taken).is_ok() {
        let library = redis::parse_redis_value(taken).expect("the library reads it as well");
        assert_eq!(value, library);
    }
}
