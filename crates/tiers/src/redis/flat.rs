//! Answers without parts, taken from the bytes that have come so far (RESP2, redis.io "Redis
//! serialization protocol specification").

use redis::{ErrorKind, RedisError, RedisResult};

use super::answer::{self, LINE_BYTES_MAX};
use crate::protocol::END;

/// One answer that is no array.
#[derive(Debug, PartialEq)]
pub enum FlatAnswer<'a> {
    /// A text; `None` where there is none.
    Text(Option<&'a [u8]>),
    Number(i64),
    /// A line that says how it went, such as an error.
    Line,
}

/// The answer that begins these bytes and how many of them it takes; `None` if the rest of it has
/// not come yet. A text may have `bytes_max` bytes.
///
/// # Errors
/// What is no answer without parts, or one above its bounds.
pub fn first_answer(
    bytes: &[u8],
    bytes_max: usize,
) -> RedisResult<Option<(FlatAnswer<'_>, usize)>> {
    let within = &bytes[..bytes.len().min(LINE_BYTES_MAX as usize)];
    let Some(line_end) = within.iter().position(|byte| *byte == b'\n') else {
        if within.len() < bytes.len() {
            let text = format!("more than {LINE_BYTES_MAX} bytes in a line");
            return Err(answer::too_large(&text));
        }
        return Ok(None);
    };
    let after = line_end + 1;
    let Some(line) = bytes[..after].strip_suffix(END) else {
        return Err(answer::foreign(
            "a line of an answer has no carriage return",
        ));
    };
    let (kind, text) =
        (line.split_first()).ok_or_else(|| answer::foreign("a line of an answer is empty"))?;
    let answer = match kind {
        b'+' | b'-' => FlatAnswer::Line,
        b':' => FlatAnswer::Number(answer::number(text)?),
        b'$' => match answer::length(text)? {
            None => FlatAnswer::Text(None),
            Some(length) if length > bytes_max => {
                let text = format!("{length} bytes, where {bytes_max} are left");
                return Err(answer::too_large(&text));
            }
            Some(length) => return text_of(bytes, after, length),
        },
        _ => {
            let text = "this is no answer to a read of one value";
            return Err(RedisError::from((ErrorKind::Parse, text)));
        }
    };
    Ok(Some((answer, after)))
}

fn text_of(
    bytes: &[u8],
    begin: usize,
    length: usize,
) -> RedisResult<Option<(FlatAnswer<'_>, usize)>> {
    let end = begin + length;
    let Some(last) = bytes.get(end..end + END.len()) else {
        return Ok(None);
    };
    if last != END {
        return Err(answer::foreign(
            "a text in an answer is longer than it says",
        ));
    }
    let text = FlatAnswer::Text(Some(&bytes[begin..end]));
    Ok(Some((text, end + END.len())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis::Value;

    use super::super::answer::read_answer;
    use super::*;

    fn is_same(flat: &FlatAnswer<'_>, value: &Value) -> bool {
        match (flat, value) {
            (FlatAnswer::Text(None), Value::Nil) => true,
            (FlatAnswer::Text(Some(text)), Value::BulkString(other)) => text == other,
            (FlatAnswer::Number(number), Value::Int(other)) => number == other,
            (FlatAnswer::Line, other) => matches!(
                other,
                Value::Okay | Value::SimpleString(_) | Value::ServerError(_)
            ),
            _ => false,
        }
    }

    #[test]
    fn first_answer_refuses_what_is_too_large_before_it_has_come() {
        assert!(first_answer(b"$11\r\n", 10).is_err());
        assert_eq!(first_answer(b"$10\r\n", 10).unwrap(), None);
        let line = vec![b'+'; LINE_BYTES_MAX as usize + 1];
        assert!(first_answer(&line, 10).is_err());
        assert_eq!(first_answer(&line[1..], 10).unwrap(), None);
    }

    proptest! {
        /// Of any bytes it says what the reader of a stream says, however few have come.
        #[test]
        fn first_answer_agrees_with_the_reader_of_a_stream(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(b"$3\r\nabc\r\n".to_vec()),
                    Just(b"$-1\r\n".to_vec()),
                    Just(b"+OK\r\n".to_vec()),
                    Just(b"-ERR no\r\n".to_vec()),
                    (-3_i64..3).prop_map(|number| format!(":{number}\r\n").into_bytes()),
                    prop::collection::vec(
                        prop::sample::select(b"$:+-*\r\n019 a".to_vec()), 0..8),
                ],
                1..4,
            ),
            cut in 0_usize..40,
        ) {
            let all = parts.concat();
            let bytes = &all[..all.len().min(cut)];
            let mut stream = bytes;
            let read = read_answer(&mut stream, 1_000);
            match first_answer(bytes, 1_000) {
                Ok(Some((flat, taken))) => {
                    let is_line = flat == FlatAnswer::Line;
                    // A line of no UTF-8 is refused by the other reader alone.
                    if let Ok(value) = read {
                        prop_assert!(is_same(&flat, &value), "{flat:?} {value:?}");
                        prop_assert_eq!(taken, bytes.len() - stream.len());
                    } else {
                        prop_assert!(is_line);
                    }
                }
                Ok(None) => prop_assert!(read.unwrap_err().is_io_error()),
                Err(_) => {
                    let is_array = matches!(&read, Ok(Value::Array(_)));
                    prop_assert!(is_array || bytes[0] == b'*' || read.is_err());
                }
            }
        }
    }
}
