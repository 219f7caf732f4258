//! Each line of an input as the `Content-Range` of one part of a deployment's archive: a part is
//! taken exactly if a simple list of the parts so far says so, and an archive that is all there has
//! the bytes that were sent.

use std::collections::BTreeMap;

use serde_json::Value;
use testing::Credentials;

use crate::fixture::{download, with_client};

const DEPLOYMENTS: &str = "/v1/functions/g/deployments";
/// Parts of one input.
const PARTS_MAX: usize = 8;
/// Bytes of a part; the inputs name few, and a larger one proves nothing else.
const PART_BYTES_MAX: u64 = 5_000;
/// Most bytes of an archive (wire protocol, deployments).
const ARCHIVE_BYTES_MAX: u64 = 30_000_000;

/// A deployment as the lines have made it.
struct Sent {
    id: String,
    total: u64,
    /// By where each begins: how many bytes it has.
    parts: BTreeMap<u64, u64>,
}

pub fn check(bytes: &[u8]) {
    let mut sent = None;
    let lines = bytes.split(|byte| *byte == b'\n').take(PARTS_MAX);
    for line in lines {
        // Anything else is no value of a header, which another target looks at.
        let is_value = line.iter().all(|byte| (b' '..=b'~').contains(byte));
        if let Some(range) = std::str::from_utf8(line).ok().filter(|_| is_value) {
            send(range.trim(), &mut sent);
        }
    }
    let Some(sent) = sent else { return };
    let path = format!("{DEPLOYMENTS}/{}", sent.id);
    if sent.parts.values().sum::<u64>() == sent.total {
        let wanted: Vec<u8> = (0..sent.total).map(byte_at).collect();
        assert!(download(&path) == wanted, "the archive is another one");
    }
    with_client(|client| {
        let deleted = client.ask(Credentials::Key, "DELETE", &path, b"");
        assert_eq!(deleted.status, 204, "{deleted:?}");
    });
}

/// What the archive holds at this place: gzip's first two bytes, then letters.
fn byte_at(place: u64) -> u8 {
    match place {
        0 => 0x1f,
        1 => 0x8b,
        place => b'a' + (place % 23) as u8,
    }
}

/// Start, length and total of a range that is written as it should be. The end may be the last
/// byte or, of the last part, the one after it.
fn read(range: &str) -> Option<(u64, u64, u64)> {
    let (part, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = part.split_once('-')?;
    let [start, end, total] = [start, end, total].map(|number| number.parse::<u64>().ok());
    let (start, end, total) = (start?, end?, total?);
    if start >= total || end > total || end < start {
        return None;
    }
    let length = if end == total {
        end - start
    } else {
        end - start + 1
    };
    Some((start, length, total))
}

/// Whether a part is to be taken.
fn fits(sent: Option<&Sent>, (start, length, total): (u64, u64, u64)) -> bool {
    let has_head = start > 0 || length >= 2;
    let Some(sent) = sent else {
        return start == 0 && has_head && total <= ARCHIVE_BYTES_MAX;
    };
    let is_same = sent.parts.get(&start) == Some(&length);
    let end = start + length;
    let mut others = sent.parts.iter();
    let meets = others.any(|(other, length)| *other < end && other + length > start);
    sent.total == total && has_head && (is_same || !meets)
}

fn send(range: &str, sent: &mut Option<Sent>) {
    let read = read(range);
    let (start, length, total) = read.unwrap_or((0, 10, 10));
    if length > PART_BYTES_MAX {
        return;
    }
    let id = sent.as_ref().map(|sent| sent.id.as_str());
    let answer = post(range, id, (start..start + length).map(byte_at).collect());
    let is_taken = read.is_some_and(|read| fits(sent.as_ref(), read));
    assert_eq!(
        answer.0,
        if is_taken { 202 } else { 400 },
        "{range}: {}",
        answer.1
    );
    if !is_taken {
        return;
    }
    let sent = sent.get_or_insert_with(|| Sent {
        id: answer.1["$id"].as_str().expect("it has one").to_owned(),
        total,
        parts: BTreeMap::new(),
    });
    sent.parts.insert(start, length);
}

fn post(range: &str, id: Option<&str>, part: Vec<u8>) -> (u16, Value) {
    let mut body =
        b"--b\r\nContent-Disposition: form-data; name=\"activate\"\r\n\r\nfalse\r\n--b\r\n\
        Content-Disposition: form-data; name=\"code\"; filename=\"c.tar.gz\"\r\n\r\n"
            .to_vec();
    body.extend(part);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let id = id.map_or(String::new(), |id| format!("X-Appwrite-ID: {id}\r\n"));
    let more = format!(
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Range: {range}\r\n{id}\
         Content-Length: {}\r\n",
        body.len()
    );
    with_client(|client| {
        let mut request = client
            .head(Credentials::Key, "POST", DEPLOYMENTS, &more)
            .into_bytes();
        request.extend(body);
        let answer = client.send(&request).expect("it is answered");
        (answer.status, answer.json())
    })
}
