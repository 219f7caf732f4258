//! Which marks are given, which may be read, and who waits for one.
//!
//! From its assignment to its publication a mark is *pending*. A read that fixes its own
//! coordinates stays below every pending mark and raises the horizon, so no later commit gets a
//! mark at or below what it saw. (Fixing them to the clock instead made 56,127 of 64,458 such
//! reads change when they were repeated.)

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use model::{Mark, Timestamp};

/// How far ahead of the horizon a reservation is made durable, in microseconds. A restart goes
/// on above it, so this is also how far "now" may jump ahead of the clock then.
pub(crate) const RESERVE_AHEAD_US: i64 = 5_000_000;

/// The marks of one engine.
pub(crate) struct Marks {
    state: Mutex<State>,
    /// Counts publications, so a waiter sees that one happened. Changed under the lock only, and
    /// read without it, because every read of now begins with it.
    publications: AtomicU64,
    /// Mark of the latest published commit, as in `state`, for those who ask on each request.
    published: AtomicI64,
    /// The higher one of horizon and `matured`, as in `state`, for the same.
    passed: AtomicI64,
    /// Test switch: reads fix their coordinates to the clock, pending marks or not.
    #[cfg(feature = "test-switches")]
    pub(crate) ignore_pending: std::sync::atomic::AtomicBool,
}

struct State {
    /// Mark of the latest published commit.
    published: Mark,
    /// Highest mark that was given or read.
    horizon: Mark,
    /// A restart goes on above this, whatever happens; never below the horizon.
    reserved: Mark,
    /// Lowest mark of the batch between assignment and publication.
    pending: Option<Mark>,
    /// As of when what is due was activated: no mark to come is below it, but it is not known
    /// yet what there will be at it.
    matured: Mark,
    /// What is pending stays so.
    is_stopped: bool,
    /// What is pending stays so for long: no reader waits for it.
    is_left_open: bool,
    waiters: Vec<Waker>,
}

/// Why coordinates cannot be fixed yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReservationNeeded;

/// Why a read at a given mark cannot be answered yet, or ever.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// A commit may still take this mark.
    Pending,
    /// A restart might give this mark to a commit.
    ReservationNeeded,
    /// What will be true then cannot be known.
    Future,
    /// It is not known whether a commit has taken this mark, and will not be before a new start.
    Stopped,
    /// It is not known, and may not be for long.
    LeftOpen,
}

