//! The frame around a value in any tier: which codec wrote it, a checksum, and LZ4 where it pays.
//!
//! | bytes | |
//! |---|---|
//! | 1 | [`MAGIC`] |
//! | 1 | version in the upper four bits; in the lower ones 1 if compressed, 2 if without checksum |
//! | 1 | the caller's number for its codec |
//! | 1 | 0 |
//! | 8 | XXH3-64, little endian, of all that follows, seeded with the four bytes before; or 0 |
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
const UNCHECKED: u8 = 2;
const CHECK: std::ops::Range<usize> = 4..12;
const PLAIN_BYTES: usize = 12;
const COMPRESSED_BYTES: usize = 16;
/// Shorter payloads are kept as they are: finding out whether they shrink costs more than it saves.
pub const COMPRESS_FROM_BYTES: usize = 1_024;
/// No LZ4 block says more than this with one byte, so a longer claim is a lie.
const EXPANSION_MAX: usize = 256;

/// Who finds out that a frame is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameCheck {
    /// Who opens it, by the checksum in the frame.
    InFrame,
    /// The store, by one of its own over all its bytes. A second one would be the dearest part of
    /// a read.
    ByStore,
}

/// How payloads become frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// Payloads shorter than this are kept as they are.
    pub compress_from: usize,
    /// Whether the frames have a checksum.
    pub check: FrameCheck,
}

impl Default for Sealing {
    /// For any store.
    fn default() -> Self {
        Sealing {
            compress_from: COMPRESS_FROM_BYTES,
            check: FrameCheck::InFrame,
        }
    }
}

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

/// Room for a header in front of a payload.
pub const ROOM_BYTES: usize = PLAIN_BYTES;

/// The frame of a payload, which stands after [`ROOM_BYTES`] of anything.
///
/// # Panics
/// Where there is no such room.
pub fn seal(sealing: Sealing, codec: u8, mut payload: Vec<u8>) -> Vec<u8> {
    let flags = match sealing.check {
        FrameCheck::InFrame => VERSION << 4,
        FrameCheck::ByStore => VERSION << 4 | UNCHECKED,
    };
    let length = payload.len() - ROOM_BYTES;
    let compressed = if length < sealing.compress_from {
        None
    } else {
        compress(
            [MAGIC, flags | COMPRESSED, codec, 0],
            &payload[ROOM_BYTES..],
        )
    };
    let mut frame = compressed.unwrap_or_else(|| {
        payload[..CHECK.start].copy_from_slice(&[MAGIC, flags, codec, 0]);
        payload[CHECK].fill(0);
        payload
    });
    if sealing.check == FrameCheck::InFrame {
        let check = checksum(&frame);
        frame[CHECK].copy_from_slice(&check.to_le_bytes());
    }
    frame
}

/// The compressed frame without its checksum; `None` if that saves less than an eighth.
fn compress(head: [u8; 4], payload: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok()?;
    let mut frame = head.to_vec();
    frame.extend_from_slice(&[0; CHECK.end - CHECK.start]);
    frame.extend_from_slice(&length.to_le_bytes());
    let start = frame.len();
    let most = block::get_maximum_output_size(payload.len());
    frame.resize(start + most, 0);
    let written = block::compress_into(payload, &mut frame[start..]).ok()?;
    frame.truncate(start + written);
    (written <= payload.len() - payload.len() / 8).then_some(frame)
}

