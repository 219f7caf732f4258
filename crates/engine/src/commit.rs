//! The one door for writes: a thread that takes what waits and commits it as one group.
//!
//! Always in this order: apply, **withhold** what the group may alter, **commit** with a sync,
//! **publish** the marks, then answer. So nobody who has seen a commit by any route can join an
//! older read afterwards, and N waiting clients share one sync.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_executor::block_on;
use list_cache::Batch;
use model::{Catalogue, CatalogueChange, DatabaseId, Mark, ProjectId, TableNumber, Timestamp};
use store::{Applied, Changes, Op, Outcome, Pending, StoreError, WriteBatch};

use crate::builds::{Build, next_build, table_with_builds};
use crate::error::EngineError;
use crate::lines::Lines;
use crate::refused::refused;
use crate::shared::Shared;
use crate::tally::{Writes, Written};
use crate::told;
use crate::transactions::Trial;

/// A group may always wait so long for company. Draining only what was there gave eight clients
/// 0.52 of a single client's rate each; with this wait 0.96.
const COMPANY_WAIT: Duration = Duration::from_micros(300);
/// It may wait for a quarter of what the last group took, up to this. With syncs of 3 ms clients
/// over HTTP came back too late for the wait above, and groups fell apart: 32 clients made 2,660
/// rows a second, with the longer wait 3,280; eight 1,117 and 1,308.
const COMPANY_WAIT_MAX: Duration = Duration::from_millis(2);
/// The writer looks at the clock so often while something is scheduled, since the clock may be
/// set; and tries so often again what is due and cannot be brought in.
const CLOCK_WATCH: Duration = Duration::from_secs(1);
/// Most requests of one group.
const GROUP_REQUESTS_MAX: usize = 1_024;
/// Most rows of one group, as of one commit.
const GROUP_ROWS_MAX: usize = store::batch::BATCH_ROWS_MAX;
/// A request with more rows commits alone.
const ALONE_ROWS: usize = 1_000;
/// After so long no further trial is begun in a group. Whoever writes waits for one that runs
/// longer, and no more.
const TRIALS_TAKE_MAX: Duration = Duration::from_millis(20);
/// Under steady load a piece of upkeep is done after so many groups.
const UPKEEP_EVERY_GROUPS: u32 = 64;

/// What a request is answered with.
type Answer = Result<Applied, EngineError>;

/// The answer to a batch that was submitted.
pub(crate) type Submitted = oneshot::Receiver<Result<Outcome, EngineError>>;

enum Work {
    Write {
        batch: WriteBatch,
        reply: oneshot::Sender<Result<Outcome, EngineError>>,
    },
    Reserve {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Forgets every mark; see [`crate::Engine::rewind`].
    Rewind {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Before it is answered, all that is due has been brought in.
    BringDue {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    Try(Trial),
}

impl Work {
    /// Whether rows that are checked now are refused after it.
    fn moves_catalogue(&self) -> bool {
        match self {
            Work::Write { batch, .. } => batch.ops.iter().any(|op| matches!(op, Op::Catalogue(_))),
            Work::Reserve { .. } | Work::BringDue { .. } | Work::Rewind { .. } | Work::Try(_) => {
                false
            }
        }
    }

    fn rows(&self) -> usize {
        match self {
            Work::Write { batch, .. } => batch.rows_max(),
            Work::Reserve { .. } | Work::BringDue { .. } | Work::Rewind { .. } | Work::Try(_) => 0,
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    closing: bool,
    /// Somebody has met something that is due.
    is_woken: bool,
}

/// The queue of writes and the thread that empties it.
pub(crate) struct Writer {
    line: Arc<Line>,
    waiting_max: usize,
    written: Arc<Written>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Line {
    queue: Mutex<Queue>,
    filled: Condvar,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts the thread. At most `waiting_max` requests may wait.
    pub(crate) fn start(shared: Arc<Shared>, waiting_max: usize) -> std::io::Result<Writer> {
        let line = Arc::<Line>::default();
        let written = Arc::<Written>::default();
        let mut group = GroupCommit {
            shared,
            written: written.clone(),
            line: line.clone(),
            company: 0,
            patience: COMPANY_WAIT,
            builds_are_due: true,
            last_due_failure: None,
            failed_builds: Vec::new(),
            lines: Lines::default(),
        };
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || group.run())?;
        Ok(Writer {
            line,
            waiting_max,
            written,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Commits `batch`; `Ok` means it is durable and visible.
    pub(crate) async fn commit(&self, batch: WriteBatch) -> Result<Outcome, EngineError> {
        let answer = self.submit(batch)?;
        answer.await.map_err(|_| EngineError::Closing)?
    }

    /// As [`Writer::commit`], which answers later: so several can share a group.
    pub(crate) fn submit(&self, batch: WriteBatch) -> Result<Submitted, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Work::Write { batch, reply })?;
        Ok(answer)
    }

    /// Makes durable that marks ahead of the clock may be read.
    pub(crate) async fn reserve(&self) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Work::Reserve { reply })?;
        answer.await.map_err(|_| EngineError::Closing)?
    }

    /// The same, for reads to come: nobody waits for it. Where it comes to nothing, the first read
    /// that needs it does.
    pub(crate) fn reserve_soon(&self) {
        let (reply, _) = oneshot::channel();
        let _ = self.enqueue(Work::Reserve { reply });
    }

    /// Has what is due brought in.
    pub(crate) async fn bring_due(&self) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Work::BringDue { reply })?;
        answer.await.map_err(|_| EngineError::Closing)?
    }

    /// Forgets every mark.
    pub(crate) async fn rewind(&self) -> Result<(), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Work::Rewind { reply })?;
        answer.await.map_err(|_| EngineError::Closing)?
    }

