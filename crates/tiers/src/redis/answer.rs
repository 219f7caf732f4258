//! What a Redis server answers, read within bounds on its size, its nesting and its number of
//! parts (RESP2, and of RESP3 what a connection that listens is told: redis.io "Redis serialization
//! protocol specification").
//!
//! The `redis` crate's own parser has a bound on nesting only, so a server that is broken or not
//! Redis could fill memory.

use std::io::{self, BufRead, Read};

use redis::{ErrorKind, PushKind, RedisError, RedisResult, Value};

use crate::protocol::{self, END};

/// Arrays in arrays. Ours are one in another.
const DEPTH_MAX: u32 = 8;
/// Values in one answer, arrays included. The longest of ours is one of `SCAN`, which gives some
/// more keys than its `COUNT`.
const PARTS_MAX: usize = 100_000;
/// Bytes of one line: a number, or a text such as an error.
pub const LINE_BYTES_MAX: u64 = 64 << 10;

/// What begins the detail of the error for an answer above its bounds.
const TOO_LARGE: &str = "the answer is too large: ";

struct AnswerReader<'a, R> {
    from: &'a mut R,
    bytes_left: usize,
    parts_left: usize,
}

/// One answer, whose texts have no more than `bytes_max` bytes together. The bytes after it stay.
///
/// # Errors
/// Those of the stream; what is no answer, or one above its bounds. Then how much was read is
/// unknown, and the stream is of no more use.
pub fn read_answer(from: &mut impl BufRead, bytes_max: usize) -> RedisResult<Value> {
    let mut reader = AnswerReader {
        from,
        bytes_left: bytes_max,
        parts_left: PARTS_MAX,
    };
    reader.value(0)
}

/// The error for bytes that are no answer.
pub fn foreign(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Parse, what))
}

/// The error for an answer above its bounds.
pub fn too_large(limit: &str) -> RedisError {
    let detail = format!("{TOO_LARGE}{limit}");
    RedisError::from((ErrorKind::Client, "refused", detail))
}

/// Whether an answer was above its bounds.
pub fn is_too_large(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Client
        && error
            .detail()
            .is_some_and(|text| text.starts_with(TOO_LARGE))
}

/// The number of a line; a sign, and digits only.
pub fn number(line: &[u8]) -> RedisResult<i64> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(line).ok().filter(|_| is_number);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| foreign("a number in an answer cannot be read"))
}

/// A length; none for the value that is none.
pub fn length(line: &[u8]) -> RedisResult<Option<usize>> {
    match number(line)? {
        -1 => Ok(None),
        some => match usize::try_from(some) {
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(foreign("a length in an answer is negative")),
        },
    }
}

impl<R: BufRead> AnswerReader<'_, R> {
    fn value(&mut self, depth: u32) -> RedisResult<Value> {
        let parts_left = self.parts_left.checked_sub(1);
        self.parts_left = parts_left
            .ok_or_else(|| too_large(&format!("more than {PARTS_MAX} values in one answer")))?;
        match self.line(header_of)? {
            ValueHeader::Whole(value) => Ok(value),
            ValueHeader::Text(length) => self.text(length),
            _ if depth == DEPTH_MAX => Err(too_large(&format!(
                "more than {DEPTH_MAX} arrays in each other"
            ))),
            ValueHeader::Array(length) => self.array(length, depth).map(Value::Array),
            ValueHeader::Map(length) => self.map(length, depth),
            ValueHeader::Push(length) => self.array(length, depth).and_then(push_of),
        }
    }

    /// What `act` makes of a line without its end.
    fn line<T>(&mut self, act: impl FnOnce(&[u8]) -> RedisResult<T>) -> RedisResult<T> {
        let bytes = protocol::buffered(self.from)?;
        let within = &bytes[..bytes.len().min(LINE_BYTES_MAX as usize)];
        let end = within.iter().position(|byte| *byte == b'\n');
        if let Some(line) = end.and_then(|end| within[..=end].strip_suffix(END)) {
            let (done, taken) = (act(line), line.len() + END.len());
            self.from.consume(taken);
            return done;
        }
        // It has not come as a whole yet.
        let mut line = Vec::new();
        let mut limited = self.from.by_ref().take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut line)?;
        if let Some(line) = line.strip_suffix(END) {
            return act(line);
        }
        Err(match line.last() {
            Some(b'\n') => foreign("a line of an answer has no carriage return"),
            _ if line.len() as u64 == LINE_BYTES_MAX => {
                too_large(&format!("more than {LINE_BYTES_MAX} bytes in a line"))
            }
            _ => RedisError::from(io::Error::from(io::ErrorKind::UnexpectedEof)),
        })
    }

    fn text(&mut self, length: usize) -> RedisResult<Value> {
        let bytes_left = self.bytes_left.checked_sub(length);
        self.bytes_left = bytes_left.ok_or_else(|| {
            let left = self.bytes_left;
            too_large(&format!("{length} bytes, where {left} are left"))
        })?;
        let text = protocol::text(self.from, length)?;
        let text = text.ok_or_else(|| foreign("a text in an answer is longer than it says"))?;
        Ok(Value::BulkString(text))
    }

    fn map(&mut self, length: usize, depth: u32) -> RedisResult<Value> {
        // Twice what cannot be counted is above the bounds as well.
        let values = self.array(length.saturating_mul(2), depth)?;
        let mut values = values.into_iter();
        let pairs = std::iter::from_fn(|| values.next().zip(values.next()));
        Ok(Value::Map(pairs.collect()))
    }

    fn array(&mut self, length: usize, depth: u32) -> RedisResult<Vec<Value>> {
        if length > self.parts_left {
            let text = format!("{length} values, where {} are left", self.parts_left);
            return Err(too_large(&text));
        }
        let mut values = Vec::new();
        for _ in 0..length {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }
}

