//! Turns to write to a store in a schema. A call does its work on the thread that polls it, which
//! waits for the database meanwhile: that of the one writer.

use std::future::ready;
use std::sync::Arc;

use model::{Mark, Timestamp};

use super::preview::DatabasePreview;
use super::shared_writer::{AskedCommit, LentWriter, SharedWriter};
use super::writer::{AppliedGroup, DatabaseWriter, GroupEnd};
use crate::batch::{Changes, Outcome, WriteBatch};
use crate::{
    Boundaries, Committed, Pending, Preview, Standing, StoreError, StoreFuture, Trial, WriteTurn,
};

/// A turn. The store has one owner, so it costs nothing.
pub(in crate::postgres) struct DatabaseTurn {
    shared: Arc<SharedWriter>,
    standing: Standing,
}

impl DatabaseTurn {
    /// # Errors
    /// When the store is closed, writes no more, or cannot be taken again yet.
    pub(in crate::postgres) fn begin(shared: &Arc<SharedWriter>) -> Result<Self, StoreError> {
        Ok(DatabaseTurn {
            standing: shared.standing()?,
            shared: Arc::clone(shared),
        })
    }

    /// The writer, unless another process has written since the turn began, or another primary has
    /// followed: what is to be written was checked against what stood then.
    fn lend(&self) -> Result<LentWriter<'_>, StoreError> {
        let lent = LentWriter::new(&self.shared)?;
        if self.shared.others() == self.standing.others {
            return Ok(lent);
        }
        let detail = "another process has written to the store meanwhile, or a standby has taken \
                      the place of its primary"
            .to_owned();
        Err(StoreError::Unreachable { detail })
    }

    /// Unlike a group, it is not begun again on another session: it has little time.
    fn begin_preview(
        &self,
        tried: (&[Trial], Mark),
        limit_ms: u64,
    ) -> Result<DatabasePreview, StoreError> {
        let (lent, shared) = (self.lend()?, Arc::clone(&self.shared));
        DatabasePreview::begin(lent, shared, tried, limit_ms)
    }

    fn run(
        &self,
        run: impl Fn(&mut DatabaseWriter) -> Result<AppliedGroup, StoreError>,
    ) -> Result<Box<dyn Pending>, StoreError> {
        let mut lent = self.lend()?;
        let mut ran = run(lent.writer());
        if ran.is_err() && lent.writer().has_ended() {
            // A session that ended while it was idle is found out by its next call. Nothing of a
            // group is committed before it has run.
            drop(lent);
            lent = self.lend()?;
            ran = run(lent.writer());
        }
        let group = ran?;
        self.shared.make_way(lent.writer().take_busy_tables());
        Ok(Box::new(AppliedPending {
            open: Some((lent.keep(), group)),
            shared: Arc::clone(&self.shared),
        }))
    }
}

impl WriteTurn for DatabaseTurn {
    fn standing(&self) -> Standing {
        self.standing
    }

    fn apply<'a>(
        self: Box<Self>,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        Box::pin(ready(self.run(|writer| writer.apply(batches, first))))
    }

    fn activate_due<'a>(self: Box<Self>, instant: Timestamp) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        Box::pin(ready(self.run(|writer| writer.activate_due(instant))))
    }

    fn preview<'a>(
        self: Box<Self>,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>>
    where
        Self: 'a,
    {
        let begun = self.begin_preview((trials, first), limit_ms);
        Box::pin(ready(
            begun.map(|preview| -> Box<dyn Preview> { Box::new(preview) }),
        ))
    }

    fn reserve<'a>(self: Box<Self>, horizon: Mark) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        let stored = self.shared.with_writer(|writer| {
            let horizon = horizon.max(writer.committed().horizon);
            writer.store_horizon(horizon)
        });
        Box::pin(ready(stored))
    }

    fn rewind<'a>(self: Box<Self>) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        let rewound = self.shared.with_writer(DatabaseWriter::rewind);
        if rewound.is_ok() {
            self.shared.place().read.rewind();
        }
        Box::pin(ready(rewound))
    }

    fn run_upkeep<'a>(self: Box<Self>) -> StoreFuture<'a, bool>
    where
        Self: 'a,
    {
        Box::pin(ready(self.shared.with_writer(DatabaseWriter::run_upkeep)))
    }
}

/// A group that ran, and the writer that ran it.
struct AppliedPending {
    /// `None` once it has ended.
    open: Option<(Box<DatabaseWriter>, AppliedGroup)>,
    shared: Arc<SharedWriter>,
}

impl AppliedPending {
    fn group(&self) -> &AppliedGroup {
        let (_, group) = self.open.as_ref().expect("it has not ended");
        group
    }
}

impl Pending for AppliedPending {
    fn outcomes(&self) -> &[Outcome] {
        &self.group().outcomes
    }

    fn due(&self) -> &[Changes] {
        &self.group().due
    }

    fn boundaries(&self) -> Boundaries {
        self.group().boundaries()
    }

    fn commit(mut self: Box<Self>) -> StoreFuture<'static, Committed> {
        let (writer, group) = self.open.take().expect("it has not ended");
        let shared = Arc::clone(&self.shared);
        let mut lent = LentWriter {
            writer: Some(writer),
            shared: &shared,
        };
        let effort = group.effort();
        let committed = match lent.writer().commit(group) {
            GroupEnd::Done(outcomes) => {
                // Upkeep, and what becomes due by itself, is no group of batches.
                if !outcomes.is_empty() {
                    shared.count_group(lent.writer(), effort);
                }
                Ok(Committed::Done(outcomes))
            }
            GroupEnd::Nothing(error) => Err(error),
            GroupEnd::Unknown(end) => {
                let doubt = AskedCommit::new(Arc::clone(&shared), lent.keep(), end);
                Ok(Committed::Unknown(Box::new(doubt)))
            }
        };
        Box::pin(ready(committed))
    }
}

impl Drop for AppliedPending {
    fn drop(&mut self) {
        if let Some((mut writer, _)) = self.open.take() {
            // A transaction that stays open would end the session after ten seconds.
            writer.give_up_group();
            self.shared.give_back(writer);
        }
    }
}