    /// Makes the writer look at the clock: a boundary has passed, and perhaps not by the clock
    /// that it sleeps by.
    pub(crate) fn wake(&self) {
        self.line.lock().is_woken = true;
        self.line.filled.notify_one();
    }

    /// Runs `trial` on the writer's thread, in its turn.
    pub(crate) fn run_trial(&self, trial: Trial) -> Result<(), EngineError> {
        self.enqueue(Work::Try(trial))
    }

    fn enqueue(&self, work: Work) -> Result<(), EngineError> {
        let mut queue = self.line.lock();
        if queue.closing {
            return Err(EngineError::Closing);
        }
        if queue.waiting.len() >= self.waiting_max {
            self.written.refused.fetch_add(1, Ordering::Relaxed);
            return Err(EngineError::Overloaded);
        }
        queue.waiting.push_back(work);
        drop(queue);
        self.line.filled.notify_one();
        Ok(())
    }

    /// What was written, and what waits.
    pub(crate) fn writes(&self) -> Writes {
        let written = &*self.written;
        Writes {
            commits: written.commits.get(),
            failed: written.failed.get(),
            rows: written.rows.get(),
            refused: written.refused.load(Ordering::Relaxed),
            waiting: self.line.lock().waiting.len(),
            waiting_max: self.waiting_max,
            pending: written.pending.get(),
            requests: written.requests.read(),
            apply_ns: written.apply_ns.read(),
            sync_ns: written.sync_ns.read(),
        }
    }

    /// Takes no more requests, finishes those that wait, and ends the thread.
    pub(crate) fn close(&self) {
        self.line.lock().closing = true;
        self.line.filled.notify_one();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic in the writer was reported when it happened; there is nothing to add.
            let _ = thread.join();
        }
    }
}

struct GroupCommit {
    shared: Arc<Shared>,
    written: Arc<Written>,
    line: Arc<Line>,
    /// What the next group should wait for: the requests the last one answered plus those that
    /// waited when it ended.
    company: usize,
    /// How long it may wait for them.
    patience: Duration,
    /// Whether indexes may be waiting to be built. Which ones, the catalogue says: so none is
    /// forgotten over a restart.
    builds_are_due: bool,
    /// When what is due could not be brought in.
    last_due_failure: Option<Instant>,
    /// Indexes that could not be built, for want of disk perhaps. Trying holds up every writer,
    /// so it is done again when their table's schema has changed, or the engine is opened anew.
    failed_builds: Vec<Build>,
    /// Which tables let go of their past, and when.
    lines: Lines,
}

