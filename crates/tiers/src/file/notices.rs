//! What processes of this host have invalidated, on the first page of the file, for those that look
//! at it: the last few notices, each with a number.
//!
//! A notice lets memory forget soon and promises nothing, as those of a server.

use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use twox_hash::XxHash3_64;

use super::super::host::Host;
use super::super::tier::{ListenEvent, TierError, TierFault};
use super::FileTier;
use super::failed::io;
use super::layout::{PAGE, word};
use super::lock::{LockedBytes, Patience};
use super::opened::OpenedFile;

/// Where they begin; the head of the file is before. A file of before there were any has zeros
/// here, which are none.
const BEGIN: u64 = 1_024;
/// Number, checksum, length, and the notice.
const SLOT_BYTES: usize = 104;
const HEAD_BYTES: usize = 18;
const SLOTS: u64 = (PAGE - BEGIN) / SLOT_BYTES as u64;
const PAGE_BYTES: usize = SLOTS as usize * SLOT_BYTES;
/// Largest notice, in bytes.
pub const FILE_NOTICE_BYTES_MAX: usize = SLOT_BYTES - HEAD_BYTES;

/// How often the page is read: one read of 3 KB from memory.
const PERIOD: Duration = Duration::from_millis(20);
/// Reads without a notice after which a listener is called nevertheless.
const QUIET_PERIODS: u32 = 2;

/// One notice and its number.
struct NumberedNotice<'a> {
    number: u64,
    bytes: &'a [u8],
}

impl NumberedNotice<'_> {
    fn slot(&self, seed: u64) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.number.to_le_bytes());
        let length = self.bytes.len() as u16;
        slot[16..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        slot[HEAD_BYTES..][..self.bytes.len()].copy_from_slice(self.bytes);
        let check = check(&slot, seed);
        slot[8..16].copy_from_slice(&check.to_le_bytes());
        slot
    }

    /// `None` if there is none, or it is being written.
    fn of(slot: &[u8; SLOT_BYTES], seed: u64) -> Option<NumberedNotice<'_>> {
        let number = word(slot, 0);
        let length = usize::from(u16::from_le_bytes([slot[16], slot[17]]));
        let bytes = slot[HEAD_BYTES..].get(..length)?;
        let is_whole = number > 0 && word(slot, 8) == check(slot, seed);
        is_whole.then_some(NumberedNotice { number, bytes })
    }
}

/// Of all but itself.
fn check(slot: &[u8; SLOT_BYTES], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed ^ word(slot, 0), &slot[16..])
}

/// The notices of a file, the oldest first.
fn notices(page: &[u8; PAGE_BYTES], seed: u64) -> Vec<NumberedNotice<'_>> {
    let (slots, _) = page.as_chunks::<SLOT_BYTES>();
    let read = slots
        .iter()
        .filter_map(|slot| NumberedNotice::of(slot, seed));
    let mut found: Vec<_> = read.collect();
    found.sort_by_key(|notice| notice.number);
    found
}

impl OpenedFile {
    fn notice_page(&self) -> Result<[u8; PAGE_BYTES], TierError> {
        let mut page = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut page, BEGIN).map_err(io)?;
        Ok(page)
    }

    fn announce(&self, bytes: &[u8], host: &Host) -> Result<(), TierError> {
        let (lock, page) = (&self.notices, LockedBytes::one(BEGIN));
        let _alone = lock.lock(&self.file, page, Patience::Delete, host.now_ms)?;
        let page = self.notice_page()?;
        let last = notices(&page, self.seed)
            .last()
            .map_or(0, |last| last.number);
        // Damage may have made it any number.
        let number = last.wrapping_add(1).max(1);
        let slot = NumberedNotice { number, bytes }.slot(self.seed);
        let at = BEGIN + number % SLOTS * SLOT_BYTES as u64;
        self.file.write_all_at(&slot, at).map_err(io)
    }
}

impl FileTier {
    /// Passes a notice on to all that listen now.
    ///
    /// # Errors
    /// [`TierFault::TooLarge`] above [`FILE_NOTICE_BYTES_MAX`]; those of the file.
    pub fn announce(&self, notice: &[u8]) -> Result<(), TierError> {
        if notice.len() > FILE_NOTICE_BYTES_MAX {
            let text = format!(
                "{} bytes in a notice, not {FILE_NOTICE_BYTES_MAX}",
                notice.len()
            );
            return Err(TierError::new(TierFault::TooLarge, text));
        }
        self.with_current(|opened| opened.announce(notice, &self.host))
    }

    /// Calls `on_notice` with what is announced, on this thread, until it returns false. It is
    /// called with [`ListenEvent::Began`] again after more were announced than the page has room
    /// for, and for another file.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn listen(
        &self,
        mut on_notice: impl FnMut(ListenEvent<'_>) -> bool,
    ) -> Result<(), TierError> {
        let mut last_heard = None;
        let mut quiet = 0;
        loop {
            let (opened, _) = self.opened()?;
            let page = self.with(|opened, _| opened.notice_page())?;
            let found = notices(&page, opened.seed);
            let last = found.last().map_or(0, |last| last.number);
            let after = match last_heard {
                Some((seed, number)) if seed == opened.seed && number <= last => number,
                _ => u64::MAX,
            };
            last_heard = Some((opened.seed, last));
            let news: Vec<_> = found.iter().filter(|one| one.number > after).collect();
            quiet = if after == last { quiet + 1 } else { 0 };
            let is_wanted = if after == u64::MAX || news.len() as u64 != last - after {
                on_notice(ListenEvent::Began)
            } else if quiet == QUIET_PERIODS {
                quiet = 0;
                on_notice(ListenEvent::Quiet)
            } else {
                let mut each = news.iter();
                each.all(|one| on_notice(ListenEvent::Notice(one.bytes)))
            };
            if !is_wanted {
                return Ok(());
            }
            thread::sleep(PERIOD);
        }
    }
}
