//! Answers that a client may hold already: `ETag`, `If-None-Match`, and 304.
//!
//! A tag names the body a client would get: the rows, the total and the words of the route
//! family. Marks, ages and CORS headers are not part of it, so the same body has the same tag
//! whenever, and by whichever page, it is asked for.

use std::fmt;
use std::io::Write as _;

use engine::Family;
use hyper::header::{self, HeaderMap, HeaderValue};

/// The tag of a list with these rows and this total.
pub fn of_list(rows: u128, total: u64, family: Family) -> HeaderValue {
    let family = letter(family);
    written(format_args!("\"{rows:032x}-{total:x}{family}\""))
}

/// The tag of an answer at fixed coordinates: with the numbers that rise when the past is shown or
/// judged otherwise, so that it is not taken for what was seen before.
pub fn of_fixed(rows: u128, total: u64, family: Family, epochs: [u64; 3]) -> HeaderValue {
    let [fence, schema, permissions] = epochs;
    let family = letter(family);
    written(format_args!(
        "\"{rows:032x}-{total:x}{family}-{fence:x}.{schema:x}.{permissions:x}\""
    ))
}

/// The tag of a whole body.
pub fn of_body(body: u128) -> HeaderValue {
    BodyTag::of(body).header()
}

/// The tag of a whole body, in place.
#[derive(Clone, Copy, Debug)]
pub struct BodyTag([u8; 34]);

impl BodyTag {
    /// Of a body with this fingerprint.
    pub fn of(body: u128) -> BodyTag {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'"'; 34];
        for (pair, byte) in text[1..33].chunks_exact_mut(2).zip(body.to_be_bytes()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        BodyTag(text)
    }

    /// As written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a header.
    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("quotes and digits are legal")
    }
}

fn letter(family: Family) -> char {
    match family {
        Family::Tables => 't',
        Family::Documents => 'd',
    }
}

/// Longest tag, in bytes: two quotes, two numbers, what stands between, a family, and three epochs.
const TAG_BYTES_MAX: usize = 1 + 32 + 1 + 16 + 1 + 3 * (1 + 16) + 1;

/// In place, and copied once: every answer to a read has one.
fn written(tag: fmt::Arguments<'_>) -> HeaderValue {
    let mut bytes = [0; TAG_BYTES_MAX];
    let mut rest = &mut bytes[..];
    rest.write_fmt(tag).expect("there is room for any numbers");
    let length = TAG_BYTES_MAX - rest.len();
    HeaderValue::from_bytes(&bytes[..length]).expect("quotes, digits and letters are legal")
}

/// Whether `If-None-Match` says that the client holds what `tag` names. Tags are compared weakly
/// (RFC 9110, 13.1.2): with or without `W/`.
pub fn is_held(headers: &HeaderMap, tag: &[u8]) -> bool {
    let wanted = opaque(tag).map(|(tag, _)| tag);
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|line| names(line.as_bytes(), wanted))
}

/// Whether one line lists the tag, or is `*`. What follows a fault counts for nothing.
fn names(mut line: &[u8], wanted: Option<&[u8]>) -> bool {
    if line.trim_ascii() == b"*" {
        return true;
    }
    loop {
        let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
        let start = line.iter().position(|byte| !is_between(byte));
        let Some(start) = start else { return false };
        line = &line[start..];
        line = line.strip_prefix(b"W/").unwrap_or(line);
        let Some((tag, rest)) = opaque(line) else {
            return false;
        };
        if Some(tag) == wanted {
            return true;
        }
        line = rest;
    }
}

/// What stands between the quotes at the beginning, which may hold commas, and what follows.
fn opaque(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| *byte == b'"')?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], held: bool) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_NONE_MATCH, line.parse().unwrap());
        }
        let tag = HeaderValue::from_static("\"a-1t\"");
        assert_eq!(is_held(&headers, tag.as_bytes()), held, "{lines:?}");
    }

    #[test]
    fn a_tag_is_found_wherever_it_stands_in_the_list() {
        check(&["\"a-1t\""], true);
        check(&["W/\"a-1t\""], true);
        check(&["\"b\", \"a-1t\""], true);
        check(&["\"b\",W/\"a-1t\",\"c\""], true);
        check(&[" , ,\"a-1t\" "], true);
        check(&["\"b\"", "\"a-1t\""], true);
        check(&["\"with, comma\", \"a-1t\""], true);
        check(&["*"], true);
        check(&[" * "], true);
    }

    #[test]
    fn tag_of_another_body_or_of_none_is_not_held() {
        check(&[], false);
        check(&[""], false);
        check(&[","], false);
        check(&["a-1t"], false);
        check(&["\"a-1t"], false);
        check(&["\"A-1T\""], false);
        check(&["\"a-1\""], false);
        check(&["\"b\", *"], false);
        check(&["w/\"a-1t\""], false);
        check(&["nonsense, \"a-1t\""], false);
        check(&["\"with \\\"a-1t\\\" inside\""], false);
    }

    #[test]
    fn rows_total_and_family_each_make_another_tag() {
        let tags = [
            of_list(1, 2, Family::Tables),
            of_list(1, 3, Family::Tables),
            of_list(2, 2, Family::Tables),
            of_list(1, 2, Family::Documents),
            of_body(1),
        ];
        for (position, tag) in tags.iter().enumerate() {
            assert!(tags[position + 1..].iter().all(|other| other != tag));
        }
        assert_eq!(of_body(1), "\"00000000000000000000000000000001\"");
        let longest = of_fixed(u128::MAX, u64::MAX, Family::Tables, [u64::MAX; 3]);
        assert_eq!(longest.len(), TAG_BYTES_MAX);
    }
}
