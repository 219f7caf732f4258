//! One table of a thread, and what a request knows of it.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tiers::{
    FileSettings, Host, KnownKey, MappedEntry, MappedHit, MappedLookup, MappedStored, MappedTicket,
    MappedTier, MappedWhen, MissedKeys, TierError, TierFault,
};

use crate::border::{caught, said};
use crate::forks::forks;
use crate::number;
use crate::read::{ReadEnd, ZendBuild, read};

/// Which codec wrote the values; another version of it gets another name.
const CODEC: [u8; 8] = *b"php-0001";
const STRIPES: u32 = 4;
/// How often a value that is overwritten meanwhile is looked for again.
const TRIES: u32 = 3;
const PANICKED: &str = "the extension panicked, which is a defect";

/// A mapped file, and what was missed in it.
pub struct SharedTable {
    pub path: Vec<u8>,
    bytes: u64,
    host: Option<Host>,
    tier: Option<UnsafeCell<MappedTier>>,
    /// Of each key that this request missed, what was known of its deletions then.
    missed: RefCell<MissedKeys>,
    /// hits, misses, stored, refused, faults.
    counts: [Cell<u64>; 5],
    fault: RefCell<String>,
}

enum TableFound<'a> {
    Hit(MappedHit<'a>),
    Miss,
    Fault,
}

impl SharedTable {
    pub fn new(path: &[u8], bytes: u64) -> SharedTable {
        let host = Host::of_this_machine(forks);
        let fault = host
            .as_ref()
            .err()
            .map(|error| format!("the boot id: {error}"));
        let settings = FileSettings {
            path: OsStr::from_bytes(path).into(),
            bytes,
            stripes: STRIPES,
            codec: CODEC,
        };
        let host = host.ok();
        SharedTable {
            path: path.to_vec(),
            bytes,
            tier: host.map(|host| UnsafeCell::new(MappedTier::new(settings, host))),
            host,
            missed: RefCell::default(),
            counts: Default::default(),
            fault: RefCell::new(fault.unwrap_or_default()),
        }
    }

    fn count(&self, which: usize) {
        self.counts[which].set(self.counts[which].get() + 1);
    }

    fn end_with(&self, text: String) {
        self.count(4);
        *self.fault.borrow_mut() = text;
    }

    /// Does something with the table that calls no Zend. `None` after a fault.
    pub fn with<'a, T>(
        &'a self,
        act: impl FnOnce(&'a MappedTier) -> Result<T, TierError>,
    ) -> Option<T> {
        // SAFETY: it is borrowed exclusively only where a request has ended.
        let tier = unsafe { &*self.tier.as_ref()?.get() };
        match catch_unwind(AssertUnwindSafe(|| act(tier))) {
            Ok(Ok(done)) => Some(done),
            Ok(Err(error)) => {
                self.end_with(error.text);
                None
            }
            Err(_) => {
                self.end_with(PANICKED.to_owned());
                None
            }
        }
    }

