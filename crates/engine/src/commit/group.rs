//! The one door for writes: a thread that takes what waits and commits it as one group.
//!
//! Always in this order: apply, **withhold** what the group may alter, **commit** with a sync,
//! **publish** the marks, then answer. So a caller that has seen a commit by any route cannot join
//! an older read afterwards, and N waiting clients share one sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_executor::block_on;
use list_cache::Withheld;
use model::{CatalogueChange, Mark, Table, Timestamp};
use store::{Changes, IndexBuildEnd, Outcome, Pending, Refusal, StoreError, WriteBatch};

use crate::commit::altered::{altered, due};
use crate::commit::builds::{
    Build, FailedBuilds, OutsideBuild, build_batch, next_build, table_with_builds,
};
use crate::commit::busy_tables::{self, Again, NextTry, changes_tables};
use crate::commit::doubt::{Reply, last_mark};
use crate::commit::mailbox::{Answer, GroupAnswers};
use crate::commit::quota::Held;
use crate::commit::retention::RetentionFloors;
use crate::commit::store_calls::{StoreCalls, said};
use crate::commit::write_queue::{Until, Work, WriteQueue};
use crate::error::{EngineError, Unavailable};
use crate::state::shared::Shared;
use crate::state::tally::Written;

/// A group may always wait so long for more requests. Draining only what was there gave eight
/// clients 0.52 of a single client's rate each; with this wait 0.96.
const BATCH_WAIT: Duration = Duration::from_micros(300);
/// It may wait for a quarter of what the last group took, up to this. With syncs of 3 ms clients
/// over HTTP came back too late for the wait above, and groups fell apart: 32 clients made 2,660
/// rows a second, with the longer wait 3,280; eight 1,117 and 1,308.
const BATCH_WAIT_MAX: Duration = Duration::from_millis(2);
/// The writer looks at the clock so often while something is scheduled, since the clock may be
/// set; and tries so often again what is due and cannot be activated.
const CLOCK_WATCH: Duration = Duration::from_secs(1);
/// After so long no further dry run is begun in a group. A writer waits for one that runs
/// longer, and no more.
const DRY_RUNS_TAKE_MAX: Duration = Duration::from_millis(20);
/// Under steady load a piece of upkeep is done after so many groups.
const UPKEEP_EVERY_GROUPS: u32 = 64;

/// After a part of an index that others waited for, no upkeep is done for as long as it took, up to
/// this. Without the rest, a client that writes at a fixed rate got one request in between two
/// parts, and fell behind for as long as all of them took.
const BUILD_REST_MAX: Duration = Duration::from_secs(1);

pub(crate) struct GroupCommit {
    shared: Arc<Shared>,
    written: Arc<Written>,
    queue: Arc<WriteQueue>,
    calls: StoreCalls,
    held: Arc<Held>,
    /// What the next group should wait for: the requests the last one answered plus those that
    /// waited when it ended.
    batch_target: usize,
    /// How long it may wait for them.
    batch_delay: Duration,
    /// Whether indexes may be waiting to be built. Which ones, the catalogue says: so none is
    /// forgotten over a restart.
    builds_are_due: bool,
    /// When what is due could not be activated, and why.
    last_due_failure: Option<(Instant, EngineError)>,
    failed_builds: FailedBuilds,
    outside: OutsideBuild,
    /// Whether an index waits for changes of tables that are put aside.
    builds_rest: bool,
    /// When changes of tables that others use are tried again.
    next_try: NextTry,
    /// Which tables let go of their past, and when.
    floors: RetentionFloors,
    /// Until when upkeep rests.
    upkeep_rests_until: Option<Instant>,
}

impl GroupCommit {
    pub(crate) fn new(
        shared: Arc<Shared>,
        written: Arc<Written>,
        queue: Arc<WriteQueue>,
        held: Arc<Held>,
    ) -> GroupCommit {
        let calls = StoreCalls::new(
            Arc::clone(&shared),
            Arc::clone(&written),
            Arc::clone(&queue),
        );
        GroupCommit {
            shared,
            written,
            queue,
            calls,
            held,
            batch_target: 0,
            batch_delay: BATCH_WAIT,
            builds_are_due: true,
            last_due_failure: None,
            failed_builds: FailedBuilds::default(),
            outside: OutsideBuild::default(),
            builds_rest: false,
            next_try: NextTry::default(),
            floors: RetentionFloors::default(),
            upkeep_rests_until: None,
        }
    }

