//! Cached answers looked at a second time: a fresh read must give the same.
//!
//! For servers whose operator wants proof. A thread of its own reads a sample of the exact hits,
//! and of those at fixed coordinates, from the store, after they were answered. A comparison counts
//! only if nothing has altered the entry until the read was over: then the read, begun after the
//! hit, must show what was cached.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use list_cache::{Answer, Family, Freshness, Pinned, PinnedName};
use model::{Page, TableId};
use query::Query;
use store::{Listing, Snapshot, StoreError, TotalCap};

use crate::EncodePage;
use crate::state::shared::Shared;

/// Hits that wait to be compared. Few, because the longer one waits, the likelier a write
/// overtakes it, and then it says nothing: of 64 that waited under load, 56 did not.
const WAITING_MAX: usize = 2;

/// Hears of every difference.
pub type Report = fn(&Difference);

/// What comparing has come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Hits that a fresh read has confirmed.
    pub same: u64,
    /// Hits that a fresh read has contradicted. Anything but 0 is a fault of ours.
    pub different: u64,
    /// Hits that were altered before the fresh read was over, and so say nothing.
    pub overtaken: u64,
    /// Hits that were not compared, because enough were waiting, or hits are no longer compared.
    pub dropped: u64,
    /// Whether comparing has ended by a fault of ours: then the counts say nothing of later hits.
    pub has_failed: bool,
}

impl Compared {
    /// Whether nothing that was found speaks against the cache.
    pub fn passes(&self) -> bool {
        self.different == 0 && !self.has_failed
    }
}

/// A cached answer that a fresh read contradicts.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The table.
    pub table: TableId,
    /// What differs.
    pub part: Part,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rows: bytes that were cached, and bytes that were read.
    Rows(usize, usize),
    /// The total that was cached, and the one that was read.
    Total(u64, u64),
    /// The row that the page starts from is gone, or has no place in the order any more.
    Cursor,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.as_str();
        write!(
            f,
            "a cached list of table `{table}` differs from a fresh read: "
        )?;
        match self.part {
            Part::Rows(cached, read) => {
                write!(
                    f,
                    "its rows have {cached} bytes, and {read} where they are read"
                )
            }
            Part::Total(cached, read) => write!(f, "its total is {cached}, and {read} is counted"),
            Part::Cursor => write!(f, "the row that it starts from is gone or out of order"),
        }
    }
}

/// A hit to be compared.
pub(crate) struct Hit {
    query: Query,
    family: Family,
    catalogue_epoch: u64,
    rows: Arc<[u8]>,
    total: Option<u64>,
    kept: AuditKept,
}

/// What says whether a hit is still to be answered.
enum AuditKept {
    /// Of a list of now.
    While(Freshness),
    /// Of an answer at fixed coordinates, which has another name once its past is changed.
    As(PinnedName),
}

impl Hit {
    pub(crate) fn of(query: &Query, family: Family, epoch: u64, answer: &Answer) -> Hit {
        Hit {
            query: query.clone(),
            family,
            catalogue_epoch: epoch,
            rows: answer.rows.body.clone(),
            total: answer.total,
            kept: AuditKept::While(answer.freshness.clone()),
        }
    }

    pub(crate) fn of_pinned(
        query: &Query,
        (family, total): (Family, bool),
        epoch: u64,
        (name, pinned): (&PinnedName, &Pinned),
    ) -> Hit {
        Hit {
            query: query.clone(),
            family,
            catalogue_epoch: epoch,
            rows: pinned.body.clone(),
            total: total.then_some(pinned.total),
            kept: AuditKept::As(name.clone()),
        }
    }

    /// Whether nothing that could be read by now keeps it from being answered.
    fn holds(&self, shared: &Shared) -> bool {
        match &self.kept {
            AuditKept::While(freshness) => freshness.holds(),
            AuditKept::As(name) => {
                let total = self.total.is_some();
                let lists = &shared.lists;
                lists.name_pinned(&self.query, self.family, total).as_ref() == Some(name)
            }
        }
    }
}

/// Compares one of so many hits.
pub(crate) struct HitAudit {
    every: u64,
    hits: AtomicU64,
    tally: Arc<AuditTally>,
    /// Gone after the end.
    thread: Mutex<Option<(SyncSender<Hit>, JoinHandle<()>)>>,
}