impl GroupCommit {
    fn run(&mut self) {
        let mut upkeep_is_due = true;
        let mut groups_since_upkeep = 0;
        loop {
            // Each time, so that an endless line of writes cannot hold up what is due.
            self.bring_due();
            upkeep_is_due |= self.raise_lines();
            let group = self.take(upkeep_is_due);
            match group {
                Taken::Group(group) => {
                    let answered = group.len();
                    let began = Instant::now();
                    upkeep_is_due |= self.work(group);
                    self.patience = (began.elapsed() / 4).clamp(COMPANY_WAIT, COMPANY_WAIT_MAX);
                    self.company = answered + self.line.lock().waiting.len();
                    groups_since_upkeep += 1;
                }
                Taken::Due => {}
                Taken::Nothing => groups_since_upkeep = UPKEEP_EVERY_GROUPS,
                Taken::End => return,
            }
            if upkeep_is_due && groups_since_upkeep >= UPKEEP_EVERY_GROUPS {
                upkeep_is_due = self.tend();
                groups_since_upkeep = 0;
            }
        }
    }

    /// The next group, after a wait for company. `Nothing` if there is none and the caller has
    /// better to do than to wait.
    fn take(&self, has_other_work: bool) -> Taken {
        let mut queue = self.line.lock();
        while queue.waiting.is_empty() {
            if queue.closing {
                return Taken::End;
            }
            if has_other_work {
                return Taken::Nothing;
            }
            if std::mem::take(&mut queue.is_woken) && self.shared.is_due() {
                return Taken::Due;
            }
            let Some(until) = self.until_due() else {
                queue = self
                    .line
                    .filled
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if until.is_zero() {
                return Taken::Due;
            }
            (queue, _) = self
                .line
                .filled
                .wait_timeout(queue, until)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let expected = self.company.min(GROUP_REQUESTS_MAX);
        let (mut queue, _) = self
            .line
            .filled
            .wait_timeout_while(queue, self.patience, |queue| {
                queue.waiting.len() < expected && !queue.closing
            })
            .unwrap_or_else(PoisonError::into_inner);
        let count = group_len(queue.waiting.iter().map(Work::rows));
        Taken::Group(queue.waiting.drain(..count).collect())
    }

    /// Answers a group. Says whether it left work for upkeep.
    fn work(&mut self, mut group: Vec<Work>) -> bool {
        // Rows go first, lest writers of rows begin anew over each change of a schema.
        group.sort_by_key(Work::moves_catalogue);
        let mut batches = Vec::with_capacity(group.len());
        let mut replies = Vec::with_capacity(group.len());
        let (mut reservations, mut trials) = (Vec::new(), Vec::new());
        let mut waiting_for_due = Vec::new();
        for work in group {
            match work {
                Work::Write { batch, reply } => {
                    batches.push(batch);
                    replies.push(reply);
                }
                Work::Reserve { reply } => reservations.push(reply),
                Work::Try(trial) => trials.push(trial),
                Work::BringDue { reply } => waiting_for_due.push(reply),
                Work::Rewind { reply } => {
                    let rewound = block_on(self.shared.store.rewind());
                    if rewound.is_ok() {
                        self.shared.marks.rewind();
                        self.shared.lists.forget_pinned();
                    }
                    let _ = reply.send(rewound.map_err(EngineError::from));
                }
            }
        }
        if !waiting_for_due.is_empty() {
            let brought = self.bring_all_due();
            for reply in waiting_for_due {
                let _ = reply.send(brought.clone());
            }
        }
        if !reservations.is_empty() {
            let reserved = self.reserve();
            for reply in reservations {
                // A caller that went away needs no answer.
                let _ = reply.send(reserved.clone());
            }
        }
        let mut leaves_upkeep = false;
        if !batches.is_empty() {
            let outcomes = self.commit(&batches);
            leaves_upkeep = self.leaves_upkeep(&outcomes);
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                let _ = reply.send(outcome);
            }
        }
        self.run_trials(trials);
        leaves_upkeep
    }

    /// Runs trials, after the answers, so that whoever commits waits for none of the same group.
    /// When they have taken their time the others wait for the next group, and what is to be
    /// written by then goes before them.
    fn run_trials(&self, trials: Vec<Trial>) {
        let began = Instant::now();
        let mut left = trials.into_iter();
        for trial in left.by_ref() {
            trial.run(&self.shared);
            if began.elapsed() >= TRIALS_TAKE_MAX {
                break;
            }
        }
        let mut queue = self.line.lock();
        for trial in left.rev() {
            queue.waiting.push_front(Work::Try(trial));
        }
    }

    /// Whether a group left something for upkeep.
    fn leaves_upkeep(&mut self, outcomes: &[Result<Outcome, EngineError>]) -> bool {
        let applied = || outcomes.iter().flatten().flatten();
        let changes = || applied().flat_map(|applied| &applied.catalogue);
        for table in changes().filter_map(table_with_builds) {
            self.builds_are_due = true;
            self.failed_builds.retain(|(failed, _)| *failed != table);
        }
        changes().any(leaves_rows_behind)
    }

    /// One piece of upkeep: an index that waits, or a slice of rows. Says whether more is
    /// waiting. A slice that fails is met again by the next write, which reports it.
    fn tend(&mut self) -> bool {
        if self.builds_are_due {
            let next = next_build(&self.shared.catalogue(), &self.failed_builds);
            if let Some((build, batch)) = next {
                if !matches!(self.commit(&[batch]).pop(), Some(Ok(Ok(_)))) {
                    self.failed_builds.push(build);
                }
                return true;
            }
            self.builds_are_due = false;
        }
        block_on(self.shared.store.tend()).unwrap_or(false)
    }

    /// Raises the lines of tables that let go of their past, where that is due. Says whether there
    /// is something to let go of.
    fn raise_lines(&mut self) -> bool {
        let catalogue = self.shared.catalogue();
        if !self.lines.take_in(&catalogue) {
            return false;
        }
        let now = self.shared.now();
        let Some(batch) = self.lines.due(&catalogue, now) else {
            return false;
        };
        let raised = matches!(self.commit(&[batch]).pop(), Some(Ok(Ok(_))));
        if !raised {
            self.lines.put_off(now);
        }
        raised
    }

    /// How long until something becomes due; `None` if nothing is scheduled.
    fn until_due(&self) -> Option<Duration> {
        let first = self.shared.lists.first_boundary().min(self.lines.next);
        if first == Timestamp::END {
            return None;
        }
        let wait_us = first.0.saturating_sub(self.shared.instant().0);
        let wait = Duration::from_micros(u64::try_from(wait_us).unwrap_or(0));
        Some(if self.has_just_failed() {
            CLOCK_WATCH
        } else {
            wait.min(CLOCK_WATCH)
        })
    }

    /// Brings in a part of what is due, if anything is. What cannot be brought in is tried again
    /// with the next group, or a while later; reads go without it.
    fn bring_due(&mut self) {
        if self.shared.is_due() && !self.has_just_failed() {
            self.last_due_failure = match self.bring_some_due() {
                Ok(()) => None,
                Err(_) => Some(Instant::now()),
            };
        }
    }

    fn has_just_failed(&self) -> bool {
        let is_recent = |at: &Instant| at.elapsed() < CLOCK_WATCH;
        self.last_due_failure.as_ref().is_some_and(is_recent)
    }

    fn bring_all_due(&mut self) -> Result<(), EngineError> {
        while self.shared.is_due() {
            self.bring_some_due()?;
        }
        Ok(())
    }

    /// In the order of a commit: apply, withhold, commit, publish. No mark is given, and none to
    /// come is below the instant.
    fn bring_some_due(&mut self) -> Result<(), EngineError> {
        let shared = &self.shared;
        let instant = shared.marks.mature(shared.now()).timestamp();
        let pending = block_on(shared.store.bring_due(instant))?;
        let withheld = shared.lists.withhold(due(&*pending));
        let committed = block_on(pending.commit());
        shared.lists.publish(withheld, committed.is_ok());
        committed?;
        Ok(())
    }

    fn reserve(&self) -> Result<(), EngineError> {
        let horizon = self.shared.marks.reservation(self.shared.now());
        block_on(self.shared.store.reserve(horizon))?;
        self.shared.marks.reserved(horizon);
        Ok(())
    }

    /// Commits the batches as one group. A group that fails as a whole is run again one by one,
    /// so that the one at fault takes nothing from its neighbours.
    fn commit(&mut self, batches: &[WriteBatch]) -> Vec<Result<Outcome, EngineError>> {
        if let Err(error) = self.shared.check_clock() {
            return batches.iter().map(|_| Err(error.clone())).collect();
        }
        match self.commit_group(batches) {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) if batches.len() == 1 => vec![Err(error.into())],
            Err(_) => batches
                .iter()
                .map(
                    |batch| match self.commit_group(std::slice::from_ref(batch)) {
                        Ok(mut outcomes) => Ok(outcomes.pop().expect("one outcome per batch")),
                        Err(error) => Err(error.into()),
                    },
                )
                .collect(),
        }
    }