    fn find<'a>(&'a self, group: &[u8], key: &[u8]) -> TableFound<'a> {
        match self.with(|tier| tier.get(group, key)) {
            Some(MappedLookup::Hit(hit)) => TableFound::Hit(hit),
            Some(MappedLookup::Miss(ticket)) => {
                self.remember(group, key, ticket);
                self.count(1);
                TableFound::Miss
            }
            None => TableFound::Fault,
        }
    }

    fn remember(&self, group: &[u8], key: &[u8], ticket: MappedTicket) {
        self.missed.borrow_mut().remember(group, key, ticket);
    }

    pub fn fetch(&self, group: &[u8], key: &[u8], build: ZendBuild, expires: &mut i64) -> c_int {
        for _ in 0..TRIES {
            let hit = match self.find(group, key) {
                TableFound::Hit(hit) => hit,
                TableFound::Miss => return said::NO,
                TableFound::Fault => return said::FAULT,
            };
            match caught(ReadEnd::Panicked, || read(&hit, build)) {
                ReadEnd::Built => {
                    self.count(0);
                    *expires = self.unix_time(hit.left_ms());
                    return said::YES;
                }
                ReadEnd::Unreadable => break,
                ReadEnd::Panicked => {
                    self.end_with(PANICKED.to_owned());
                    break;
                }
                ReadEnd::Torn => build.drop_value(),
            }
        }
        self.count(1);
        self.take_ticket(group, key);
        said::NO
    }

    pub fn take_ticket(&self, group: &[u8], key: &[u8]) {
        if let Some(ticket) = self.with(|tier| tier.ticket(group, key)) {
            self.remember(group, key, ticket);
        }
    }

    /// Seconds since 1970, for so many milliseconds from now; 0 is never. To the nearest: the
    /// clocks are read one after the other, and only whole seconds were stored.
    fn unix_time(&self, left_ms: Option<u64>) -> i64 {
        let (Some(host), Some(left_ms)) = (self.host, left_ms) else {
            return 0;
        };
        ((host.wall_ms)().saturating_add(left_ms).saturating_add(500) / 1_000) as i64
    }

    fn lifetime_ms(&self, expires: i64) -> Option<u64> {
        let host = self.host.filter(|_| expires != 0)?;
        let until_ms = (expires.max(0) as u64).saturating_mul(1_000);
        Some(until_ms.saturating_sub((host.wall_ms)()))
    }

    pub fn store(
        &self,
        group: &[u8],
        key: &[u8],
        value: &[u8],
        when: MappedWhen,
        expires: i64,
    ) -> c_int {
        // What is there needs no lease to be replaced.
        let known = match when {
            MappedWhen::Present => KnownKey::Unmissed,
            MappedWhen::Always | MappedWhen::Absent => self.missed.borrow().known(group, key),
        };
        let (ticket, is_used) = match known {
            KnownKey::Unmissed => (None, false),
            KnownKey::Ticket { ticket, is_used } => (Some(ticket), is_used),
            KnownKey::Forgotten => return self.leave(group, key, when),
        };
        let entry = MappedEntry {
            group,
            key,
            value,
            lifetime_ms: self.lifetime_ms(expires),
            ticket,
            when,
        };
        let mut fault = None;
        let set = self.with(|tier| {
            let set = tier.set(&entry);
            set.inspect_err(|error| fault = Some(error.fault))
        });
        match set {
            Some(MappedStored::Kept) => {
                self.count(2);
                if ticket.is_some() && !is_used {
                    self.missed.borrow_mut().use_ticket(group, key);
                }
                said::YES
            }
            Some(MappedStored::Overtaken) if is_used && when == MappedWhen::Always => {
                self.remove_older(group, key)
            }
            Some(MappedStored::Refused) => said::NO,
            Some(MappedStored::Overtaken) => {
                self.count(3);
                said::OVERTAKEN
            }
            None => match fault {
                Some(TierFault::Busy | TierFault::Io) => said::BUSY,
                Some(TierFault::TooLarge) => said::UNFIT,
                _ => said::FAULT,
            },
        }
    }

    /// The deletion may have been of another key of the bucket. Then what this request had stored
    /// is there still, and older than the value that is not stored now. The ticket stays void: the
    /// next value may be of before a deletion, too.
    fn remove_older(&self, group: &[u8], key: &[u8]) -> c_int {
        self.count(3);
        match self.with(|tier| tier.remove(group, key)) {
            Some(_) => said::OVERTAKEN,
            None => said::FAULT,
        }
    }

    /// A value may be of before a deletion: it is not stored, and none stays that may be older.
    fn leave(&self, group: &[u8], key: &[u8], when: MappedWhen) -> c_int {
        self.count(3);
        if when == MappedWhen::Absent {
            // What is there may be another one's, and stays.
            self.take_ticket(group, key);
            return said::OVERTAKEN;
        }
        match self.delete(group, key) {
            said::FAULT => said::FAULT,
            _ => said::OVERTAKEN,
        }
    }

    pub fn delete(&self, group: &[u8], key: &[u8]) -> c_int {
        match self.with(|tier| tier.remove(group, key)) {
            Some((was_there, ticket)) => {
                self.remember(group, key, ticket);
                c_int::from(was_there)
            }
            None => said::FAULT,
        }
    }

    pub fn raise(&self, group: &[u8], key: &[u8], offset: i64) -> Option<Option<(i64, i64)>> {
        let made = Cell::new(0);
        let stored = self.with(|tier| {
            tier.update(group, key, |value| {
                let (number, bytes) = number::raised(value, offset)?;
                made.set(number);
                Some(bytes)
            })
        })?;
        if stored != MappedStored::Kept {
            return Some(None);
        }
        let left_ms = match self.find(group, key) {
            TableFound::Hit(hit) => hit.left_ms(),
            TableFound::Miss | TableFound::Fault => None,
        };
        Some(Some((made.get(), self.unix_time(left_ms))))
    }

    /// Why it could not be used the last time.
    pub fn fault(&self) -> String {
        self.fault.borrow().clone()
    }

    /// hits, misses, stored, refused, faults, and the size of a new file.
    pub fn numbers(&self) -> [u64; 6] {
        let [hits, misses, stored, refused, faults] = self.counts.each_ref().map(Cell::get);
        [hits, misses, stored, refused, faults, self.bytes]
    }

    /// Forgets what the request missed.
    pub fn forget_tickets(&self) {
        self.missed.borrow_mut().clear();
    }

    /// Ends the request, and lets files go that were replaced.
    pub fn end_request(&self) {
        self.forget_tickets();
        if self.tier.is_some() {
            self.fault.borrow_mut().clear();
        }
        if let Some(tier) = &self.tier {
            // SAFETY: the request has ended, so no hit and no other borrow is left.
            unsafe { (*tier.get()).release() };
        }
    }
}
