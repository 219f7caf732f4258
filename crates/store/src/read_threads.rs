//! Threads for long reads: few of them, each with a connection of its own, and a bounded queue.
//!
//! They are started when long reads come, and run below everybody else: while a thread that
//! answers short reads, or the writer, has work, these wait for it. One that is idle for a while
//! ends, and the memory of its connection and its allocations goes back to the system.
//!
//! Callers with a key have places of their own in the queue, and their work is taken first, but for
//! one job in nine: keys that read without a pause keep no other caller out. Those without a key
//! read on a part of the threads, so that what they read never keeps a key from a thread. Their
//! answers are made on any thread: that is short, and would wait for two reads otherwise.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use crate::{LongReadCounts, LongReads, OffloadKind, StoreError, StoreFuture, Work};

thread_local! {
    /// What stops the work that this thread does, if it is one for long reads.
    static RUNNING: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// What stops the work that this thread does; `None` where it is none for long reads.
pub(crate) fn stop_of_this() -> Option<Arc<AtomicBool>> {
    RUNNING.with_borrow(Option::clone)
}

/// How far these threads stand back, as `nice` counts: each gets a third of the processor time of
/// a thread it competes with (Linux, `sched(7)`), and is put aside at once when one wakes. At 10
/// it would be a tenth: beside other busy programs long reads would come to a stand.
#[cfg(target_os = "linux")]
const STANDS_BACK: i32 = 5;

/// A thread that has been idle for so long ends. Its successor opens a connection, which takes
/// about a millisecond.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Longest wait for a thread: few clients wait so long, and the read would only keep others
/// waiting.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// Callers without a key have one of so many threads, and one place for so many places of keys; at
/// least one of each.
const GUESTS_PART: usize = 2;

/// After so many jobs of keys, one of a caller without a key is taken, if one waits.
const KEYS_IN_A_ROW_MAX: u32 = 8;

/// The threads and what waits for them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    limits: LongReads,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    idle_max: Duration,
    /// Most threads that read for callers without a key at once.
    guest_threads_max: usize,
}

#[derive(Default)]
struct State {
    of_keys: Queue,
    of_guests: Queue,
    /// Jobs of keys that were taken since the last one of a caller without.
    keys_in_a_row: u32,
    /// Threads that read for callers without a key.
    guest_reads: usize,
    /// Threads that take work, now or when they are done.
    threads: usize,
    /// Those of them that wait for work.
    idle: usize,
    /// What stops the reads that run now.
    running: Vec<Arc<AtomicBool>>,
    is_closed: bool,
    /// Since the start.
    taken: u64,
    refused: u64,
}

/// What waits in one share.
#[derive(Default)]
struct Queue {
    reads: VecDeque<Job>,
    /// Answers to be made of what was read.
    answers: VecDeque<Job>,
}

struct Job {
    run: Box<dyn FnOnce() + Send>,
    of_guest: bool,
    kind: OffloadKind,
    /// Raised when no caller waits for it any more.
    stop: Arc<AtomicBool>,
}

/// A wait for a long read. Dropped, it stops the read.
pub(crate) struct Waiting<T> {
    answer: oneshot::Receiver<Result<T, StoreError>>,
    stop: Arc<AtomicBool>,
}

impl Pool {
    /// Starts nothing yet.
    pub(crate) fn new(limits: LongReads) -> Pool {
        Pool::with_idle(limits, IDLE_MAX)
    }

