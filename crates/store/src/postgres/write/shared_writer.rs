//! The one writer, handed from call to call, and taken again where its session has ended.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Mark, TableNumber};
use tokio::runtime::Handle;

use super::group_tally::{GroupEffort, GroupTally};
use super::session::LongestWaits;
use super::vacuums::end_vacuums;
use super::writer::{DatabaseWriter, StoreSeen, UnknownEnd};
use crate::batch::Outcome;
use crate::postgres::address::DatabaseUrl;
use crate::postgres::opening::DatabaseStore;
use crate::postgres::primary::{Succession, need_no_less};
use crate::postgres::read::{ConnectionCounts, DatabaseStanding};
use crate::vault::StoreKeys;
use crate::{DatabaseCounts, EncodeRow, InDoubt, Standing, StoreError, StoreFuture};

/// After a try to take the store again, the next one comes so much later: what waits to be written
/// goes on within a second of the database's first answer.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// So long it may take to end vacuums, which takes seconds: a server that hangs ends none.
const MAKE_WAY_MAX: Duration = Duration::from_mins(1);

/// Where the store is, for a writer that takes it again.
pub(in crate::postgres) struct WriterPlace {
    pub(in crate::postgres) url: DatabaseUrl,
    pub(in crate::postgres) password_file: Option<PathBuf>,
    pub(in crate::postgres) encode_row: EncodeRow,
    pub(in crate::postgres) keys: StoreKeys,
    /// So long answers are waited for.
    pub(in crate::postgres) waits: LongestWaits,
    /// What runs beside the writer.
    pub(in crate::postgres) aside: Handle,
    /// What reads have seen of the store.
    pub(in crate::postgres) read: Arc<DatabaseStanding>,
}

/// The writer, and where it comes from.
pub(in crate::postgres) struct SharedWriter {
    place: WriterPlace,
    slot: Mutex<WriterSlot>,
    /// [`Standing::others`].
    others: AtomicU64,
    /// Whether vacuums are being ended.
    makes_way: Arc<AtomicBool>,
    /// What groups of batches took.
    groups: GroupTally,
}

/// Where the writer is.
enum WriterSlot {
    /// Here, with no transaction open.
    Free(Box<DatabaseWriter>),
    /// With a call or a [`crate::Pending`].
    Taken,
    /// With an [`InDoubt`]: why it is not known yet how a commit has ended.
    Doubted(StoreError),
    /// Its session has ended, and the store is to be taken again.
    Lost(LostWriter),
    /// How a commit ended is not known, and no caller asks any more.
    Stopped,
    /// Gone for good.
    Closed,
}

struct LostWriter {
    seen: StoreSeen,
    /// The last try to take the store again, and what it came to.
    tried: Option<(Instant, StoreError)>,
}

impl SharedWriter {
    pub(in crate::postgres) fn new(place: WriterPlace, writer: DatabaseWriter) -> SharedWriter {
        writer.session().limit_waits(place.waits);
        SharedWriter {
            place,
            slot: Mutex::new(WriterSlot::Free(Box::new(writer))),
            others: AtomicU64::new(0),
            makes_way: Arc::default(),
            groups: GroupTally::default(),
        }
    }

    pub(in crate::postgres) fn place(&self) -> &WriterPlace {
        &self.place
    }

    fn slot(&self) -> MutexGuard<'_, WriterSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the store was not taken again the last time, or how a commit has ended is not known;
    /// none while a writer has it.
    pub(in crate::postgres) fn outage(&self) -> Option<StoreError> {
        match &*self.slot() {
            WriterSlot::Lost(lost) => lost.tried.as_ref().map(|(_, error)| error.clone()),
            WriterSlot::Doubted(cause) => Some(cause.clone()),
            WriterSlot::Free(writer) => writer.given_up(),
            WriterSlot::Taken | WriterSlot::Stopped | WriterSlot::Closed => None,
        }
    }

    /// What there is at work, next to these connections for reads.
    pub(in crate::postgres) fn counts(&self, reads: &ConnectionCounts) -> DatabaseCounts {
        let (open, busy) = match &*self.slot() {
            WriterSlot::Free(writer) if !writer.has_ended() => (1, 0),
            WriterSlot::Taken => (1, 1),
            WriterSlot::Free(_)
            | WriterSlot::Doubted(_)
            | WriterSlot::Lost(_)
            | WriterSlot::Stopped
            | WriterSlot::Closed => (0, 0),
        };
        let [round_trips, held_rows, held_bytes] = self.groups.read();
        DatabaseCounts {
            connections: reads.open + open,
            connections_busy: reads.busy + busy,
            connections_max: reads.max + 1,
            round_trips,
            held_rows,
            held_bytes,
        }
    }