    fn commit_group(&mut self, batches: &[WriteBatch]) -> Result<Vec<Outcome>, StoreError> {
        self.written.pending.set(batches.len() as u64);
        let committed = self.commit_counted(batches);
        self.written.pending.set(0);
        self.written.failed.add(u64::from(committed.is_err()));
        committed
    }

    fn commit_counted(&mut self, batches: &[WriteBatch]) -> Result<Vec<Outcome>, StoreError> {
        let (shared, began) = (&self.shared, Instant::now());
        let first = shared.marks.begin(shared.now());
        let pending = match block_on(shared.store.apply(batches, first)) {
            Ok(pending) => pending,
            Err(error) => {
                shared.marks.abandon();
                return Err(error);
            }
        };
        let Some(last) = last_mark(pending.outcomes()) else {
            return self.commit_aside(pending, first);
        };
        let apply_ns = nanoseconds(began);
        let batch = batch(&*pending, &shared.catalogue());
        let withheld = shared.lists.withhold(batch);
        let syncing = Instant::now();
        let committed = block_on(pending.commit());
        let sync_ns = nanoseconds(syncing);
        match &committed {
            Ok(outcomes) => {
                self.written.commits.add(1);
                self.written.rows.add(changed_rows(outcomes));
                self.written.requests.record(batches.len() as u64);
                self.written.apply_ns.record(apply_ns);
                self.written.sync_ns.record(sync_ns);
                shared.take_in(outcomes);
                shared.marks.publish(last);
                shared.committed(last);
            }
            Err(_) => shared.marks.abandon(),
        }
        shared.lists.publish(withheld, committed.is_ok());
        for table in committed
            .iter()
            .flatten()
            .flatten()
            .flat_map(|one| &one.erased)
        {
            // What was erased is in no answer, however old it may be.
            shared.lists.purge(*table);
        }
        committed
    }

