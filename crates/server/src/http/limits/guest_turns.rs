//! Turns of callers without an API key on one thread that answers requests.
//!
//! A request runs in steps: from where it begins or goes on to where it waits. Each step is
//! bounded, to some milliseconds at worst, but many guests at once would add up their steps before
//! a caller with a key has its first. So guests take their steps one at a time, and between two of
//! them the thread looks for what has come in, and serves callers with keys. TLS handshakes have
//! turns of their own, because no key is known before the end of one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{AcquireError, Notify, Semaphore, SemaphorePermit};
use tokio::task::yield_now;

/// The turns of one thread.
#[derive(Debug)]
pub struct GuestTurns {
    /// One permit, which a step spends; waiting guests have it in the order in which they came.
    permit: Semaphore,
    spent: Notify,
}

impl Default for GuestTurns {
    fn default() -> GuestTurns {
        GuestTurns {
            permit: Semaphore::new(1),
            spent: Notify::new(),
        }
    }
}

impl GuestTurns {
    /// Allows one step after the other, for as long as it is polled on the thread. Without it
    /// guests have one step in all.
    pub async fn give(&self) {
        loop {
            self.spent.notified().await;
            // The runtime goes on with this only after it has looked for what has come in.
            yield_now().await;
            self.permit.add_permits(1);
        }
    }

    fn spend(&self, permit: SemaphorePermit<'_>) {
        permit.forget();
        self.spent.notify_one();
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<SemaphorePermit<'a>, AcquireError>> + 'a>>;

/// Work in steps that wait for their turns.
pub struct InTurns<'a, W> {
    /// `None` for a caller with a key, who waits for none.
    turns: Option<&'a GuestTurns>,
    work: Pin<&'a mut W>,
    /// While its turn has not come.
    waiting: Option<Waiting<'a>>,
}

impl<'a, W> InTurns<'a, W> {
    /// `work` of a guest, or of a caller with a key, who needs no turns.
    pub fn of(turns: Option<&'a GuestTurns>, work: Pin<&'a mut W>) -> InTurns<'a, W> {
        InTurns {
            turns,
            work,
            waiting: None,
        }
    }

    /// Ready when the next step may be taken.
    fn poll_turn(&mut self, turns: &'a GuestTurns, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none()
            && let Ok(permit) = turns.permit.try_acquire()
        {
            turns.spend(permit);
            return Poll::Ready(());
        }
        let wait = || Box::pin(turns.permit.acquire()) as Waiting<'_>;
        let waiting = self.waiting.get_or_insert_with(wait);
        let permit = ready!(waiting.as_mut().poll(context));
        turns.spend(permit.expect("nothing closes it"));
        self.waiting = None;
        Poll::Ready(())
    }
}

impl<W: Future> Future for InTurns<'_, W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        if let Some(turns) = self.turns {
            ready!(self.poll_turn(turns, context));
        }
        self.work.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::rc::Rc;

    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::{JoinHandle, spawn_local};

    use super::*;

    /// Takes `steps` steps one after the other, none of which has anything to wait for.
    fn work(
        name: &'static str,
        steps: usize,
        turns: Option<Rc<GuestTurns>>,
        seen: &Seen,
    ) -> JoinHandle<()> {
        let seen = seen.clone();
        spawn_local(async move {
            let steps = pin!(async {
                for _ in 0..steps {
                    seen.borrow_mut().push(name);
                    yield_now().await;
                }
            });
            InTurns::of(turns.as_deref(), steps).await;
        })
    }

    type Seen = Rc<RefCell<Vec<&'static str>>>;

    /// Runs this with turns that are given, and a place for the names of who takes a step.
    fn run(work: impl AsyncFnOnce(Rc<GuestTurns>, Seen)) {
        let runtime = Builder::new_current_thread();
        let runtime = { runtime }.build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let turns = Rc::<GuestTurns>::default();
            let given = turns.clone();
            spawn_local(async move { given.give().await });
            work(turns, Rc::default()).await;
        });
    }

    #[test]
    fn guests_take_one_step_while_a_key_takes_one() {
        run(async |turns, seen| {
            let guests = (0..20).map(|_| work("guest", 5, Some(turns.clone()), &seen));
            let guests: Vec<_> = guests.collect();
            let key = work("key", 10, None, &seen);
            key.await.unwrap();
            let before = seen.borrow().iter().filter(|who| **who == "guest").count();
            assert!(before <= 12, "{before} steps of guests before ten of a key");
            for guest in guests {
                guest.await.unwrap();
            }
            assert_eq!(seen.borrow().len(), 20 * 5 + 10);
        });
    }

    #[test]
    fn a_guest_who_goes_while_it_waits_leaves_its_turn_to_the_next() {
        run(async |turns, seen| {
            let guests = (0..9).map(|_| work("guest", 3, Some(turns.clone()), &seen));
            let guests: Vec<_> = guests.collect();
            yield_now().await;
            for gone in guests.iter().step_by(2) {
                gone.abort();
            }
            for stays in guests.into_iter().skip(1).step_by(2) {
                stays.await.unwrap();
            }
            assert!(seen.borrow().len() >= 4 * 3);
        });
    }
}
