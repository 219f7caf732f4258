//! Frames between the executor and a process:
//! `payload length u32 | kind u8 | request u32 | payload`, little-endian.
//!
//! A text or body that may be longer than one frame goes in pieces: the first byte of each payload
//! is 1 for the last piece and 0 for those before. The adapters in `runtimes/` are the other side.

use std::fmt;

/// Longer ones end the process that sends them.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_BYTES: usize = 9;
/// A reader holds fewer between two pieces.
#[cfg(feature = "fuzz")]
pub const READER_BYTES_MAX: usize = HEAD_BYTES + PAYLOAD_BYTES_MAX;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// To a process: entrypoint, variables, limits; JSON, in pieces; request 0.
    Setup = 1,
    /// To a process: method, path, headers; JSON, in pieces.
    Request = 2,
    /// Either way, in pieces, within the credit of the other side.
    Body = 3,
    /// From a process: the handler is called next. For request 0: the code is loaded.
    Started = 4,
    /// From a process: status and headers, JSON, in pieces.
    Response = 5,
    /// From a process: one byte, 0 for logs and 1 for errors, and text.
    Log = 6,
    /// To a process: this request is over; its response answers.
    Cancel = 7,
    /// Either way: so many bytes (u32) of body may be sent besides.
    Credit = 8,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        use FrameKind::{Body, Cancel, Credit, Log, Request, Response, Setup, Started};
        let kinds = [Setup, Request, Body, Started, Response, Log, Cancel, Credit];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeFrame {
    pub kind: FrameKind,
    pub request: u32,
    pub payload: Vec<u8>,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    Kind(u8),
    Length(u32),
}

impl fmt::Display for FrameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Kind(kind) => write!(formatter, "a frame of the unknown kind {kind}"),
            FrameError::Length(length) => write!(
                formatter,
                "a frame of {length} bytes; the limit is {PAYLOAD_BYTES_MAX} bytes"
            ),
        }
    }
}

/// Appends one frame; the payload is at most [`PAYLOAD_BYTES_MAX`].
pub fn write_frame(into: &mut Vec<u8>, kind: FrameKind, request: u32, payload: &[&[u8]]) {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    assert!(length <= PAYLOAD_BYTES_MAX, "a frame of {length} bytes");
    into.extend_from_slice(&(length as u32).to_le_bytes());
    into.push(kind as u8);
    into.extend_from_slice(&request.to_le_bytes());
    for part in payload {
        into.extend_from_slice(part);
    }
}

/// Appends `bytes` in pieces. `ends` says whether the last of them is the last of all.
pub fn write_pieces(into: &mut Vec<u8>, kind: FrameKind, request: u32, bytes: &[u8], ends: bool) {
    let mut pieces = bytes.chunks(PAYLOAD_BYTES_MAX - 1).peekable();
    if pieces.peek().is_none() {
        write_frame(into, kind, request, &[&[u8::from(ends)]]);
    }
    while let Some(piece) = pieces.next() {
        let is_last = ends && pieces.peek().is_none();
        write_frame(into, kind, request, &[&[u8::from(is_last)], piece]);
    }
}

/// Cuts what arrives into frames. Holds at most one that is not complete.
#[derive(Debug, Default)]
pub struct FrameReader {
    unread: Vec<u8>,
}

impl FrameReader {
    /// The frames that are complete, and what the bytes behind them are instead of a frame. After
    /// that the reader must not be used again.
    pub fn feed(&mut self, bytes: &[u8]) -> (Vec<PipeFrame>, Option<FrameError>) {
        self.unread.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut rest = self.unread.as_slice();
        let mut broken = None;
        while let Some((head, behind)) = rest.split_at_checked(HEAD_BYTES) {
            let word = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let length = word(0);
            if length as usize > PAYLOAD_BYTES_MAX {
                broken = Some(FrameError::Length(length));
                break;
            }
            let Some(kind) = FrameKind::from_byte(head[4]) else {
                broken = Some(FrameError::Kind(head[4]));
                break;
            };
            let Some((payload, next)) = behind.split_at_checked(length as usize) else {
                break;
            };
            frames.push(PipeFrame {
                kind,
                request: word(5),
                payload: payload.to_vec(),
            });
            rest = next;
        }
        let read = self.unread.len() - rest.len();
        self.unread.drain(..read);
        (frames, broken)
    }

    /// Bytes that wait for the rest of their frame.
    #[cfg(feature = "fuzz")]
    pub fn unread_bytes(&self) -> usize {
        self.unread.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8], step: usize) -> Result<Vec<PipeFrame>, FrameError> {
        let mut reader = FrameReader::default();
        let mut all = Vec::new();
        for piece in bytes.chunks(step) {
            let (frames, broken) = reader.feed(piece);
            all.extend(frames);
            if let Some(error) = broken {
                return Err(error);
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_survive_any_split() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Started, 7, &[]);
        write_pieces(&mut bytes, FrameKind::Body, 8, &vec![5; 70_000], true);
        write_frame(&mut bytes, FrameKind::Credit, 8, &[&1u32.to_le_bytes()]);
        let whole = frames(&bytes, bytes.len()).unwrap();
        assert_eq!(whole.len(), 4);
        assert_eq!((whole[1].payload[0], whole[2].payload[0]), (0, 1));
        assert_eq!(whole[1].payload.len() + whole[2].payload.len(), 70_002);
        for step in [1, 2, 9, 10, 65_536] {
            assert_eq!(frames(&bytes, step).unwrap(), whole);
        }
    }

    #[test]
    fn frames_have_the_recorded_bytes() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Log, 258, &[&[1], b"hi"]);
        assert_eq!(bytes, [3, 0, 0, 0, 6, 2, 1, 0, 0, 1, b'h', b'i']);
    }

    #[test]
    fn frames_that_are_none_are_refused() {
        let long = [1, 0, 1, 0, 6, 0, 0, 0, 0];
        assert_eq!(frames(&long, 9), Err(FrameError::Length(65_537)));
        let odd = [0, 0, 0, 0, 9, 0, 0, 0, 0];
        assert_eq!(frames(&odd, 9), Err(FrameError::Kind(9)));
        assert_eq!(frames(&[0; 9], 9), Err(FrameError::Kind(0)));
    }

    #[test]
    fn frames_before_a_broken_one_are_read() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Started, 7, &[]);
        bytes.extend([0, 0, 0, 0, 99, 0, 0, 0, 0]);
        let (frames, broken) = FrameReader::default().feed(&bytes);
        assert_eq!((frames.len(), broken), (1, Some(FrameError::Kind(99))));
    }

    #[test]
    fn a_frame_at_the_limit_is_read() {
        let mut bytes = Vec::new();
        write_frame(
            &mut bytes,
            FrameKind::Body,
            1,
            &[&vec![0; PAYLOAD_BYTES_MAX]],
        );
        assert_eq!(frames(&bytes, 4_096).unwrap().len(), 1);
    }
}