    /// Nothing was changed that a reader sees: the outcomes stand, and at most transactions of
    /// clients, or keys of their requests, have to be made durable.
    fn commit_aside(
        &self,
        pending: Box<dyn Pending>,
        first: Mark,
    ) -> Result<Vec<Outcome>, StoreError> {
        let shared = &self.shared;
        let mut applied = pending.outcomes().iter().flatten();
        if !applied.any(|applied| applied.keeps) {
            let outcomes = pending.outcomes().to_vec();
            drop(pending);
            shared.marks.abandon();
            return Ok(outcomes);
        }
        // What had become due at their mark comes in with them.
        let brings = !pending.due().is_empty();
        let withheld = shared.lists.withhold(due(&*pending));
        let committed = block_on(pending.commit());
        if committed.is_ok() && brings {
            shared.marks.pass(first);
        } else {
            shared.marks.abandon();
        }
        shared.lists.publish(withheld, committed.is_ok());
        committed
    }
}

fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Rows whose images are at hand.
fn changed_rows(outcomes: &[Outcome]) -> u64 {
    let images = |changes: &Changes| match changes {
        Changes::Images(changes) => changes.len() as u64,
        Changes::Tables(_) => 0,
    };
    let applied = outcomes.iter().flatten();
    applied.map(|applied| images(&applied.changes)).sum()
}

enum Taken {
    Group(Vec<Work>),
    /// Something is due.
    Due,
    Nothing,
    End,
}

