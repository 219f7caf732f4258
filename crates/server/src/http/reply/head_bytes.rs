//! The bytes of an answer's head, as the HTTP library would write them.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use model::Timestamp;
use serde::Serialize;

/// Bytes of a date of HTTP (RFC 9110, 5.6.7), as in `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

/// The date of now, written once a second.
#[derive(Debug, Default)]
pub struct DateLine {
    second: Cell<u64>,
    text: RefCell<String>,
}

impl DateLine {
    fn write(&self, now: Timestamp, out: &mut Vec<u8>) {
        let second = u64::try_from(now.0).unwrap_or_default() / 1_000_000;
        let mut text = self.text.borrow_mut();
        if self.second.replace(second) != second || text.len() != DATE_BYTES {
            text.clear();
            let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(second));
            write!(text, "{date}").expect("writing to a string cannot fail");
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// Writes the first line.
pub fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes lines of headers.
pub fn write_lines(headers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes a whole number as JSON has it, which are its digits: without the means for any text,
/// which take three times as many instructions.
pub fn write_digits(number: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, number).expect("memory takes every byte");
}

/// Writes the end of the head of an answer whose body has so many bytes.
pub fn write_end(
    status: StatusCode,
    body_bytes: u64,
    (date, now): (&DateLine, Timestamp),
    out: &mut Vec<u8>,
) {
    // The length of what the client holds is not told again.
    if status != StatusCode::NOT_MODIFIED {
        out.extend_from_slice(b"content-length: ");
        write_digits(&body_bytes, out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"date: ");
    date.write(now, out);
    out.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use hyper::Response;

    use super::*;

    fn head(response: &Response<()>, now_s: i64, date: &DateLine) -> String {
        let mut out = Vec::new();
        let now = (date, Timestamp(now_s * 1_000_000));
        write_status(response.status(), &mut out);
        write_lines(response.headers(), &mut out);
        write_end(response.status(), 7, now, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_has_status_headers_length_and_date() {
        let date = DateLine::default();
        let response = Response::builder().header("etag", "\"x\"");
        let response = response.header("vary", "Origin").body(()).unwrap();
        let of_second = |second| {
            format!(
                "HTTP/1.1 200 OK\r\netag: \"x\"\r\nvary: Origin\r\ncontent-length: 7\r\n\
                 date: Sun, 06 Nov 1994 08:49:{second} GMT\r\n\r\n"
            )
        };
        assert_eq!(head(&response, 784_111_777, &date), of_second(37));
        assert_eq!(head(&response, 784_111_777, &date), of_second(37));
        assert_eq!(head(&response, 784_111_778, &date), of_second(38));
    }

    #[test]
    fn a_head_of_what_is_held_has_no_length() {
        let response = Response::builder().status(304).body(()).unwrap();
        let wanted = "HTTP/1.1 304 Not Modified\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        assert_eq!(head(&response, 0, &DateLine::default()), wanted);
    }
}
