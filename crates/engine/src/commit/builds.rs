//! Indexes that wait to be built, what is done for them outside of commits, and when those that
//! failed are tried again.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use model::{Catalogue, CatalogueChange, IndexStatus, Table, TableNumber};
use store::{CatalogueOp, IndexBuildEnd, Op, SchemaChange, StoreError, StoreFuture, WriteBatch};

use crate::commit::write_queue::WriteQueue;

/// A table and the number of an index that it waits for.
pub(crate) type Build = (TableNumber, u32);

/// The table, if this change leaves it with indexes to be built.
pub(crate) fn table_with_builds(change: &CatalogueChange) -> Option<TableNumber> {
    match change {
        CatalogueChange::TablePut(table) if waiting_indexes(table).next().is_some() => {
            Some(table.number)
        }
        _ => None,
    }
}

/// The numbers of the indexes of `table` that wait to be built.
fn waiting_indexes(table: &Table) -> impl Iterator<Item = u32> {
    let waiting = |index: &&model::Index| index.status == IndexStatus::Processing;
    table
        .indexes
        .iter()
        .filter(waiting)
        .map(|index| index.number)
}

/// A build that failed, for want of disk perhaps, is tried again after so long. Trying holds up
/// every writer, so the wait doubles each time it fails again, up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(10);

/// Builds that failed since their table's schema changed.
#[derive(Debug, Default)]
pub(crate) struct FailedBuilds(Vec<Failed>);

#[derive(Debug)]
struct Failed {
    build: Build,
    wait: Duration,
    /// `None` once it may be tried again.
    retry_at: Option<Instant>,
}

impl FailedBuilds {
    pub(crate) fn add(&mut self, build: Build, now: Instant) {
        let known = self.0.iter_mut().find(|failed| failed.build == build);
        match known {
            Some(failed) => {
                failed.wait = (failed.wait * 2).min(LONGEST_RETRY);
                failed.retry_at = Some(now + failed.wait);
            }
            None => self.0.push(Failed {
                build,
                wait: FIRST_RETRY,
                retry_at: Some(now + FIRST_RETRY),
            }),
        }
    }

    /// Whether any may be tried again that could not be before.
    pub(crate) fn are_due(&mut self, now: Instant) -> bool {
        let mut are_due = false;
        for failed in &mut self.0 {
            if failed.retry_at.is_some_and(|at| at <= now) {
                failed.retry_at = None;
                are_due = true;
            }
        }
        are_due
    }

    /// How long until one may be tried again; `None` where none waits.
    pub(crate) fn until_next(&self, now: Instant) -> Option<Duration> {
        let next = self.0.iter().filter_map(|failed| failed.retry_at).min();
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Those of a table are tried at once: its schema has changed.
    pub(crate) fn forget(&mut self, table: TableNumber) {
        self.0.retain(|failed| failed.build.0 != table);
    }

    fn waits(&self, build: Build) -> bool {
        let mut failed = self.0.iter();
        failed.any(|failed| failed.build == build && failed.retry_at.is_some())
    }
}

/// What is done for one index outside of any commit.
#[derive(Default)]
pub(crate) struct OutsideBuild(Option<(Build, OutsideState)>);

enum OutsideState {
    Running(StoreFuture<'static, IndexBuildEnd>),
    Done(IndexBuildEnd),
}

impl OutsideBuild {
    /// Goes on with it, and begins it where it has not begun; that of any other index is called
    /// off. The writer is woken when it can go on. Done, it stays so until [`OutsideBuild::end`].
    pub(crate) fn poll(
        &mut self,
        build: Build,
        queue: &Arc<WriteQueue>,
        begin: impl FnOnce() -> StoreFuture<'static, IndexBuildEnd>,
    ) -> Poll<Result<IndexBuildEnd, StoreError>> {
        self.0.take_if(|(begun, _)| *begun != build);
        let begin = || (build, OutsideState::Running(begin()));
        let (_, state) = self.0.get_or_insert_with(begin);
        let running = match state {
            OutsideState::Running(running) => running,
            OutsideState::Done(end) => return Poll::Ready(Ok(*end)),
        };
        let waker = Waker::from(Arc::new(BuildWaker(Arc::clone(queue))));
        let polled = running.as_mut().poll(&mut Context::from_waker(&waker));
        match &polled {
            Poll::Ready(Ok(end)) => *state = OutsideState::Done(*end),
            Poll::Ready(Err(_)) => self.0 = None,
            Poll::Pending => {}
        }
        polled
    }

    /// Calls it off, or forgets that it is done.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Calls it off if it is of such a table; whether it was.
    pub(crate) fn end_of(&mut self, is_such: impl FnOnce(TableNumber) -> bool) -> bool {
        let ended = self.0.take_if(|((table, _), _)| is_such(*table));
        ended.is_some()
    }

    /// Whether it has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

struct BuildWaker(Arc<WriteQueue>);

impl Wake for BuildWaker {
    fn wake(self: Arc<Self>) {
        self.0.lock().build_goes_on = true;
        self.0.notify();
    }
}

/// An index that waits to be built and may be, with its table.
pub(crate) fn next_build<'c>(
    catalogue: &'c Catalogue,
    failed: &FailedBuilds,
) -> Option<(&'c Arc<Table>, u32)> {
    catalogue.tables().find_map(|table| {
        let may_work = |number: &u32| !failed.waits((table.number, *number));
        let number = waiting_indexes(table).find(may_work)?;
        Some((table, number))
    })
}

/// The batch that makes the index available, or gives it up.
pub(crate) fn build_batch(
    catalogue: &Catalogue,
    (table, number): (&Arc<Table>, u32),
    end: IndexBuildEnd,
) -> WriteBatch {
    let change = match end {
        IndexBuildEnd::Ready => SchemaChange::BuildIndex(number),
        IndexBuildEnd::NotUnique => SchemaChange::FailIndex(number),
    };
    WriteBatch {
        catalogue_epoch: catalogue.epoch,
        ops: vec![Op::Catalogue(CatalogueOp::ChangeSchema {
            table: table.clone(),
            change,
        })],
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: store::SpaceLimit::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_builds_are_tried_again_after_waits_that_double() {
        let build = (TableNumber(1), 1);
        let mut failed = FailedBuilds::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            failed.add(build, now);
            assert!(failed.waits(build) && !failed.are_due(now));
            let wait = failed.until_next(now).unwrap();
            waits.push(wait.as_secs());
            now += wait;
            assert!(failed.are_due(now) && !failed.waits(build));
            assert!(!failed.are_due(now), "once");
            assert_eq!(failed.until_next(now), None);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        failed.forget(TableNumber(1));
        failed.add(build, now);
        assert_eq!(failed.until_next(now), Some(FIRST_RETRY));
    }
}