impl Marks {
    pub(crate) fn new(published: Mark, horizon: Mark) -> Marks {
        Marks {
            state: Mutex::new(State {
                published,
                horizon: horizon.max(published),
                reserved: horizon.max(published),
                pending: None,
                matured: Mark::ZERO,
                is_stopped: false,
                is_left_open: false,
                waiters: Vec::new(),
            }),
            publications: AtomicU64::new(0),
            published: AtomicI64::new(published.0),
            passed: AtomicI64::new(horizon.max(published).0),
            #[cfg(feature = "test-switches")]
            ignore_pending: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// The mark for the next batch: from now on it, and all above it, are pending.
    pub(crate) fn begin(&self, clock: Timestamp) -> Mark {
        let mut state = self.lock();
        assert!(state.pending.is_none(), "one batch at a time");
        let first = Mark(clock.0).max(state.horizon.next()).max(state.matured);
        state.pending = Some(first);
        first
    }

    /// A mark that the next batch could have; it is given to none. For what is only tried.
    pub(crate) fn untaken(&self, clock: Timestamp) -> Mark {
        let state = self.lock();
        Mark(clock.0).max(state.horizon.next()).max(state.matured)
    }

    /// The batch was committed up to `last`, and is visible.
    pub(crate) fn publish(&self, last: Mark) {
        let mut state = self.lock();
        let first = state.pending.expect("only a begun batch is published");
        assert!(last >= first, "marks rise");
        state.published = last;
        self.published.store(last.0, Ordering::Release);
        self.raise(&mut state, last);
        // A commit stores its own mark as the horizon.
        state.reserved = state.reserved.max(last);
        self.settle(state);
    }

    /// Commits of others stand in the store up to `mark`, and marks up to `horizon` may have been
    /// read of them.
    pub(crate) fn catch_up(&self, mark: Mark, horizon: Mark) {
        let mut state = self.lock();
        assert!(state.pending.is_none(), "no batch is under way");
        assert!(mark >= state.published, "marks rise");
        state.published = mark;
        self.published.store(mark.0, Ordering::Release);
        self.raise(&mut state, horizon.max(mark));
        state.reserved = state.reserved.max(state.horizon);
        self.settle(state);
    }

    /// The batch came to nothing; its marks may be given again.
    pub(crate) fn abandon(&self) {
        self.settle(self.lock());
    }

    /// The batch took no mark, but what it activated is shown as of `mark`, durably: no mark to
    /// come is below it.
    pub(crate) fn pass(&self, mark: Mark) {
        let mut state = self.lock();
        self.raise_activated_to(&mut state, mark);
        self.settle(state);
    }

    /// The mark as of which what is due is activated: no mark to come is below it. That takes
    /// none itself, so the next commit may have this very one.
    pub(crate) fn mature(&self, clock: Timestamp) -> Mark {
        let mut state = self.lock();
        let mark = Mark(clock.0).max(state.horizon);
        self.raise_activated_to(&mut state, mark);
        state.matured
    }

    fn raise_activated_to(&self, state: &mut State, mark: Mark) {
        state.matured = state.matured.max(mark);
        self.passed.fetch_max(mark.0, Ordering::Release);
    }

    fn raise(&self, state: &mut State, mark: Mark) {
        state.horizon = state.horizon.max(mark);
        self.passed.fetch_max(mark.0, Ordering::Release);
    }

    /// As of when what is due was activated last.
    pub(crate) fn matured(&self) -> Mark {
        self.lock().matured
    }

    fn settle(&self, mut state: MutexGuard<'_, State>) {
        state.pending = None;
        state.is_left_open = false;
        self.publications.fetch_add(1, Ordering::Release);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// The mark for a read that names none and returns coordinates. Raises the horizon to it.
    pub(crate) fn fix(&self, clock: Timestamp) -> Result<Mark, ReservationNeeded> {
        let mut state = self.lock();
        let latest = Mark(clock.0).max(state.horizon);
        let mark = match state.pending {
            Some(pending) if !self.ignores_pending() => latest.min(Mark(pending.0 - 1)),
            _ => latest,
        };
        if mark > state.reserved {
            return Err(ReservationNeeded);
        }
        self.raise(&mut state, mark);
        Ok(mark)
    }

    #[cfg(feature = "test-switches")]
    fn ignores_pending(&self) -> bool {
        self.ignore_pending
            .load(std::sync::atomic::Ordering::Relaxed)
    }

    #[cfg(not(feature = "test-switches"))]
    #[expect(clippy::unused_self, reason = "the switch exists in test builds only")]
    fn ignores_pending(&self) -> bool {
        false
    }

    /// Settles a read at `mark`: later commits get higher marks. Not below a pending mark, which
    /// must be waited for, and not above `clock` and horizon, which is the future.
    pub(crate) fn settle_at(&self, mark: Mark, clock: Timestamp) -> Result<(), Unsettled> {
        let mut state = self.lock();
        if state.pending.is_some_and(|pending| mark >= pending) {
            return Err(match () {
                () if state.is_stopped => Unsettled::Stopped,
                () if state.is_left_open => Unsettled::LeftOpen,
                () => Unsettled::Pending,
            });
        }
        if mark > Mark(clock.0).max(state.horizon) {
            return Err(Unsettled::Future);
        }
        if mark > state.reserved {
            return Err(Unsettled::ReservationNeeded);
        }
        self.raise(&mut state, mark);
        Ok(())
    }

    /// What a durable reservation should reach for reads at `clock`.
    pub(crate) fn reservation(&self, clock: Timestamp) -> Mark {
        let state = self.lock();
        let latest = Mark(clock.0).max(state.horizon).max(state.matured);
        Mark(latest.0 + RESERVE_AHEAD_US)
    }

    /// A reservation up to `mark` is durable.
    pub(crate) fn reserved(&self, mark: Mark) {
        let mut state = self.lock();
        state.reserved = state.reserved.max(mark);
    }

    /// Mark of the latest published commit.
    pub(crate) fn published(&self) -> Mark {
        Mark(self.published.load(Ordering::Acquire))
    }

    /// Highest mark that was given or read.
    pub(crate) fn horizon(&self) -> Mark {
        self.lock().horizon
    }

    /// The higher one of the horizon and of when what is due was activated last.
    pub(crate) fn passed(&self) -> Mark {
        Mark(self.passed.load(Ordering::Acquire))
    }

    /// Counts publications and abandoned batches; see [`Marks::after`].
    pub(crate) fn publications(&self) -> u64 {
        self.publications.load(Ordering::Acquire)
    }

    /// What is pending may stay so for long: no reader waits for it any more, and its marks, up to
    /// `last` if it takes any, are given to no other commit, whatever becomes of it.
    pub(crate) fn leave_open(&self, last: Option<Mark>) {
        let mut state = self.lock();
        if let Some(last) = last {
            self.raise(&mut state, last);
        }
        state.is_left_open = state.pending.is_some();
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// What is pending stays so for good: no reader waits for it any more.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Begins again from nothing.
    pub(crate) fn rewind(&self) {
        let mut state = self.lock();
        assert!(state.pending.is_none(), "no batch is under way");
        state.published = Mark::ZERO;
        self.published.store(0, Ordering::Release);
        state.horizon = Mark::ZERO;
        state.reserved = Mark::ZERO;
        state.matured = Mark::ZERO;
        self.passed.store(0, Ordering::Release);
    }

    /// Waits until a batch was settled after [`Marks::publications`] said `seen`, or none is
    /// pending.
    pub(crate) fn after(&self, seen: u64) -> Settled<'_> {
        Settled { marks: self, seen }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state whole: no step on it can fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for the next settled batch.
pub(crate) struct Settled<'a> {
    marks: &'a Marks,
    seen: u64,
}

impl Future for Settled<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.marks.lock();
        // With nothing pending there is nothing to wait for, and nothing to wake the waiter.
        let has_come = self.marks.publications() != self.seen;
        let is_left = state.is_stopped || state.is_left_open;
        if has_come || state.pending.is_none() || is_left {
            return Poll::Ready(());
        }
        if !state
            .waiters
            .iter()
            .any(|waiter| waiter.will_wake(context.waker()))
        {
            state.waiters.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_000_000);

    fn marks() -> Marks {
        let marks = Marks::new(Mark(10), Mark(20));
        marks.reserved(Mark(2_000_000));
        marks
    }

    #[test]
    fn marks_rise_through_clock_steps() {
        let marks = marks();
        assert_eq!(marks.begin(NOON), Mark(1_000_000));
        marks.publish(Mark(1_000_004));
        assert_eq!(
            marks.begin(Timestamp(5)),
            Mark(1_000_005),
            "the clock stepped back"
        );
        marks.publish(Mark(1_000_005));
        assert_eq!(marks.published(), Mark(1_000_005));
    }

    #[test]
    fn a_restart_goes_on_above_what_may_have_been_read() {
        assert_eq!(Marks::new(Mark(10), Mark(20)).begin(Timestamp(5)), Mark(21));
    }

    #[test]
    fn a_read_stays_below_pending_marks_and_pushes_later_ones_above_itself() {
        let marks = marks();
        let pending = marks.begin(NOON);
        let read = marks.fix(Timestamp(NOON.0 + 500)).unwrap();
        assert_eq!(read, Mark(pending.0 - 1));
        assert_eq!(marks.settle_at(read, NOON), Ok(()));
        assert_eq!(marks.settle_at(pending, NOON), Err(Unsettled::Pending));
        marks.publish(pending);
        let read = marks.fix(Timestamp(NOON.0 + 500)).unwrap();
        assert_eq!(read, Mark(NOON.0 + 500));
        assert_eq!(marks.begin(NOON), read.next());
    }

    #[test]
    fn boundaries_take_no_mark_and_hold_later_ones_to_their_instant() {
        let marks = marks();
        assert_eq!(marks.mature(NOON), Mark(NOON.0));
        assert_eq!(marks.horizon(), Mark(20));
        assert_eq!(marks.mature(Timestamp(5)), Mark(NOON.0));
        assert_eq!(marks.begin(Timestamp(5)), Mark(NOON.0));
        marks.pass(Mark(NOON.0 + 7));
        assert_eq!(marks.untaken(NOON), Mark(NOON.0 + 7));
        assert_eq!(marks.horizon(), Mark(20));
        assert!(marks.reservation(Timestamp(5)) > Mark(NOON.0 + 7));
    }

    #[test]
    fn a_given_mark_may_not_lie_in_the_future_and_pushes_later_ones_above_itself() {
        let marks = marks();
        assert_eq!(
            marks.settle_at(Mark(NOON.0 + 1), NOON),
            Err(Unsettled::Future)
        );
        assert_eq!(marks.settle_at(Mark(NOON.0), NOON), Ok(()));
        assert_eq!(marks.begin(Timestamp(5)), Mark(NOON.0 + 1));
        let fresh = Marks::new(Mark(10), Mark(20));
        assert_eq!(
            fresh.settle_at(Mark(21), NOON),
            Err(Unsettled::ReservationNeeded)
        );
    }

    #[test]
    fn marks_go_on_above_those_of_others_and_what_was_read_of_them() {
        let marks = marks();
        marks.catch_up(Mark(NOON.0 + 5), Mark(NOON.0 + 9));
        assert_eq!(marks.published(), Mark(NOON.0 + 5));
        assert_eq!(marks.passed(), Mark(NOON.0 + 9));
        assert_eq!(marks.settle_at(Mark(NOON.0 + 9), NOON), Ok(()));
        assert_eq!(marks.begin(NOON), Mark(NOON.0 + 10));
    }

    #[test]
    fn an_abandoned_batch_leaves_no_trace() {
        let marks = marks();
        let first = marks.begin(NOON);
        marks.abandon();
        assert_eq!((marks.published(), marks.horizon()), (Mark(10), Mark(20)));
        assert_eq!(marks.begin(NOON), first);
    }

    #[test]
    fn marks_that_are_left_open_are_waited_for_by_nobody_and_never_given_again() {
        let marks = marks();
        let first = marks.begin(NOON);
        let last = Mark(first.0 + 2);
        marks.leave_open(Some(last));
        assert_eq!(marks.settle_at(first, NOON), Err(Unsettled::LeftOpen));
        assert_eq!(marks.fix(NOON), Ok(Mark(first.0 - 1)), "reads stay below");
        marks.abandon();
        assert_eq!(marks.settle_at(last, NOON), Ok(()));
        assert_eq!(marks.begin(NOON), last.next());
    }

    #[test]
    fn no_read_goes_beyond_what_is_reserved() {
        let marks = Marks::new(Mark(10), Mark(20));
        assert_eq!(marks.fix(NOON), Err(ReservationNeeded));
        marks.reserved(marks.reservation(NOON));
        assert_eq!(marks.fix(NOON), Ok(Mark(NOON.0)));
        let beyond = Timestamp(NOON.0 + RESERVE_AHEAD_US + 1);
        assert_eq!(marks.fix(beyond), Err(ReservationNeeded));
    }

    #[test]
    fn passed_boundaries_are_known_without_the_lock() {
        let marks = marks();
        assert_eq!(marks.passed(), Mark(20));
        assert_eq!(marks.mature(NOON), marks.passed());
        let read = marks.fix(Timestamp(NOON.0 + 5)).unwrap();
        assert_eq!(marks.passed(), read);
        assert_eq!(
            marks.settle_at(Mark(NOON.0 + 7), Timestamp(NOON.0 + 7)),
            Ok(())
        );
        assert_eq!(marks.passed(), Mark(NOON.0 + 7));
        let last = marks.begin(NOON);
        marks.publish(last);
        assert_eq!(marks.passed(), last);
        marks.pass(Mark(NOON.0 + 100));
        assert_eq!(marks.passed(), Mark(NOON.0 + 100));
        marks.rewind();
        assert_eq!(marks.passed(), Mark::ZERO);
    }
}
