//! The frame around a value in any tier: which codec wrote it, a checksum, and LZ4 where it pays.
//!
//! | bytes | |
//! |---|---|
//! | 1 | [`MAGIC`] |
//! | 1 | version in the upper four bits, 1 in the lower ones if compressed |
//! | 1 | the caller's number for its codec |
//! | 1 | 0 |
//! | 8 | XXH3-64, little endian, of all that follows; seeded with the four bytes before |
//! | 4 | only if compressed: length of the payload, little endian |
//! | | the payload, or an LZ4 block of it |
//!
//! The checksum finds damage, not an attack.

use std::borrow::Cow;
use std::fmt;

use lz4_flex::block;
use twox_hash::XxHash3_64;

/// The first byte of each frame.
pub const MAGIC: u8 = 0xd1;
/// Longest header of a frame, in bytes.
pub const HEADER_BYTES_MAX: usize = COMPRESSED_BYTES;

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const CHECK: std::ops::Range<usize> = 4..12;
const PLAIN_BYTES: usize = 12;
const COMPRESSED_BYTES: usize = 16;
/// Shorter payloads are kept as they are: finding out whether they shrink costs more than it saves.
pub const COMPRESS_FROM_BYTES: usize = 1_024;
/// No LZ4 block says more than this with one byte, so a longer claim is a lie.
const EXPANSION_MAX: usize = 256;

/// A payload and the codec that wrote it.
#[derive(Debug, PartialEq)]
pub struct Payload<'a> {
    /// The number given to [`seal`].
    pub codec: u8,
    /// The bytes given to [`seal`].
    pub bytes: Cow<'a, [u8]>,
}

/// Why a frame cannot be opened. All of them mean: treat it as a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Not a frame of this version.
    Foreign,
    /// Shorter than its header, or the checksum is wrong.
    Damaged,
    /// The payload would be larger than the caller allows.
    TooLarge,
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            EnvelopeError::Foreign => "not a frame of this version",
            EnvelopeError::Damaged => "the frame is damaged",
            EnvelopeError::TooLarge => "the payload is larger than allowed",
        })
    }
}

impl std::error::Error for EnvelopeError {}

/// Appends the frame of a payload to `to`.
pub fn seal(codec: u8, payload: &[u8], to: &mut Vec<u8>) {
    seal_from(COMPRESS_FROM_BYTES, codec, payload, to);
}

/// As [`seal`], but payloads shorter than `compress_from` bytes are kept as they are.
pub fn seal_from(compress_from: usize, codec: u8, payload: &[u8], to: &mut Vec<u8>) {
    let start = to.len();
    let length = u32::try_from(payload.len()).ok();
    let compressed = length.filter(|_| payload.len() >= compress_from);
    let is_smaller = compressed.is_some_and(|length| compress(codec, payload, length, to));
    if !is_smaller {
        to.truncate(start);
        to.reserve(PLAIN_BYTES + payload.len());
        to.extend_from_slice(&[MAGIC, VERSION << 4, codec, 0]);
        to.extend_from_slice(&[0; CHECK.end - CHECK.start]);
        to.extend_from_slice(payload);
    }
    let frame = &mut to[start..];
    let check = checksum(frame);
    frame[CHECK].copy_from_slice(&check.to_le_bytes());
}

/// Appends the compressed frame without its checksum; false if that saves less than an eighth.
fn compress(codec: u8, payload: &[u8], length: u32, to: &mut Vec<u8>) -> bool {
    to.extend_from_slice(&[MAGIC, VERSION << 4 | COMPRESSED, codec, 0]);
    to.extend_from_slice(&[0; CHECK.end - CHECK.start]);
    to.extend_from_slice(&length.to_le_bytes());
    let start = to.len();
    to.resize(start + block::get_maximum_output_size(payload.len()), 0);
    let Ok(written) = block::compress_into(payload, &mut to[start..]) else {
        return false;
    };
    to.truncate(start + written);
    written <= payload.len() - payload.len() / 8
}

/// The payload of a frame, at most `bytes_max` long. Nothing is allocated before the checksum and
/// all lengths are right.
///
/// # Errors
/// [`EnvelopeError`]: the frame counts as a miss.
pub fn open(frame: &[u8], bytes_max: usize) -> Result<Payload<'_>, EnvelopeError> {
    let header = frame.get(..4).ok_or(EnvelopeError::Damaged)?;
    if header[0] != MAGIC || header[1] >> 4 != VERSION || header[1] & 0x0e != 0 || header[3] != 0 {
        return Err(EnvelopeError::Foreign);
    }
    let codec = header[2];
    let check = frame.get(CHECK).ok_or(EnvelopeError::Damaged)?;
    if check != checksum(frame).to_le_bytes() {
        return Err(EnvelopeError::Damaged);
    }
    if header[1] & COMPRESSED == 0 {
        let bytes = &frame[PLAIN_BYTES..];
        if bytes.len() > bytes_max {
            return Err(EnvelopeError::TooLarge);
        }
        let bytes = Cow::Borrowed(bytes);
        return Ok(Payload { codec, bytes });
    }
    let length = frame.get(PLAIN_BYTES..COMPRESSED_BYTES);
    let length = length.and_then(|bytes| bytes.try_into().ok());
    let length = u32::from_le_bytes(length.ok_or(EnvelopeError::Damaged)?) as usize;
    let bytes = Cow::Owned(decompress(&frame[COMPRESSED_BYTES..], length, bytes_max)?);
    Ok(Payload { codec, bytes })
}

