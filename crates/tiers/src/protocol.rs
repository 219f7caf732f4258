//! What the protocols of Redis and of Memcached have in common.

use std::io::{self, BufRead, Read};

/// What ends a line and a text.
pub const END: &[u8] = b"\r\n";
/// Memory for a text is taken as it comes, at first no more than this.
const FIRST_BYTES_MAX: usize = 1 << 20;

/// The bytes that have come; more, if there are none.
pub fn buffered(from: &mut impl BufRead) -> io::Result<&[u8]> {
    match from.fill_buf() {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(&[]),
        bytes => bytes,
    }
}

/// A text of so many bytes, whose end is taken as well; `None` if something else follows it.
///
/// # Errors
/// Those of the stream, and that it ends before.
pub fn text(from: &mut impl BufRead, length: usize) -> io::Result<Option<Vec<u8>>> {
    if let Some((text, rest)) = buffered(from)?.split_at_checked(length)
        && rest.starts_with(END)
    {
        let bytes = text.to_vec();
        from.consume(length + END.len());
        return Ok(Some(bytes));
    }
    let mut bytes = Vec::with_capacity(length.min(FIRST_BYTES_MAX));
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    let mut end = [0; END.len()];
    // Fails as well if the bytes before were too few.
    from.read_exact(&mut end)?;
    Ok((end == END).then_some(bytes))
}

/// Two digits for each byte, for keys that may have no others.
pub fn digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = vec![0; 2 * bytes.len()];
    for ([first, second], byte) in digits.as_chunks_mut().0.iter_mut().zip(bytes) {
        *first = DIGITS[usize::from(byte >> 4)];
        *second = DIGITS[usize::from(byte & 15)];
    }
    String::from_utf8(digits).expect("digits")
}

/// The bytes that have these digits; `None` if others stand among them.
pub fn of_digits(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let byte = |[first, second]: &[u8; 2]| Some(value(*first)? << 4 | value(*second)?);
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_two_digits_for_each_byte() {
        assert_eq!(digits(b""), "");
        assert_eq!(digits(&[0, 9, 10, 0x7f, 0xf0, 255]), "00090a7ff0ff");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(of_digits(digits(&all).as_bytes()), Some(all));
        for other in ["0", "0g", "0A", "zz", "0 "] {
            assert_eq!(of_digits(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn text_is_the_same_in_one_piece_and_byte_by_byte() {
        let cases = [
            ("\r\nx", 0, Some("")),
            ("abc\r\n", 3, Some("abc")),
            ("a\r\nb\r\nx", 4, Some("a\r\nb")),
            ("abcd\r\n", 3, None),
            ("abc\n\r", 3, None),
            ("abc\rx", 3, None),
        ];
        for (bytes, length, wanted) in cases {
            let (bytes, wanted) = (bytes.as_bytes(), wanted.map(str::as_bytes));
            for capacity in [1, 2, 100] {
                let mut from = io::BufReader::with_capacity(capacity, bytes);
                let found = text(&mut from, length).unwrap();
                assert_eq!(found.as_deref(), wanted, "{capacity}");
                let mut rest = Vec::new();
                from.read_to_end(&mut rest).unwrap();
                assert_eq!(rest, bytes[length + END.len()..]);
            }
        }
        for bytes in [&b""[..], b"ab", b"abc", b"abc\r"] {
            let mut from = io::BufReader::with_capacity(2, bytes);
            let error = text(&mut from, 3).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