/// How many of the waiting requests, given by their rows, form the next group.
fn group_len(rows: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let mut count = 0;
    for rows in rows.take(GROUP_REQUESTS_MAX) {
        let stands_alone = rows > ALONE_ROWS;
        if count > 0 && (stands_alone || sum + rows > GROUP_ROWS_MAX) {
            break;
        }
        sum += rows;
        count += 1;
        if stands_alone {
            break;
        }
    }
    count
}

fn last_mark(outcomes: &[Outcome]) -> Option<Mark> {
    outcomes
        .iter()
        .flatten()
        .filter_map(|applied| applied.mark)
        .max()
}

/// What becomes due, for the cached lists.
fn due(pending: &dyn Pending) -> Batch {
    let mut batch = Batch {
        next: pending.boundaries(),
        ..Batch::default()
    };
    for changes in pending.due() {
        match changes {
            Changes::Images(changes) if changes.is_empty() => {}
            Changes::Images(changes) => batch.due.push(changes.clone()),
            Changes::Tables(numbers) => batch.due_tables.extend(numbers),
        }
    }
    batch
}

/// What the group alters, for the cached lists; `catalogue` as it was before.
fn batch(pending: &dyn Pending, catalogue: &Catalogue) -> Batch {
    let mut batch = due(pending);
    for applied in pending.outcomes().iter().flatten() {
        match &applied.changes {
            Changes::Images(changes) if changes.is_empty() => {}
            Changes::Images(changes) => batch.images.push(changes.clone()),
            Changes::Tables(numbers) => batch.tables.extend(numbers),
        }
        batch.recast.extend(&applied.recast);
        for change in &applied.catalogue {
            extend_with_tables(&mut batch.tables, change, catalogue);
        }
    }
    told::bounded(&mut batch);
    batch.tables.sort_unstable();
    batch.tables.dedup();
    batch
}

/// Appends the tables that a change of the catalogue redefines or takes away.
fn extend_with_tables(
    numbers: &mut Vec<TableNumber>,
    change: &CatalogueChange,
    catalogue: &Catalogue,
) {
    let database = |project: &ProjectId, id: &DatabaseId| {
        let project = catalogue.project(project.as_str())?;
        project.databases.get(id)
    };
    match change {
        CatalogueChange::TablePut(table) => numbers.push(table.number),
        CatalogueChange::TableGone(project, id, table) => {
            let table = database(project, id).and_then(|database| database.tables.get(table));
            numbers.extend(table.map(|table| table.number));
        }
        CatalogueChange::DatabaseGone(project, id) => {
            let tables = database(project, id)
                .into_iter()
                .flat_map(|d| d.tables.values());
            numbers.extend(tables.map(|table| table.number));
        }
        CatalogueChange::ProjectGone(id) => {
            let project = catalogue.project(id.as_str());
            let databases = project.into_iter().flat_map(|p| p.databases.values());
            let tables = databases.flat_map(|database| database.tables.values());
            numbers.extend(tables.map(|table| table.number));
        }
        CatalogueChange::ProjectPut(_)
        | CatalogueChange::KeyPut(_)
        | CatalogueChange::KeyGone(_)
        | CatalogueChange::DatabasePut(_) => {}
    }
}

/// Of a table that was put, the rows may have bodies of an older schema.
fn leaves_rows_behind(change: &CatalogueChange) -> bool {
    matches!(
        change,
        CatalogueChange::TablePut(_)
            | CatalogueChange::TableGone(..)
            | CatalogueChange::DatabaseGone(..)
            | CatalogueChange::ProjectGone(..)
    )
}

/// What a committed batch answers its caller.
pub(crate) fn answer(outcome: Outcome) -> Answer {
    outcome.map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_share_a_group_and_large_ones_stand_alone() {
        assert_eq!(group_len([1, 1, 1].into_iter()), 3);
        assert_eq!(group_len([1, 1_001, 1].into_iter()), 1);
        assert_eq!(group_len([1_001, 1].into_iter()), 1);
        assert_eq!(group_len(std::iter::repeat_n(1_000, 20)), 10);
        assert_eq!(group_len(std::iter::repeat_n(1, 5_000)), GROUP_REQUESTS_MAX);
        assert_eq!(group_len(std::iter::empty()), 0);
    }
}