    /// Takes in a group of batches that was committed.
    pub(super) fn count_group(&self, writer: &DatabaseWriter, effort: GroupEffort) {
        self.groups.take_in(effort, writer.round_trips());
    }

    /// The writer, which is taken again where its session has ended.
    ///
    /// # Errors
    /// When the store is closed, writes no more, or cannot be taken again yet.
    pub(super) fn take(&self) -> Result<Box<DatabaseWriter>, StoreError> {
        let slot = std::mem::replace(&mut *self.slot(), WriterSlot::Taken);
        let lost = match slot {
            WriterSlot::Free(writer) if !writer.has_ended() => return Ok(writer),
            WriterSlot::Free(writer) => LostWriter {
                seen: writer.last_seen(),
                tried: None,
            },
            WriterSlot::Lost(lost) => lost,
            WriterSlot::Taken | WriterSlot::Doubted(_) => {
                panic!("one writer at a time, and no call while a Pending exists")
            }
            WriterSlot::Stopped => {
                *self.slot() = WriterSlot::Stopped;
                return Err(StoreError::Stopped);
            }
            WriterSlot::Closed => {
                *self.slot() = WriterSlot::Closed;
                return Err(StoreError::Io {
                    detail: "the store is closed".to_owned(),
                });
            }
        };
        let taken = match &lost.tried {
            Some((at, error)) if at.elapsed() < RETRY_AFTER => Err((*at, error.clone())),
            _ => self
                .take_again(&lost.seen)
                .map_err(|error| (Instant::now(), error)),
        };
        match taken {
            Ok(writer) => {
                if *writer.group() != lost.seen.group {
                    self.others.fetch_add(1, Ordering::Relaxed);
                }
                Ok(writer)
            }
            Err((at, error)) => {
                let tried = Some((at, error.clone()));
                self.leave(WriterSlot::Lost(LostWriter { tried, ..lost }));
                Err(error)
            }
        }
    }

    /// Takes the store of which this was seen last.
    ///
    /// # Errors
    /// When another process has it, it cannot be reached, or it holds less.
    fn take_again(&self, seen: &StoreSeen) -> Result<Box<DatabaseWriter>, StoreError> {
        let url = &self.place.url;
        let taken = self.take_from(url, seen);
        let Err(StoreError::DatabaseUnfit(_)) = &taken else {
            return taken;
        };
        // A primary may have come back in front of the one that has taken its place.
        let alone = url.on_each_host();
        let mut others = alone.iter();
        let other = others.find_map(|alone| self.take_from(alone, seen).ok());
        other.map_or(taken, Ok)
    }

    fn take_from(
        &self,
        url: &DatabaseUrl,
        seen: &StoreSeen,
    ) -> Result<Box<DatabaseWriter>, StoreError> {
        let WriterPlace {
            password_file,
            encode_row,
            keys,
            waits,
            ..
        } = &self.place;
        let store = DatabaseStore::open_again(url, password_file.as_deref())?;
        let writer = store.into_writer(*encode_row, keys.clone())?;
        writer.session().limit_waits(*waits);
        let StoreSeen { primary, group } = seen;
        let succession = writer.last_seen().primary.follows(primary, primary.mark);
        let succession = succession.map_err(StoreError::DatabaseUnfit)?;
        need_no_less(writer.group().number, group.number).map_err(StoreError::DatabaseUnfit)?;
        // No read may go to the one before any more, which may come back.
        self.place.read.stand_at(writer.primary())?;
        if succession == Succession::Promoted {
            self.others.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Box::new(writer))
    }

    /// Puts something in the place of the writer that was taken.
    fn leave(&self, slot: WriterSlot) {
        let mut place = self.slot();
        if matches!(*place, WriterSlot::Taken | WriterSlot::Doubted(_)) {
            *place = slot;
        }
    }

    pub(super) fn give_back(&self, writer: Box<DatabaseWriter>) {
        self.leave(WriterSlot::Free(writer));
    }

    /// Lends the writer to one call.
    pub(super) fn with_writer<T>(
        &self,
        call: impl FnOnce(&mut DatabaseWriter) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut lent = LentWriter::new(self)?;
        call(lent.writer())
    }

