//! What waits for the writer, and whose turn it is.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use model::{TableNumber, Timestamp};
use store::{Op, WriteBatch};

use crate::commit::dry_runs::DryRuns;
use crate::commit::mailbox::Recipient;
use crate::error::EngineError;
use crate::state::shared::Shared;

/// Most requests of one group.
const GROUP_REQUESTS_MAX: usize = 1_024;
/// Most rows of one group, as of one commit.
const GROUP_ROWS_MAX: usize = store::batch::BATCH_ROWS_MAX;
/// Most bytes that the requests of one group bring along. A request with more commits alone.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// A request with more rows commits alone.
const ALONE_ROWS: usize = 1_000;

pub(crate) enum Work {
    Write {
        batch: WriteBatch,
        reply: Recipient,
        /// Since when it waits for tables that others use.
        put_aside: Option<Instant>,
    },
    Reserve {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Forgets every mark; see [`crate::Engine::rewind`].
    Rewind {
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Before it is answered, all that was due at the instant has been activated.
    ActivateDue {
        instant: Timestamp,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
}

impl Work {
    /// Whether rows that are checked now are refused after it.
    pub(crate) fn moves_catalogue(&self) -> bool {
        match self {
            Work::Write { batch, .. } => batch.ops.iter().any(|op| matches!(op, Op::Catalogue(_))),
            Work::Reserve { .. } | Work::ActivateDue { .. } | Work::Rewind { .. } => false,
        }
    }

    /// Whether an API key asks for it, or the server itself, and not a caller without a key.
    pub(crate) fn is_keyed(&self) -> bool {
        match self {
            Work::Write { batch, .. } => batch.author.is_some(),
            Work::Reserve { .. } | Work::ActivateDue { .. } | Work::Rewind { .. } => true,
        }
    }

    /// Answers that nothing was done. A caller that went away needs no answer.
    pub(crate) fn refuse(self, error: EngineError) {
        match self {
            Work::Write { reply, .. } => reply.send(Err(error)),
            Work::Reserve { reply } | Work::Rewind { reply } | Work::ActivateDue { reply, .. } => {
                drop(reply.send(Err(error)));
            }
        }
    }

    /// Rows that it changes at most, and bytes that it brings along.
    fn size(&self) -> (usize, usize) {
        match self {
            Work::Write { batch, .. } => (batch.rows_max(), batch.bytes()),
            Work::Reserve { .. } | Work::ActivateDue { .. } | Work::Rewind { .. } => (0, 0),
        }
    }
}

/// What work waits for that was deferred.
pub(crate) enum Until {
    /// That nothing is due any more at the instant.
    Activated(Timestamp),
    /// That nothing is due any more in the table.
    TableActivated(TableNumber),
    /// An instant.
    Later(Instant),
}

impl Until {
    /// Whether it has come.
    pub(crate) fn has_come(&self, shared: &Shared) -> bool {
        match self {
            Until::Activated(instant) => shared.lists.first_boundary() > *instant,
            Until::TableActivated(table) => {
                let now = shared.marks.matured().timestamp();
                !shared.lists.is_overdue(*table, now)
            }
            Until::Later(at) => Instant::now() >= *at,
        }
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Work>,
    /// Work that waits for what is due, slice by slice, and lets others go before it meanwhile.
    deferred: Vec<(Until, Work)>,
    pub(crate) dry_runs: DryRuns,
    pub(crate) closing: bool,
    /// A request has met something that is due.
    pub(crate) is_woken: bool,
    /// What is done for an index outside of commits can go on, or has ended.
    pub(crate) build_goes_on: bool,
    /// The writer sleeps until so many wait. To wake it for each takes a core from those who bring
    /// the others.
    wakes_at: Option<usize>,
}

impl Queue {
    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.deferred.len()
    }

    /// Says whether the writer is to be notified.
    #[must_use]
    pub(crate) fn push(&mut self, work: Work) -> bool {
        self.waiting.push_back(work);
        self.wakes_at
            .is_some_and(|count| self.waiting.len() >= count)
    }

    pub(crate) fn defer(&mut self, until: Until, work: Work) {
        self.deferred.push((until, work));
    }

    /// Takes back work that its group had no room for. That of API keys goes before all others;
    /// the rest goes behind, so that what came in meanwhile does not wait for all of it.
    pub(crate) fn put_back(&mut self, works: Vec<Work>) {
        let (keyed, others): (Vec<_>, Vec<_>) = works.into_iter().partition(Work::is_keyed);
        for work in keyed.into_iter().rev() {
            self.waiting.push_front(work);
        }
        self.waiting.extend(others);
    }

    /// Takes no more, and gives up what waits.
    pub(crate) fn end(&mut self) -> Vec<Work> {
        self.closing = true;
        self.dry_runs.clear();
        self.drain()
    }

    /// Gives up what waits, dry runs apart.
    pub(crate) fn drain(&mut self) -> Vec<Work> {
        let deferred = std::mem::take(&mut self.deferred).into_iter();
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_iter()
            .chain(deferred.map(|(_, work)| work))
            .collect()
    }

    /// Lets those go on, before all others, whose wait is over.
    pub(crate) fn rejoin(&mut self, mut is_over: impl FnMut(&Until) -> bool) {
        let over: Vec<_> = self
            .deferred
            .extract_if(.., |(until, _)| is_over(until))
            .collect();
        for (_, work) in over.into_iter().rev() {
            self.waiting.push_front(work);
        }
    }

    /// How long until work that waits for an instant can go on; `None` where none does.
    pub(crate) fn until_later(&self, now: Instant) -> Option<Duration> {
        let instants = self.deferred.iter().filter_map(|(until, _)| match until {
            Until::Later(at) => Some(at.saturating_duration_since(now)),
            Until::Activated(_) | Until::TableActivated(_) => None,
        });
        instants.min()
    }

    /// Requests that can be worked on now.
    pub(crate) fn ready(&self) -> usize {
        self.waiting.len()
    }

    /// The next group.
    fn take(&mut self) -> Vec<Work> {
        let count = group_len(self.waiting.iter().map(Work::size));
        self.waiting.drain(..count).collect()
    }
}

#[derive(Default)]
pub(crate) struct WriteQueue {
    queue: Mutex<Queue>,
    filled: Condvar,
}

impl WriteQueue {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writer: see [`Queue::push`], or something else than a request has come.
    pub(crate) fn notify(&self) {
        self.filled.notify_one();
    }

    /// Waits until something is put in, or for so long.
    pub(crate) fn wait<'q>(
        &self,
        mut queue: MutexGuard<'q, Queue>,
        longest: Option<Duration>,
    ) -> MutexGuard<'q, Queue> {
        queue.wakes_at = Some(1);
        let mut queue = match longest {
            None => self
                .filled
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let waited = self.filled.wait_timeout(queue, longest);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        queue.wakes_at = None;
        queue
    }

    /// Waits for so long, or a part of it.
    pub(crate) fn pause(&self, longest: Duration) {
        drop(self.wait(self.lock(), Some(longest)));
    }

    /// The next group, once so many wait or the delay is over.
    pub(crate) fn group(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        batch_target: usize,
        batch_delay: Duration,
    ) -> Vec<Work> {
        let expected = batch_target.min(GROUP_REQUESTS_MAX);
        let is_short = |queue: &mut Queue| queue.waiting.len() < expected && !queue.closing;
        queue.wakes_at = Some(expected);
        let waited = self.filled.wait_timeout_while(queue, batch_delay, is_short);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.wakes_at = None;
        queue.take()
    }
}

/// How many of the waiting requests, given by their rows and bytes, form the next group.
fn group_len(sizes: impl Iterator<Item = (usize, usize)>) -> usize {
    let (mut rows_sum, mut bytes_sum) = (0, 0);
    let mut count = 0;
    for (rows, bytes) in sizes.take(GROUP_REQUESTS_MAX) {
        let stands_alone = rows > ALONE_ROWS || bytes > GROUP_BYTES_MAX;
        let is_full = rows_sum + rows > GROUP_ROWS_MAX || bytes_sum + bytes > GROUP_BYTES_MAX;
        if count > 0 && (stands_alone || is_full) {
            break;
        }
        rows_sum += rows;
        bytes_sum += bytes;
        count += 1;
        if stands_alone {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_group_is_bounded_in_bytes_as_in_rows() {
        let of_bytes = |bytes: &[usize]| group_len(bytes.iter().map(|bytes| (1, *bytes)));
        let half = GROUP_BYTES_MAX / 2;
        assert_eq!(of_bytes(&[half, half, 1]), 2);
        assert_eq!(of_bytes(&[1, GROUP_BYTES_MAX + 1, 1]), 1);
        assert_eq!(of_bytes(&[GROUP_BYTES_MAX + 1, 1]), 1);
    }

    #[test]
    fn work_without_room_in_its_group_comes_back_with_that_of_keys_before_all_others() {
        let work = |author: Option<&str>, epoch| Work::Write {
            batch: WriteBatch {
                catalogue_epoch: epoch,
                ops: Vec::new(),
                author: author.map(str::to_owned),
                unchanged_since: None,
                meta: None,
                noted_in: None,
                space: store::SpaceLimit::Any,
            },
            reply: Recipient::here().0,
            put_aside: None,
        };
        let mut queue = Queue::default();
        let wakes = queue.push(work(None, 5));
        assert!(!wakes, "the writer does not sleep");
        let key = Some("key:a");
        queue.put_back(vec![
            work(None, 1),
            work(key, 2),
            work(None, 3),
            work(key, 4),
        ]);
        let epoch = |work: Work| match work {
            Work::Write { batch, .. } => batch.catalogue_epoch,
            _ => 0,
        };
        let order: Vec<u64> = queue.take().into_iter().map(epoch).collect();
        assert_eq!(order, [2, 4, 5, 1, 3]);
    }

    #[test]
    fn work_that_waits_for_an_instant_says_how_long() {
        let mut queue = Queue::default();
        let now = Instant::now();
        assert_eq!(queue.until_later(now), None);
        let reserve = || Work::Reserve {
            reply: oneshot::channel().0,
        };
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        queue.defer(Until::Activated(Timestamp(0)), reserve());
        queue.defer(Until::Later(now + minute), reserve());
        queue.defer(Until::Later(now + second), reserve());
        assert_eq!(queue.until_later(now), Some(second));
        assert_eq!(queue.until_later(now + minute), Some(Duration::ZERO));
        assert_eq!((queue.ready(), queue.waiting()), (0, 3));
    }

    /// How often clients notify a writer that sleeps until all of so many wait.
    fn notified(count: usize) -> usize {
        let queue = Arc::<WriteQueue>::default();
        let sleeping = Arc::clone(&queue);
        let writer = thread::spawn(move || {
            let longest = Duration::from_mins(1);
            sleeping.group(sleeping.lock(), count, longest).len()
        });
        let mut notified = 0;
        let mut pushed = 0;
        while pushed < count {
            let mut locked = queue.lock();
            if locked.wakes_at.is_none() {
                drop(locked);
                thread::yield_now();
                continue;
            }
            let reply = oneshot::channel().0;
            let wakes = locked.push(Work::Reserve { reply });
            drop(locked);
            pushed += 1;
            if wakes {
                notified += 1;
                queue.notify();
            }
        }
        assert_eq!(writer.join().unwrap(), count);
        notified
    }

    #[test]
    fn a_writer_that_waits_for_company_is_woken_once_and_not_for_each_request() {
        assert_eq!(notified(8), 1);
        assert_eq!(notified(1), 1);
    }

    #[test]
    fn small_requests_share_a_group_and_large_ones_stand_alone() {
        let of_rows = |rows: &[usize]| group_len(rows.iter().map(|rows| (*rows, 1)));
        assert_eq!(of_rows(&[1, 1, 1]), 3);
        assert_eq!(of_rows(&[1, 1_001, 1]), 1);
        assert_eq!(of_rows(&[1_001, 1]), 1);
        assert_eq!(of_rows(&[1_000; 20]), 10);
        assert_eq!(of_rows(&[1; 1_500]), GROUP_REQUESTS_MAX);
        assert_eq!(of_rows(&[]), 0);
    }
}