fn decompress(block: &[u8], length: usize, bytes_max: usize) -> Result<Vec<u8>, EnvelopeError> {
    if length > bytes_max {
        return Err(EnvelopeError::TooLarge);
    }
    if length > block.len().saturating_mul(EXPANSION_MAX) {
        return Err(EnvelopeError::Damaged);
    }
    let mut bytes = vec![0; length];
    match block::decompress_into(block, &mut bytes) {
        Ok(written) if written == length => Ok(bytes),
        _ => Err(EnvelopeError::Damaged),
    }
}

/// Of what follows the checksum. The header is the seed, so that it counts as well.
fn checksum(frame: &[u8]) -> u64 {
    let header = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
    XxHash3_64::oneshot_with_seed(u64::from(header), &frame[CHECK.end..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(codec: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = b"before".to_vec();
        seal(codec, payload, &mut frame);
        assert!(frame.starts_with(b"before"));
        frame.split_off(6)
    }

    #[test]
    fn frame_of_a_small_payload_has_twelve_bytes_of_header() {
        let frame = sealed(7, b"abc");
        assert_eq!(frame.len(), 12 + 3);
        let payload = open(&frame, 3).unwrap();
        assert_eq!((payload.codec, &*payload.bytes), (7, &b"abc"[..]));
    }

    #[test]
    fn frame_of_a_repeating_payload_is_shorter() {
        let payload = vec![b'a'; 10_000];
        let frame = sealed(0, &payload);
        assert!(frame.len() < 100, "{}", frame.len());
        assert_eq!(&*open(&frame, 10_000).unwrap().bytes, payload);
    }

    #[test]
    fn frame_of_a_payload_below_the_size_asked_for_is_plain() {
        let payload = vec![b'a'; 10_000];
        for (from, is_plain) in [(10_000, false), (10_001, true)] {
            let mut frame = Vec::new();
            seal_from(from, 3, &payload, &mut frame);
            assert_eq!(frame.len() == PLAIN_BYTES + payload.len(), is_plain);
            assert_eq!(&*open(&frame, 10_000).unwrap().bytes, payload);
        }
    }

    #[test]
    fn frame_over_the_limit_is_refused() {
        for payload in [vec![b'a'; 10_000], vec![1; 11]] {
            let frame = sealed(0, &payload);
            let opened = open(&frame, payload.len() - 1);
            assert_eq!(opened, Err(EnvelopeError::TooLarge));
        }
    }

    #[test]
    fn frame_with_a_right_checksum_and_a_false_length_is_refused() {
        for length in [0_u32, 9_999, 10_001, u32::MAX] {
            let mut frame = sealed(0, &vec![b'a'; 10_000]);
            frame[PLAIN_BYTES..COMPRESSED_BYTES].copy_from_slice(&length.to_le_bytes());
            let check = checksum(&frame);
            frame[CHECK].copy_from_slice(&check.to_le_bytes());
            let opened = open(&frame, usize::MAX);
            assert_eq!(opened, Err(EnvelopeError::Damaged), "{length}");
        }
    }

    #[test]
    fn frame_with_any_bit_turned_or_cut_anywhere_is_refused() {
        for payload in [vec![3; 40], vec![b'a'; 2_000]] {
            let frame = sealed(9, &payload);
            for bit in 0..frame.len() * 8 {
                let mut turned = frame.clone();
                turned[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&turned, usize::MAX).is_err(), "bit {bit}");
            }
            for length in 0..frame.len() {
                assert!(open(&frame[..length], usize::MAX).is_err(), "{length}");
            }
        }
    }

    proptest! {
        #[test]
        fn frame_gives_back_its_payload(
            codec: u8,
            unit in proptest::collection::vec(any::<u8>(), 0..80),
            times in 0_usize..60,
        ) {
            let payload = unit.repeat(times);
            let frame = sealed(codec, &payload);
            prop_assert!(frame.len() <= payload.len() + HEADER_BYTES_MAX);
            let opened = open(&frame, payload.len()).unwrap();
            prop_assert_eq!((opened.codec, &*opened.bytes), (codec, &payload[..]));
        }
    }
}