/// The payload of a frame, at most `bytes_max` long. Nothing is allocated before the checksum and
/// all lengths are right. A frame without a checksum is none, unless it comes from a store that
/// has checked it.
///
/// # Errors
/// [`EnvelopeError`]: the frame counts as a miss.
pub fn open(
    checked: FrameCheck,
    frame: &[u8],
    bytes_max: usize,
) -> Result<Payload<'_>, EnvelopeError> {
    let header = frame.get(..4).ok_or(EnvelopeError::Damaged)?;
    let foreign = match checked {
        FrameCheck::InFrame => !COMPRESSED & 0x0f,
        FrameCheck::ByStore => !(COMPRESSED | UNCHECKED) & 0x0f,
    };
    let is_ours = header[0] == MAGIC && header[1] >> 4 == VERSION && header[3] == 0;
    if !is_ours || header[1] & foreign != 0 {
        return Err(EnvelopeError::Foreign);
    }
    let codec = header[2];
    let check = frame.get(CHECK).ok_or(EnvelopeError::Damaged)?;
    let right = match header[1] & UNCHECKED {
        0 => checksum(frame),
        _ => 0,
    };
    if check != right.to_le_bytes() {
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

    fn sealed_by(sealing: Sealing, codec: u8, payload: &[u8]) -> Vec<u8> {
        seal(sealing, codec, [&[7; ROOM_BYTES], payload].concat())
    }

    fn sealed(codec: u8, payload: &[u8]) -> Vec<u8> {
        sealed_by(Sealing::default(), codec, payload)
    }

    /// As any store gives it.
    fn opened(frame: &[u8], bytes_max: usize) -> Result<Payload<'_>, EnvelopeError> {
        open(FrameCheck::InFrame, frame, bytes_max)
    }

    #[test]
    fn frame_without_a_checksum_opens_only_where_the_store_has_one() {
        let sealing = Sealing {
            check: FrameCheck::ByStore,
            ..Sealing::default()
        };
        for payload in [vec![3; 40], vec![b'a'; 2_000]] {
            let mut frame = sealed_by(sealing, 9, &payload);
            assert_eq!(opened(&frame, usize::MAX), Err(EnvelopeError::Foreign));
            let verified = open(FrameCheck::ByStore, &frame, usize::MAX).unwrap();
            assert_eq!((verified.codec, &*verified.bytes), (9, &payload[..]));
            let limit = payload.len() - 1;
            let large = open(FrameCheck::ByStore, &frame, limit);
            assert_eq!(large, Err(EnvelopeError::TooLarge));
            for length in 0..COMPRESSED_BYTES.min(frame.len()) {
                let cut = open(FrameCheck::ByStore, &frame[..length], usize::MAX);
                assert!(cut.is_err() || length >= PLAIN_BYTES, "{length}");
            }
            frame[CHECK.start] = 1;
            let changed = open(FrameCheck::ByStore, &frame, usize::MAX);
            assert_eq!(changed, Err(EnvelopeError::Damaged));
            // One that has a checksum is checked all the same.
            let mut frame = sealed(9, &payload);
            assert!(open(FrameCheck::ByStore, &frame, usize::MAX).is_ok());
            *frame.last_mut().unwrap() ^= 1;
            let changed = open(FrameCheck::ByStore, &frame, usize::MAX);
            assert_eq!(changed, Err(EnvelopeError::Damaged));
        }
    }

    #[test]
    fn frame_of_a_small_payload_has_twelve_bytes_of_header() {
        let frame = sealed(7, b"abc");
        assert_eq!(frame.len(), 12 + 3);
        let payload = opened(&frame, 3).unwrap();
        assert_eq!((payload.codec, &*payload.bytes), (7, &b"abc"[..]));
    }

    #[test]
    fn frame_of_a_repeating_payload_is_shorter() {
        let payload = vec![b'a'; 10_000];
        let frame = sealed(0, &payload);
        assert!(frame.len() < 100, "{}", frame.len());
        assert_eq!(&*opened(&frame, 10_000).unwrap().bytes, payload);
    }

    #[test]
    fn frame_of_a_payload_below_the_size_asked_for_is_plain() {
        let payload = vec![b'a'; 10_000];
        for (from, is_plain) in [(10_000, false), (10_001, true)] {
            let sealing = Sealing {
                compress_from: from,
                ..Sealing::default()
            };
            let frame = sealed_by(sealing, 3, &payload);
            assert_eq!(frame.len() == PLAIN_BYTES + payload.len(), is_plain);
            assert_eq!(&*opened(&frame, 10_000).unwrap().bytes, payload);
        }
    }

    #[test]
    fn frame_over_the_limit_is_refused() {
        for payload in [vec![b'a'; 10_000], vec![1; 11]] {
            let frame = sealed(0, &payload);
            let found = opened(&frame, payload.len() - 1);
            assert_eq!(found, Err(EnvelopeError::TooLarge));
        }
    }

    #[test]
    fn frame_with_a_right_checksum_and_a_false_length_is_refused() {
        for length in [0_u32, 9_999, 10_001, u32::MAX] {
            let mut frame = sealed(0, &vec![b'a'; 10_000]);
            frame[PLAIN_BYTES..COMPRESSED_BYTES].copy_from_slice(&length.to_le_bytes());
            let check = checksum(&frame);
            frame[CHECK].copy_from_slice(&check.to_le_bytes());
            let found = opened(&frame, usize::MAX);
            assert_eq!(found, Err(EnvelopeError::Damaged), "{length}");
        }
    }

    #[test]
    fn frame_with_any_bit_turned_or_cut_anywhere_is_refused() {
        for payload in [vec![3; 40], vec![b'a'; 2_000]] {
            let frame = sealed(9, &payload);
            for bit in 0..frame.len() * 8 {
                let mut turned = frame.clone();
                turned[bit / 8] ^= 1 << (bit % 8);
                assert!(opened(&turned, usize::MAX).is_err(), "bit {bit}");
            }
            for length in 0..frame.len() {
                assert!(opened(&frame[..length], usize::MAX).is_err(), "{length}");
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
            let found = opened(&frame, payload.len()).unwrap();
            prop_assert_eq!((found.codec, &*found.bytes), (codec, &payload[..]));
        }
    }
}
