//! Any bytes as a frame: opened within the limit, or refused. The same bytes as a payload: sealed
//! and opened, they are as before.

use tiers::envelope::{FrameCheck, HEADER_BYTES_MAX, ROOM_BYTES, Sealing, open, seal};

/// Most bytes that a frame may open to here.
const BYTES_MAX: usize = 1 << 16;
/// How often the payload stands in what is sealed, so that some of it is compressed.
const TIMES: [usize; 3] = [1, 7, 300];

pub fn check(bytes: &[u8]) {
    for check in [FrameCheck::InFrame, FrameCheck::ByStore] {
        if let Ok(payload) = open(check, bytes, BYTES_MAX) {
            assert!(payload.bytes.len() <= BYTES_MAX);
        }
        check_sealed(check, bytes);
    }
}

fn check_sealed(check: FrameCheck, bytes: &[u8]) {
    let sealing = Sealing {
        check,
        ..Sealing::default()
    };
    for times in TIMES {
        let payload = bytes.repeat(times);
        let with_room = [&[0; ROOM_BYTES], &payload[..]].concat();
        let mut frame = seal(sealing, times as u8, with_room);
        assert!(frame.len() <= payload.len() + HEADER_BYTES_MAX);
        let opened = open(check, &frame, payload.len()).expect("what was sealed opens");
        assert_eq!((opened.codec, &*opened.bytes), (times as u8, &payload[..]));
        if check == FrameCheck::ByStore {
            continue;
        }
        // Cut off, or with one byte of the input over one of its own.
        assert!(open(check, &frame[..frame.len() - 1], payload.len()).is_err());
        if let [place, change, ..] = bytes
            && *change > 0
        {
            let place = usize::from(*place) % frame.len();
            frame[place] ^= change;
            assert!(open(check, &frame, payload.len()).is_err(), "byte {place}");
        }
    }
}