/// What the server says by itself, of these values.
fn push_of(values: Vec<Value>) -> RedisResult<Value> {
    let mut values = values.into_iter();
    let kind = match values.next() {
        Some(Value::BulkString(kind)) if kind == b"message" => PushKind::Message,
        Some(Value::BulkString(kind)) => {
            PushKind::Other(String::from_utf8_lossy(&kind).into_owned())
        }
        _ => return Err(foreign("what the server says by itself has no kind")),
    };
    let data = values.collect();
    Ok(Value::Push { kind, data })
}

/// What the first line of a value says.
enum ValueHeader {
    Whole(Value),
    /// Of so many bytes.
    Text(usize),
    /// Of so many values.
    Array(usize),
    /// Of so many pairs.
    Map(usize),
    /// No answer, of so many values.
    Push(usize),
}

fn header_of(line: &[u8]) -> RedisResult<ValueHeader> {
    let (kind, text) = line
        .split_first()
        .ok_or_else(|| foreign("a line of an answer is empty"))?;
    let whole = match kind {
        b'+' if text == b"OK" => Value::Okay,
        b'+' => {
            let text = String::from_utf8(text.to_vec());
            Value::SimpleString(text.map_err(|_| foreign("a line of an answer is no UTF-8"))?)
        }
        // Only the library can make its errors.
        b'-' => {
            let said = [line, END].concat();
            let said = String::from_utf8_lossy(&said);
            redis::parse_redis_value(said.as_bytes())?
        }
        b':' => Value::Int(number(text)?),
        b'$' => match length(text)? {
            Some(length) => return Ok(ValueHeader::Text(length)),
            None => Value::Nil,
        },
        b'*' => match length(text)? {
            Some(length) => return Ok(ValueHeader::Array(length)),
            None => Value::Nil,
        },
        b'%' | b'>' => {
            let length = length(text)?;
            let length = length.ok_or_else(|| foreign("a length in an answer is negative"))?;
            return Ok(match kind {
                b'%' => ValueHeader::Map(length),
                _ => ValueHeader::Push(length),
            });
        }
        b'_' if text.is_empty() => Value::Nil,
        _ => return Err(foreign("this is no answer of Redis")),
    };
    Ok(ValueHeader::Whole(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it stands there, and one byte after the other.
    #[track_caller]
    fn read(bytes: &[u8], bytes_max: usize) -> RedisResult<Value> {
        let mut whole = bytes;
        let found = read_answer(&mut whole, bytes_max);
        let mut slow = io::BufReader::with_capacity(1, bytes);
        let again = read_answer(&mut slow, bytes_max);
        assert_eq!(found.as_ref().ok(), again.as_ref().ok());
        found
    }

    #[test]
    fn answer_is_read_as_the_library_reads_it() {
        for bytes in [
            &b"+OK\r\n"[..],
            b"+PONG\r\n",
            b":-7\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"-ERR no\r\n",
            b"-MOVED 1 a:2\r\n",
            b"_\r\n",
            b"%0\r\n",
            b"%2\r\n$1\r\na\r\n:3\r\n$1\r\nb\r\n*1\r\n_\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n",
            b">2\r\n$5\r\nother\r\n:1\r\n",
        ] {
            let read = read(bytes, 8).unwrap();
            assert_eq!(read, redis::parse_redis_value(bytes).unwrap());
        }
    }

    #[test]
    fn answer_above_its_bounds_is_refused_before_it_is_read() {
        let parts = format!("*{PARTS_MAX}\r\n");
        let pairs = format!("%{}\r\n", PARTS_MAX / 2);
        let nested = "*1\r\n".repeat(DEPTH_MAX as usize + 1);
        let many = format!(
            "*2\r\n*{0}\r\n{1}",
            PARTS_MAX - 2,
            ":1\r\n".repeat(PARTS_MAX)
        );
        let long = "+".repeat(LINE_BYTES_MAX as usize);
        for bytes in [
            "$9\r\n",
            "$9223372036854775807\r\n",
            "*2\r\n$5\r\nabcde\r\n$4\r\n",
            "%9223372036854775807\r\n",
            ">9223372036854775807\r\n",
            &parts,
            &pairs,
            &nested,
            &many,
            &long,
        ] {
            let error = read(bytes.as_bytes(), 8).unwrap_err();
            assert!(is_too_large(&error), "{error}");
        }
    }

    #[test]
    fn answer_that_is_none_is_refused() {
        for bytes in [
            "",
            "\r\n",
            "+OK",
            "+OK\n",
            "x\r\n",
            ":\r\n",
            ":1x\r\n",
            ": 1\r\n",
            ":+1\r\n",
            "$-2\r\n",
            "$1\r\nabc\r\n",
            "$3\r\na\r\n",
            "$1\r\na",
            "*1\r\n",
            "*-2\r\n",
            "%-1\r\n",
            "%1\r\n+a\r\n",
            ">-1\r\n",
            ">0\r\n",
            ">1\r\n:1\r\n",
            "_1\r\n",
            "$99999999999999999999\r\n",
            "*99999999999999999999\r\n",
        ] {
            let refused = read(bytes.as_bytes(), 8);
            assert!(refused.is_err(), "{bytes:?}: {refused:?}");
        }
    }
}