    /// Lets what the server vacuums of these tables by itself give way to changes of them, which
    /// were put aside.
    pub(super) fn make_way(&self, tables: BTreeSet<TableNumber>) {
        if tables.is_empty() || self.makes_way.swap(true, Ordering::Relaxed) {
            return;
        }
        let (url, password_file) = (self.place.url.clone(), self.place.password_file.clone());
        let makes_way = Arc::clone(&self.makes_way);
        self.place.aside.spawn(async move {
            // Where that fails, the next try of a change finds the tables used, too.
            let ended = end_vacuums(&url, password_file.as_deref(), &tables);
            let _ = tokio::time::timeout(MAKE_WAY_MAX, ended).await;
            makes_way.store(false, Ordering::Relaxed);
        });
    }

    /// How often the store was taken again and another process had written to it, or it was on
    /// another primary.
    pub(super) fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// What stands.
    pub(super) fn standing(&self) -> Result<Standing, StoreError> {
        self.with_writer(|writer| {
            let committed = writer.committed();
            Ok(Standing {
                mark: committed.mark,
                catalogue_epoch: committed.catalogue.epoch,
                others: self.others(),
            })
        })
    }

    /// Stores the highest mark that was ever read, and gives the store up.
    pub(in crate::postgres) fn close(&self, horizon: Mark) -> Result<(), StoreError> {
        let stored = self.with_writer(|writer| writer.store_horizon(horizon));
        let slot = std::mem::replace(&mut *self.slot(), WriterSlot::Closed);
        if let WriterSlot::Free(writer) = slot
            && !writer.has_ended()
        {
            writer.give_up_store();
        }
        match stored {
            // What was reserved stands higher.
            Err(StoreError::Stopped) => Ok(()),
            stored => stored,
        }
    }
}

/// The writer while a call has it. Where that panics, what it has begun is taken back.
pub(super) struct LentWriter<'a> {
    pub(super) writer: Option<Box<DatabaseWriter>>,
    pub(super) shared: &'a SharedWriter,
}

impl<'a> LentWriter<'a> {
    pub(super) fn new(shared: &'a SharedWriter) -> Result<LentWriter<'a>, StoreError> {
        let writer = Some(shared.take()?);
        Ok(LentWriter { writer, shared })
    }

    pub(super) fn writer(&mut self) -> &mut DatabaseWriter {
        self.writer.as_mut().expect("taken by `keep` alone")
    }

    /// The writer, which is not given back.
    pub(super) fn keep(mut self) -> Box<DatabaseWriter> {
        self.writer.take().expect("taken by this alone")
    }
}

impl Drop for LentWriter<'_> {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            if std::thread::panicking() {
                writer.give_up_group();
            }
            self.shared.give_back(writer);
        }
    }
}

/// A commit of which the database has not said how it ended. It says so once the store is taken
/// again.
pub(super) struct AskedCommit {
    shared: Arc<SharedWriter>,
    seen: StoreSeen,
    end: UnknownEnd,
    answer: Option<bool>,
}

impl AskedCommit {
    /// Of a writer that was taken, whose session ends with this.
    pub(super) fn new(
        shared: Arc<SharedWriter>,
        writer: Box<DatabaseWriter>,
        end: UnknownEnd,
    ) -> AskedCommit {
        shared.leave(WriterSlot::Doubted(end.cause.clone()));
        AskedCommit {
            shared,
            seen: writer.last_seen(),
            end,
            answer: None,
        }
    }

    fn look_for_it(&self) -> Result<bool, StoreError> {
        let mut writer = self.shared.take_again(&self.seen)?;
        let is_done = *writer.group() == self.end.group;
        if !is_done && *writer.group() != self.seen.group {
            let detail = "Another process has written to the store since.".to_owned();
            return Err(StoreError::OutcomeUnknown { detail });
        }
        // A commit that waits for a standby counts when one behind it has been heard of.
        let horizon = writer.committed().horizon;
        writer.store_horizon(horizon)?;
        self.shared.give_back(writer);
        Ok(is_done)
    }
}

impl InDoubt for AskedCommit {
    fn outcomes(&self) -> &[Outcome] {
        &self.end.outcomes
    }

    fn cause(&self) -> &StoreError {
        &self.end.cause
    }

    fn ask(&mut self) -> StoreFuture<'_, bool> {
        let answer = match self.answer {
            Some(answer) => Ok(answer),
            None => self.look_for_it(),
        };
        match &answer {
            Ok(is_done) => self.answer = Some(*is_done),
            Err(error) => self.shared.leave(WriterSlot::Doubted(error.clone())),
        }
        Box::pin(std::future::ready(answer))
    }
}

impl Drop for AskedCommit {
    fn drop(&mut self) {
        if self.answer.is_none() {
            self.shared.leave(WriterSlot::Stopped);
        }
    }
}