    fn with_idle(limits: LongReads, idle_max: Duration) -> Pool {
        Pool {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: Condvar::new(),
                idle_max,
                guest_threads_max: guests_part(limits.threads),
            }),
            limits,
            threads: Mutex::default(),
        }
    }

    /// Most reads that wait in one share.
    pub(crate) fn waiting_max(&self, of_guest: bool) -> usize {
        if of_guest {
            guests_part(self.limits.waiting_max)
        } else {
            self.limits.waiting_max
        }
    }

    /// Hands over a read, or other work, which is given what stops it.
    ///
    /// # Errors
    /// [`StoreError::ReadersBusy`] when the queue of its kind and share is full.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        kind: OffloadKind,
        of_guest: bool,
        read: impl FnOnce(Arc<AtomicBool>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Waiting<T>, StoreError> {
        let (job, waiting) = job(kind, of_guest, read);
        self.enqueue(job)?;
        Ok(waiting)
    }

    /// What [`crate::StoreReads::offload`] promises.
    ///
    /// # Errors
    /// As for [`Pool::run`].
    pub(crate) fn offload(
        &self,
        kind: OffloadKind,
        of_guest: bool,
        work: Work,
    ) -> Result<StoreFuture<'static, ()>, StoreError> {
        if let Some(stop) = stop_of_this() {
            work(&stop);
            return Ok(Box::pin(ready(Ok(()))));
        }
        let (start, waiting_max) = (Instant::now(), self.waiting_max(of_guest));
        let work = move |stop: Arc<AtomicBool>| {
            if kind == OffloadKind::Read && start.elapsed() >= WAIT_MAX {
                return Err(StoreError::ReadersBusy { waiting_max });
            }
            work(&stop);
            Ok(())
        };
        Ok(Box::pin(self.run(kind, of_guest, work)?))
    }

    fn enqueue(&self, job: Job) -> Result<(), StoreError> {
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(StoreError::Interrupted);
        }
        let waiting_max = self.waiting_max(job.of_guest);
        let spare = self.shared.spare_threads(&state, &job);
        // As many as idle threads are about to be taken.
        let room = waiting_max + state.idle.min(spare);
        let queue = state.queue(&job);
        if queue.len() >= room {
            queue.retain(Job::is_wanted);
        }
        let mut may_wait = queue.len() < room;
        let is_taken = queue.len() < spare;
        if is_taken
            && self.shared.takeable(&state) >= state.idle
            && self.start_thread(&mut state)?
        {
            // It takes a job as soon as it runs, which makes room for this one.
            may_wait = true;
        }
        if !may_wait {
            state.refused += 1;
            return Err(StoreError::ReadersBusy { waiting_max });
        }
        state.taken += 1;
        state.queue(&job).push_back(job);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// What is at work, and what waits.
    pub(crate) fn counts(&self) -> LongReadCounts {
        let state = self.shared.lock();
        LongReadCounts {
            taken: state.taken,
            refused: state.refused,
            waiting: state.of_keys.len() + state.of_guests.len(),
            waiting_max: self.waiting_max(false) + self.waiting_max(true),
            running: state.running.len(),
            threads: state.threads,
            threads_max: self.limits.threads.max(1),
        }
    }

    /// Starts a thread if there may be one more, and says whether it did. Goes on with those
    /// that run when the system has no thread left.
    fn start_thread(&self, state: &mut State) -> Result<bool, StoreError> {
        if state.threads >= self.limits.threads.max(1) {
            return Ok(false);
        }
        let shared = self.shared.clone();
        let name = format!("reads-{}", state.threads);
        match Builder::new().name(name).spawn(move || shared.work()) {
            Ok(thread) => {
                state.threads += 1;
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(error) if state.threads == 0 => {
                let detail = format!("no thread for long reads: {error}");
                return Err(StoreError::Io { detail });
            }
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Stops what runs, forgets what waits, and waits for the threads to end.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let waiting = (
            std::mem::take(&mut state.of_keys),
            std::mem::take(&mut state.of_guests),
        );
        for stop in &state.running {
            stop.store(true, Ordering::Relaxed);
        }
        drop(state);
        drop(waiting);
        self.shared.changed.notify_all();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let this = std::thread::current().id();
        // One of them may hold the store last, and does not wait for itself.
        for thread in threads.drain(..).filter(|one| one.thread().id() != this) {
            // Panics were caught, and said so, where they happened.
            drop(thread.join());
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// A job that runs `work`, and the wait for what comes of it.
fn job<T: Send + 'static>(
    kind: OffloadKind,
    of_guest: bool,
    work: impl FnOnce(Arc<AtomicBool>) -> Result<T, StoreError> + Send + 'static,
) -> (Job, Waiting<T>) {
    let stop: Arc<AtomicBool> = Arc::default();
    let (reply, answer) = oneshot::channel();
    let of_work = stop.clone();
    let run = Box::new(move || {
        // The receiver may be gone.
        drop(reply.send(work(of_work)));
    });
    let job = Job {
        run,
        of_guest,
        kind,
        stop: stop.clone(),
    };
    (job, Waiting { answer, stop })
}

impl State {
    /// Where such work waits.
    fn queue(&mut self, job: &Job) -> &mut VecDeque<Job> {
        let share = if job.of_guest {
            &mut self.of_guests
        } else {
            &mut self.of_keys
        };
        match job.kind {
            OffloadKind::Read => &mut share.reads,
            OffloadKind::Answer => &mut share.answers,
        }
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.reads.len() + self.answers.len()
    }

    fn take(&mut self) -> Option<Job> {
        self.answers.pop_front().or_else(|| self.reads.pop_front())
    }
}

fn guests_part(all: usize) -> usize {
    (all / GUESTS_PART).max(1)
}

impl Job {
    fn is_wanted(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn is_guest_read(&self) -> bool {
        self.of_guest && self.kind == OffloadKind::Read
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole: each step on it is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        stand_back();
        while let Some(job) = self.next() {
            let is_guest_read = job.is_guest_read();
            let Job { run, stop, .. } = job;
            RUNNING.set(Some(stop.clone()));
            // A panic is one read's end, whose reply is dropped with it.
            let _: Result<(), Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(run));
            let mut state = self.lock();
            state.running.retain(|other| !Arc::ptr_eq(other, &stop));
            state.guest_reads -= usize::from(is_guest_read);
        }
    }

    /// How many threads may yet take work of this kind and caller.
    fn spare_threads(&self, state: &State, job: &Job) -> usize {
        if job.is_guest_read() {
            self.spare_for_guests(state)
        } else {
            usize::MAX
        }
    }

    fn spare_for_guests(&self, state: &State) -> usize {
        self.guest_threads_max.saturating_sub(state.guest_reads)
    }

    /// How many of the jobs that wait a thread would take.
    fn takeable(&self, state: &State) -> usize {
        let guests = &state.of_guests;
        let guest_reads = guests.reads.len().min(self.spare_for_guests(state));
        state.of_keys.len() + guests.answers.len() + guest_reads
    }

    fn take(&self, state: &mut State) -> Option<Job> {
        if state.keys_in_a_row < KEYS_IN_A_ROW_MAX
            && let Some(job) = state.of_keys.take()
        {
            state.keys_in_a_row += 1;
            return Some(job);
        }
        let of_guest = if self.spare_for_guests(state) == 0 {
            state.of_guests.answers.pop_front()
        } else {
            state.of_guests.take()
        };
        if of_guest.is_some() {
            state.keys_in_a_row = 0;
            return of_guest;
        }
        state.of_keys.take()
    }

    /// The next job that a caller waits for; `None` when the thread is to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            while let Some(job) = self.take(&mut state) {
                if job.is_wanted() {
                    state.running.push(job.stop.clone());
                    state.guest_reads += usize::from(job.is_guest_read());
                    return Some(job);
                }
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, self.idle_max);
            let (woken, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if wait.timed_out() && self.takeable(&state) == 0 {
                // From here on it is not counted on: the next job starts another thread.
                state.threads -= 1;
                return None;
            }
        }
    }
}

/// Lowers this thread's priority. Elsewhere than on Linux that would be the whole process's.
fn stand_back() {
    #[cfg(target_os = "linux")]
    // Without it long reads are only less polite.
    let _ = rustix::process::setpriority_process(None, STANDS_BACK);
}

impl<T> Future for Waiting<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.answer).poll(context);
        // Dropped without an answer: the store is closing, or the read broke down.
        polled.map(|answer| answer.unwrap_or(Err(StoreError::Interrupted)))
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures_executor::block_on;

    use super::*;

    #[test]
    fn keys_that_read_without_a_pause_leave_turns_to_callers_without() {
        let limits = LongReads {
            after_us: 0,
            threads: 1,
            waiting_max: 100,
        };
        let pool = Pool::with_idle(limits, IDLE_MAX);
        let (release, released) = oneshot::channel::<()>();
        let held = pool.run(OffloadKind::Read, false, |_| Ok(block_on(released).is_ok()));
        let order = Arc::<Mutex<Vec<bool>>>::default();
        let run = |of_guest: bool| {
            let order = order.clone();
            let note = move |_| {
                order.lock().unwrap().push(of_guest);
                Ok(())
            };
            pool.run(OffloadKind::Read, of_guest, note).unwrap()
        };
        let keys: Vec<_> = (0..20).map(|_| run(false)).collect();
        let guests: Vec<_> = (0..3).map(|_| run(true)).collect();
        release.send(()).unwrap();
        assert_eq!(block_on(held.unwrap()), Ok(true));
        for waiting in keys.into_iter().chain(guests) {
            block_on(waiting).unwrap();
        }
        let order = order.lock().unwrap();
        let turns: Vec<usize> = (0..23).filter(|nth| order[*nth]).collect();
        // The job that was held counts as the first of a row.
        assert_eq!(turns, [7, 16, 22]);
    }

    #[test]
    fn threads_that_are_idle_end_and_come_back_with_work() {
        let limits = LongReads {
            after_us: 0,
            threads: 3,
            waiting_max: 1_000,
        };
        let pool = Pool::with_idle(limits, Duration::from_millis(1));
        for round in 0..200_u64 {
            let waiting: Vec<Waiting<u64>> = (0..20)
                .map(|nth| {
                    pool.run(OffloadKind::Read, nth % 2 == 0, move |_| Ok(nth))
                        .unwrap()
                })
                .collect();
            let sum: u64 = waiting.into_iter().map(|one| block_on(one).unwrap()).sum();
            assert_eq!(sum, 190);
            assert!(pool.counts().threads <= 3);
            // Now before they are idle, now while they end, now after.
            std::thread::sleep(Duration::from_micros(round * 10));
        }
        let began = Instant::now();
        while pool.counts().threads > 0 {
            assert!(began.elapsed() < Duration::from_mins(1), "they stay");
            std::thread::yield_now();
        }
        let last = pool.run(OffloadKind::Answer, false, |_| Ok(1)).unwrap();
        assert_eq!(block_on(last), Ok(1));
    }
}