#[derive(Default)]
struct AuditTally {
    same: AtomicU64,
    different: AtomicU64,
    overtaken: AtomicU64,
    dropped: AtomicU64,
    has_failed: AtomicBool,
}

/// Says so if the thread that compares ends by a panic.
struct Falls<'a>(&'a AuditTally);

impl Drop for Falls<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

/// What the thread needs.
struct Comparing {
    shared: Arc<Shared>,
    total_cap: TotalCap,
    encode: EncodePage,
    tally: Arc<AuditTally>,
    report: Report,
}

impl HitAudit {
    /// Starts its thread.
    pub(crate) fn start(
        shared: Arc<Shared>,
        total_cap: TotalCap,
        every: u64,
        report: Report,
    ) -> std::io::Result<HitAudit> {
        let tally = Arc::<AuditTally>::default();
        let comparing = Comparing {
            encode: shared.encode_page,
            shared,
            total_cap,
            tally: tally.clone(),
            report,
        };
        let (send, hits) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("hit-audit".into())
            .spawn(move || comparing.run(&hits))?;
        Ok(HitAudit {
            every: every.max(1),
            hits: AtomicU64::new(0),
            tally,
            thread: Mutex::new(Some((send, thread))),
        })
    }

    /// Takes one of so many hits.
    pub(crate) fn offer(&self, hit: impl FnOnce() -> Hit) {
        let before = self.hits.fetch_add(1, Ordering::Relaxed);
        if !before.is_multiple_of(self.every) {
            return;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((send, _)) = &*thread
            && send.try_send(hit()).is_err()
        {
            self.tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn compared(&self) -> Compared {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Compared {
            same: count(&self.tally.same),
            different: count(&self.tally.different),
            overtaken: count(&self.tally.overtaken),
            dropped: count(&self.tally.dropped),
            has_failed: self.tally.has_failed.load(Ordering::Relaxed),
        }
    }

    /// Compares what waits, and ends. Blocks.
    pub(crate) fn close(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((send, thread)) = thread {
            drop(send);
            // If it has panicked, its message is out, and `has_failed` says so.
            drop(thread.join());
        }
    }
}

impl Comparing {
    fn run(&self, hits: &Receiver<Hit>) {
        let _falls = Falls(&self.tally);
        for hit in hits {
            match futures_executor::block_on(self.compare(&hit)) {
                None => self.tally.overtaken.fetch_add(1, Ordering::Relaxed),
                Some(parts) if parts.is_empty() => self.tally.same.fetch_add(1, Ordering::Relaxed),
                Some(parts) => {
                    for part in parts {
                        let table = hit.query.table.id.clone();
                        (self.report)(&Difference { table, part });
                    }
                    self.tally.different.fetch_add(1, Ordering::Relaxed)
                }
            };
        }
    }

    /// What differs; `None` where nothing can be said.
    async fn compare(&self, hit: &Hit) -> Option<Vec<Part>> {
        let total = hit.total;
        let listing = Listing {
            query: &hit.query,
            rows: true,
            total: total.map(|_| self.total_cap),
            place: false,
            bytes_max: usize::MAX,
            catalogue_epoch: hit.catalogue_epoch,
            of_guest: false,
            shows_damaged: false,
        };
        let read = self.shared.store.list(listing).await;
        if !hit.holds(&self.shared) {
            return None;
        }
        let Snapshot { answer: read, .. } = match read {
            Ok(read) => read,
            Err(StoreError::CursorNotFound { .. } | StoreError::CursorNull { .. }) => {
                return Some(vec![Part::Cursor]);
            }
            Err(_) => return None,
        };
        let page = Page {
            table: hit.query.table.clone(),
            selection: hit.query.selection.clone(),
            rows: read.rows,
            related: Vec::new(),
        };
        let body = (self.encode)(&page, hit.family);
        let cached = &hit.rows;
        let mut parts = Vec::new();
        if *body != **cached {
            parts.push(Part::Rows(cached.len(), body.len()));
        }
        if let Some(total) = total.filter(|total| *total != read.total) {
            parts.push(Part::Total(total, read.total));
        }
        Some(parts)
    }
}
