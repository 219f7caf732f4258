//! The clean mark of a mapped file, and its clock: what lets a file outlive its start of the host.
//!
//! The mark says that everything has reached the disk and that nothing has been written since. The
//! first write after it takes it away, on the disk too, before it changes anything: a mark that
//! came back after a crash would bring back what was deleted.
//!
//! Ends of entries are counted by the file's clock, which is the host's plus an offset, since the
//! host's begins again with each start.

use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash3_64;

use super::super::host::Host;
use super::layout::word;

/// Where the mark stands in the page of the header: its state, the file's clock, the wall clock.
pub const AT: u64 = 512;
pub const BYTES: usize = 24;
/// Where the clock stands: the offset of the file's clock, and a check of it and the boot id.
pub const CLOCK_AT: u64 = 576;
pub const CLOCK_BYTES: usize = 16;

const NONE: u64 = 0;
/// A writer is taking the mark away and does not yet know that the disk has it.
const LEAVING: u64 = 1;

fn hash(parts: &[&[u8]], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, &parts.concat()).max(LEAVING + 1)
}

/// The mark as bytes, of a file whose clock shows `file_ms`.
pub fn mark_bytes(file_ms: u64, seed: u64, host: &Host) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[8..16].copy_from_slice(&file_ms.to_le_bytes());
    bytes[16..].copy_from_slice(&(host.wall_ms)().to_le_bytes());
    let state = hash(&[&bytes[8..]], seed);
    bytes[..8].copy_from_slice(&state.to_le_bytes());
    bytes
}

/// The clock of a file whose mark is in these bytes, for this start of the host: it goes on as the
/// wall clock did. `None` without a mark.
pub fn clock_after_mark(bytes: &[u8; BYTES], seed: u64, host: &Host) -> Option<[u8; CLOCK_BYTES]> {
    if word(bytes, 0) != hash(&[&bytes[8..]], seed) {
        return None;
    }
    let passed_ms = (host.wall_ms)().saturating_sub(word(bytes, 16));
    let file_ms = word(bytes, 8).saturating_add(passed_ms);
    let offset = file_ms.wrapping_sub((host.now_ms)());
    Some(clock_bytes(offset, seed, host))
}

/// The offset of the file's clock as bytes.
pub fn clock_bytes(offset: u64, seed: u64, host: &Host) -> [u8; CLOCK_BYTES] {
    let mut bytes = [0; CLOCK_BYTES];
    bytes[..8].copy_from_slice(&offset.to_le_bytes());
    let check = hash(&[&bytes[..8], &host.boot_id], seed);
    bytes[8..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// `None` if damaged, or of another start of the host.
pub fn read_clock(bytes: &[u8; CLOCK_BYTES], seed: u64, host: &Host) -> Option<u64> {
    let offset = word(bytes, 0);
    (clock_bytes(offset, seed, host) == *bytes).then_some(offset)
}

/// Takes the mark away, if there is one, before something is written. `sync` must bring the file's
/// pages to the disk. The caller holds the lock of a stripe.
pub fn leave<E>(state: &AtomicU64, sync: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    if state.load(Ordering::Acquire) == NONE {
        return Ok(());
    }
    state.store(LEAVING, Ordering::Release);
    sync()?;
    // Only now may others write without bringing it to the disk themselves.
    state.store(NONE, Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(boot: u8, now_ms: fn() -> u64, wall_ms: fn() -> u64) -> Host {
        Host {
            now_ms,
            wall_ms,
            forks: || 0,
            boot_id: [boot; 16],
            random: |bytes| bytes.fill(3),
        }
    }

    #[test]
    fn clock_goes_on_from_the_mark_as_the_wall_clock_did() {
        let before = host(1, || 5_000, || 100_000);
        let mark = mark_bytes(5_000, 9, &before);
        let later = host(2, || 70, || 100_400);
        let clock = clock_after_mark(&mark, 9, &later).unwrap();
        let offset = read_clock(&clock, 9, &later).unwrap();
        assert_eq!(offset.wrapping_add(70), 5_400);
        assert_eq!(read_clock(&clock, 9, &before), None);
        // A wall clock that was set back stands still.
        let early = host(2, || 70, || 5);
        let clock = clock_after_mark(&mark, 9, &early).unwrap();
        assert_eq!(
            read_clock(&clock, 9, &early).unwrap().wrapping_add(70),
            5_000
        );
    }

    #[test]
    fn mark_that_is_leaving_or_damaged_is_none() {
        let host = host(1, || 1, || 1);
        let mark = mark_bytes(1, 9, &host);
        for state in [NONE, LEAVING] {
            let mut bytes = mark;
            bytes[..8].copy_from_slice(&state.to_le_bytes());
            assert_eq!(clock_after_mark(&bytes, 9, &host), None);
        }
        for bit in 0..BYTES * 8 {
            let mut bytes = mark;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(clock_after_mark(&bytes, 9, &host), None);
        }
    }

    #[test]
    fn mark_stays_on_the_way_out_until_the_disk_has_it() {
        let state = AtomicU64::new(77);
        assert_eq!(leave(&state, || Err("disk")), Err("disk"));
        assert_eq!(state.load(Ordering::Relaxed), LEAVING);
        let mut syncs = 0;
        for _ in 0..3 {
            let sync = || {
                syncs += 1;
                Ok::<(), ()>(())
            };
            leave(&state, sync).unwrap();
        }
        assert_eq!((syncs, state.load(Ordering::Relaxed)), (1, NONE));
    }
}