    /// Works until the queue is closed and empty, or something happens after which nothing may be
    /// written. Then the callers that wait learn so, and the group it happened to finds no answer:
    /// what became of that is not known.
    pub(crate) fn run_to_the_end(&mut self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run())) {
            self.written.panics.add(1);
            self.shared
                .stop(format!("The writer broke down: {}", said(&*panic)));
        }
        let left = self.queue.lock().end();
        for work in left {
            work.refuse(EngineError::Unavailable(Unavailable::Stopped));
        }
    }

    fn run(&mut self) {
        let mut upkeep_is_due = true;
        let mut groups_since_upkeep = 0;
        while self.shared.stop.reason().is_none() {
            // Each time, so that an endless line of writes cannot hold up what is due.
            self.calls.take_due_turn();
            self.activate_due();
            upkeep_is_due |= self.raise_lines();
            if self.failed_builds.are_due(Instant::now()) {
                self.builds_are_due = true;
                upkeep_is_due = true;
            }
            upkeep_is_due |= std::mem::take(&mut self.queue.lock().build_goes_on);
            if self.builds_rest && !self.is_a_change_put_aside() {
                self.builds_rest = false;
                upkeep_is_due = true;
            }
            if self.calls.has_caught_up.take() {
                // It may go on at a primary that hangs, and whose place a standby has taken.
                self.outside.end();
                self.builds_are_due = true;
                upkeep_is_due = true;
            }
            match self.take(upkeep_is_due) {
                Taken::Group(group) => {
                    let answered = group.len();
                    let began = Instant::now();
                    upkeep_is_due |= self.work(group);
                    self.batch_delay = (began.elapsed() / 4).clamp(BATCH_WAIT, BATCH_WAIT_MAX);
                    self.batch_target = answered + self.queue.lock().ready();
                    groups_since_upkeep += 1;
                }
                Taken::DryRuns => self.run_dry_runs(),
                Taken::Due => {}
                Taken::Nothing => groups_since_upkeep = UPKEEP_EVERY_GROUPS,
                Taken::End => return,
            }
            let rests = !self.upkeep_rest().is_zero();
            if upkeep_is_due && !rests && groups_since_upkeep >= UPKEEP_EVERY_GROUPS {
                upkeep_is_due = self.run_upkeep();
                groups_since_upkeep = 0;
            }
        }
    }

    /// Everyone is answered, and no one waits.
    fn rest(&self) {
        // A fault in there costs later reads time, and was counted.
        let _ = self.calls.call(|store| {
            store.rest();
            Ok(())
        });
    }

    /// If requests wait by now, upkeep lets others go first for a while.
    fn rest_after_build(&mut self, took: Duration) {
        let is_waited_for = self.queue.lock().ready() > 0;
        let rest = took.min(BUILD_REST_MAX);
        self.upkeep_rests_until = is_waited_for.then(|| Instant::now() + rest);
    }

    /// How long upkeep rests yet.
    fn upkeep_rest(&self) -> Duration {
        let until = self.upkeep_rests_until;
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// The next group, after a wait for more requests. `Nothing` if there is none and the caller
    /// has better to do than to wait.
    fn take(&self, has_other_work: bool) -> Taken {
        let mut queue = self.queue.lock();
        if queue.ready() == 0 {
            drop(queue);
            self.rest();
            queue = self.queue.lock();
        }
        let closing = queue.closing;
        queue.rejoin(|until| match until {
            // What may be answered with a failure then.
            Until::Activated(_) | Until::TableActivated(_) if self.has_just_failed() => true,
            Until::Later(_) if closing => true,
            until => until.has_come(&self.shared),
        });
        while queue.ready() == 0 {
            if queue.closing {
                if queue.waiting() > 0 {
                    return Taken::Due;
                }
                queue.dry_runs.clear();
                return Taken::End;
            }
            let until_dry_run = queue.dry_runs.until_next(Instant::now());
            if until_dry_run.is_some_and(|until| until.is_zero()) {
                return Taken::DryRuns;
            }
            let rest = self.upkeep_rest();
            if has_other_work && rest.is_zero() {
                return Taken::Nothing;
            }
            if std::mem::take(&mut queue.is_woken) && self.shared.is_due_to_writer() {
                return Taken::Due;
            }
            if queue.build_goes_on {
                return Taken::Due;
            }
            let due = [
                self.until_due(),
                self.failed_builds.until_next(Instant::now()),
                self.calls.until_turn(),
                queue.until_later(Instant::now()),
            ];
            if due.iter().flatten().any(Duration::is_zero) {
                return Taken::Due;
            }
            let others = [until_dry_run, has_other_work.then_some(rest)];
            let longest = due.into_iter().chain(others).flatten().min();
            queue = self.queue.wait(queue, longest);
        }
        let group = self.queue.group(queue, self.batch_target, self.batch_delay);
        let group = group.into_iter().filter_map(|work| self.put_aside(work));
        Taken::Group(group.collect())
    }

    /// Answers a group. Says whether it left work for upkeep.
    fn work(&mut self, mut group: Vec<Work>) -> bool {
        // Rows go first, lest writers of rows begin again over each change of a schema; and among
        // them those of API keys, which large rows of others are not to hold up.
        group.sort_by_key(|work| (work.moves_catalogue(), !work.is_keyed()));
        let mut batches = Vec::with_capacity(group.len());
        let mut replies = Vec::with_capacity(group.len());
        let mut put_aside = Vec::with_capacity(group.len());
        let mut reservations = Vec::new();
        for work in group {
            match work {
                Work::Write {
                    batch,
                    reply,
                    put_aside: since,
                } => {
                    batches.push(batch);
                    replies.push(Some(reply));
                    put_aside.push(since);
                }
                Work::Reserve { reply } => reservations.push(reply),
                // A caller that went away needs no answer.
                Work::ActivateDue { instant, reply } => match self.activated(instant) {
                    Some(activated) => drop(reply.send(activated)),
                    None => {
                        self.defer(
                            Until::Activated(instant),
                            Work::ActivateDue { instant, reply },
                        );
                    }
                },
                Work::Rewind { reply } => {
                    let rewound = self.calls.in_turn(|turn| block_on(turn.rewind()));
                    if rewound.is_ok() {
                        self.shared.marks.rewind();
                        self.shared.lists.forget_pinned();
                    }
                    let _ = reply.send(rewound.map_err(EngineError::from));
                }
            }
        }
        self.reserve(reservations);
        let mut leaves_upkeep = false;
        if !batches.is_empty() {
            let outcomes = self.commit(&batches, &mut replies);
            leaves_upkeep = self.leaves_upkeep(&outcomes);
            let mut deferred = Vec::new();
            let mut answers = GroupAnswers::default();
            let writes = batches.into_iter().zip(replies).zip(put_aside);
            for (((batch, reply), mut put_aside), outcome) in writes.zip(outcomes) {
                let Some(reply) = reply else { continue };
                let Some(again) = self.runs_again(&batch, &outcome, &mut put_aside) else {
                    answers.add(reply, self.answer(outcome));
                    continue;
                };
                let work = Work::Write {
                    batch,
                    reply,
                    put_aside,
                };
                match again {
                    Again::InNextGroup => deferred.push(work),
                    Again::After(until) => self.defer(until, work),
                }
            }
            self.queue.lock().put_back(deferred);
        }
        self.run_dry_runs();
        leaves_upkeep
    }

    fn reserve(&mut self, replies: Vec<oneshot::Sender<Result<(), EngineError>>>) {
        if replies.is_empty() {
            return;
        }
        let reserved = self.calls.reserve();
        for reply in replies {
            let _ = reply.send(reserved.clone());
        }
    }

    /// Whether a write is to run again, and when.
    fn runs_again(
        &mut self,
        batch: &WriteBatch,
        outcome: &Result<Outcome, EngineError>,
        put_aside: &mut Option<Instant>,
    ) -> Option<Again> {
        match outcome {
            Ok(Err(Refusal::Deferred)) => Some(Again::InNextGroup),
            Ok(Err(Refusal::Behind(table))) if !self.has_just_failed() => {
                Some(Again::After(Until::TableActivated(*table)))
            }
            Ok(Err(Refusal::TablesBusy)) if !self.queue.lock().closing => {
                let now = Instant::now();
                let since = *put_aside.get_or_insert(now);
                // What is built of a table outside of commits may be what is in the way.
                let catalogue = self.shared.catalogue();
                let needs = |table| busy_tables::needs(batch, table, &catalogue);
                self.builds_rest |= self.outside.end_of(needs);
                let next = self.next_try.after(since, now);
                next.map(|next| Again::After(Until::Later(next)))
            }
            _ => None,
        }
    }

    /// What the caller of a write that does not run again is answered.
    fn answer(&self, outcome: Answer) -> Answer {
        if let Ok(Err(Refusal::Full(full))) = &outcome {
            self.held.refused(full);
        }
        let failure = match outcome {
            Ok(Err(Refusal::Behind(_))) => self.recent_failure(),
            _ => None,
        };
        failure.map_or(outcome, Err)
    }

    /// Lets a change of tables wait for the next try of those that are put aside, if any are: each
    /// try holds up all that write. Gives back what is to run now.
    fn put_aside(&self, work: Work) -> Option<Work> {
        let Work::Write {
            batch,
            reply,
            put_aside,
        } = work
        else {
            return Some(work);
        };
        let now = Instant::now();
        let since = put_aside.unwrap_or(now);
        let next = self.next_try.shared(since, now);
        let next = next.filter(|_| changes_tables(&batch) && !self.queue.lock().closing);
        let put_aside = next.map_or(put_aside, |_| Some(since));
        let work = Work::Write {
            batch,
            reply,
            put_aside,
        };
        match next {
            None => Some(work),
            Some(next) => {
                self.defer(Until::Later(next), work);
                None
            }
        }
    }

    /// Whether a change of tables waits for its next try.
    fn is_a_change_put_aside(&self) -> bool {
        self.queue.lock().until_later(Instant::now()).is_some()
    }

    fn defer(&self, until: Until, work: Work) {
        self.queue.lock().defer(until, work);
    }

    /// Runs dry runs, after the answers, so that a commit waits for none of the same group.
    /// When they have taken their time the others wait for the next group, and what is to be
    /// written by then goes before them.
    fn run_dry_runs(&self) {
        let began = Instant::now();
        // A dry run activates all that is due, and has little time.
        while !self.shared.is_due_to_writer() || self.has_just_failed() {
            let dry_run_began = Instant::now();
            if dry_run_began - began >= DRY_RUNS_TAKE_MAX {
                return;
            }
            let Some(dry_run) = self.queue.lock().dry_runs.next(dry_run_began) else {
                return;
            };
            let is_of_guest = dry_run.is_of_guest;
            // Who waits for it finds no answer, if it cannot be run.
            let turn = self.calls.turn();
            let _ = self.calls.call(|_| {
                dry_run.run(&self.shared, turn);
                Ok(())
            });
            if is_of_guest {
                let took = dry_run_began.elapsed();
                self.queue.lock().dry_runs.guest_took(dry_run_began, took);
            }
        }
    }

    /// Whether a group left something for upkeep.
    fn leaves_upkeep(&mut self, outcomes: &[Result<Outcome, EngineError>]) -> bool {
        let applied = || outcomes.iter().flatten().flatten();
        let changes = || applied().flat_map(|applied| &applied.catalogue);
        for table in changes().filter_map(table_with_builds) {
            self.builds_are_due = true;
            self.failed_builds.forget(table);
        }
        changes().any(leaves_rows_behind) || applied().any(|applied| applied.leaves_upkeep)
    }

    /// One piece of upkeep: an index that waits, or a slice of rows. Says whether more is
    /// waiting. A slice that fails is met again by the next write, which reports it.
    fn run_upkeep(&mut self) -> bool {
        let rests = !self.outside.has_begun() && self.is_a_change_put_aside();
        self.builds_rest |= self.builds_are_due && rests;
        if self.builds_are_due && !rests {
            let catalogue = self.shared.catalogue();
            if let Some((table, number)) = next_build(&catalogue, &self.failed_builds) {
                match self.build_outside(table, number) {
                    Poll::Ready(Ok(end)) => {
                        let build = (table.number, number);
                        let batch = build_batch(&catalogue, (table, number), end);
                        return self.declare_built(build, batch);
                    }
                    Poll::Ready(Err(_)) => {
                        self.give_up((table.number, number));
                        return true;
                    }
                    Poll::Pending => {}
                }
            } else {
                self.outside.end();
                self.builds_are_due = false;
            }
        }
        self.calls
            .in_turn(|turn| block_on(turn.run_upkeep()))
            .unwrap_or(false)
    }

    fn build_outside(
        &mut self,
        table: &Arc<Table>,
        number: u32,
    ) -> Poll<Result<IndexBuildEnd, StoreError>> {
        let (outside, queue) = (&mut self.outside, &self.queue);
        let polled = self.calls.call(|store| {
            let begin = || store.build(table, number);
            Ok(outside.poll((table.number, number), queue, begin))
        });
        polled.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }

    /// The build has failed, and is begun again later.
    fn give_up(&mut self, build: Build) {
        self.outside.end();
        self.failed_builds.add(build, Instant::now());
    }

    /// Commits the batch that makes an index available, or a part of it. Says whether more waits.
    fn declare_built(&mut self, build: Build, batch: WriteBatch) -> bool {
        let began = Instant::now();
        let outcome = self.commit(&[batch], &mut []).pop();
        self.rest_after_build(began.elapsed());
        match outcome {
            // What is due comes in first. While it cannot, trying again would keep the writer
            // busy.
            Some(Ok(Err(Refusal::Behind(_)))) => !self.has_just_failed(),
            Some(Ok(Ok(_))) => true,
            _ => {
                self.give_up(build);
                true
            }
        }
    }

    /// Raises the lines of tables that let go of their past, where that is due. Says whether there
    /// is something to let go of.
    fn raise_lines(&mut self) -> bool {
        let catalogue = self.shared.catalogue();
        if !self.floors.take_in(&catalogue) {
            return false;
        }
        let now = self.shared.writers_instant();
        let Some(batch) = self.floors.due(&catalogue, now) else {
            return false;
        };
        let raised = self.commit(&[batch], &mut []).pop();
        let raised = matches!(raised, Some(Ok(Ok(_))));
        if !raised {
            self.floors.put_off(now);
        }
        raised
    }

    /// How long until something becomes due; `None` if nothing is scheduled.
    fn until_due(&self) -> Option<Duration> {
        let first = self.shared.lists.first_boundary().min(self.floors.next);
        if first == Timestamp::END {
            return None;
        }
        let wait_us = first.0.saturating_sub(self.shared.writers_instant().0);
        let wait = Duration::from_micros(u64::try_from(wait_us).unwrap_or(0));
        Some(if self.has_just_failed() {
            CLOCK_WATCH
        } else {
            wait.min(CLOCK_WATCH)
        })
    }

    /// Activates a part of what is due, if anything is. What cannot be activated is tried again
    /// with the next group, or a while later; reads go without it.
    fn activate_due(&mut self) {
        if self.shared.is_due_to_writer() && !self.has_just_failed() {
            let activated = self.activate_some_due();
            self.last_due_failure = activated.err().map(|error| (Instant::now(), error));
        }
    }

    fn has_just_failed(&self) -> bool {
        self.recent_failure().is_some()
    }

    fn recent_failure(&self) -> Option<EngineError> {
        let (at, error) = self.last_due_failure.as_ref()?;
        (at.elapsed() < CLOCK_WATCH).then(|| error.clone())
    }

    /// What became of all that was due at the instant; `None` while more is to come.
    fn activated(&self, instant: Timestamp) -> Option<Result<(), EngineError>> {
        if Until::Activated(instant).has_come(&self.shared) {
            return Some(Ok(()));
        }
        // A clock that steps back does not make it any less due.
        self.shared.marks.mature(instant);
        self.recent_failure().map(Err)
    }

    /// In the order of a commit: apply, withhold, commit, publish. No mark is given, and none to
    /// come is below the instant.
    fn activate_some_due(&mut self) -> Result<(), EngineError> {
        let shared = &self.shared;
        let turn = self.calls.turn()?;
        let instant = shared.marks.mature(shared.writers_instant()).timestamp();
        let activate = |_| block_on(turn.activate_due(instant));
        let pending = self.calls.call(activate)?;
        shared.note_activation(&pending.boundaries());
        let withheld = shared.lists.withhold(due(&*pending));
        let committed = self.calls.conclude(pending, &mut []);
        self.publish(withheld, committed.is_ok());
        committed?;
        Ok(())
    }

    /// Commits the batches as one group. A group that fails as a whole is run again one by one,
    /// so that the one at fault takes nothing from its neighbours, unless its callers have left.
    fn commit(
        &mut self,
        batches: &[WriteBatch],
        replies: &mut [Reply],
    ) -> Vec<Result<Outcome, EngineError>> {
        if let Err(error) = self.shared.check_clock() {
            return batches.iter().map(|_| Err(error.clone())).collect();
        }
        match self.commit_group(batches, replies) {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(error) if batches.len() == 1 => vec![Err(error.into())],
            Err(error) if self.shared.stop.reason().is_some() => {
                batches.iter().map(|_| Err(error.clone().into())).collect()
            }
            Err(_) => (0..batches.len())
                .map(|n| self.commit_alone(&batches[n..=n], &mut replies[n..]))
                .collect(),
        }
    }

    /// Commits one batch of a group that failed as a whole. One whose caller has left is not run
    /// again.
    fn commit_alone(
        &mut self,
        batch: &[WriteBatch],
        replies: &mut [Reply],
    ) -> Result<Outcome, EngineError> {
        if replies[0].is_none() {
            return Err(Unavailable::AwaitsCommit.into());
        }
        let mut outcomes = self.commit_group(batch, replies)?;
        Ok(outcomes.pop().expect("one outcome per batch"))
    }

    fn commit_group(
        &mut self,
        batches: &[WriteBatch],
        replies: &mut [Reply],
    ) -> Result<Vec<Outcome>, StoreError> {
        self.written.pending.set(batches.len() as u64);
        let committed = self.commit_counted(batches, replies);
        self.written.pending.set(0);
        self.written.failed.add(u64::from(committed.is_err()));
        committed
    }

    fn commit_counted(
        &mut self,
        batches: &[WriteBatch],
        replies: &mut [Reply],
    ) -> Result<Vec<Outcome>, StoreError> {
        let (shared, began) = (&self.shared, Instant::now());
        let turn = self.calls.turn()?;
        let first = shared.marks.begin(shared.now());
        let pending = match self.calls.call(|_| block_on(turn.apply(batches, first))) {
            Ok(pending) => pending,
            Err(error) => {
                shared.marks.abandon();
                return Err(error);
            }
        };
        let mut outcomes = pending.outcomes().iter();
        if outcomes.any(|outcome| matches!(outcome, Err(Refusal::Behind(_)))) {
            // The clock may be behind the mark, and what is due at the mark is to come in next.
            shared
                .marks
                .mature(Timestamp(first.0 + batches.len() as i64));
        }
        let Some(last) = last_mark(pending.outcomes()) else {
            return self.commit_unseen(pending, first, replies);
        };
        let apply_ns = nanoseconds(began);
        let batch = altered(&*pending, &shared.catalogue());
        let withheld = shared.lists.withhold(batch);
        let syncing = Instant::now();
        let committed = self.calls.conclude(pending, replies);
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
            Err(_) if shared.stop.reason().is_some() => {}
            Err(_) => shared.marks.abandon(),
        }
        self.publish(withheld, committed.is_ok());
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
    fn commit_unseen(
        &self,
        pending: Box<dyn Pending>,
        first: Mark,
        replies: &mut [Reply],
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
        let activates = !pending.due().is_empty();
        if activates {
            shared.note_activation(&pending.boundaries());
        }
        let withheld = shared.lists.withhold(due(&*pending));
        let committed = self.calls.conclude(pending, replies);
        if committed.is_ok() && activates {
            shared.marks.pass(first);
        } else {
            shared.marks.abandon();
        }
        self.publish(withheld, committed.is_ok());
        committed
    }

    /// Ends a commit for the cached lists. Where it may yet be there, what it may alter stays
    /// withheld.
    fn publish(&self, withheld: Withheld, is_committed: bool) {
        if is_committed || self.shared.stop.reason().is_none() {
            self.shared.lists.publish(withheld, is_committed);
        }
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
    /// Dry runs may begin, and there is nothing to write.
    DryRuns,
    /// Something is due.
    Due,
    Nothing,
    End,
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
