//! One run that several callers wait for.

use std::task::{Poll, Waker};

#[cfg(all(loom, test))]
use loom::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(all(loom, test)))]
use std::sync::{Mutex, MutexGuard};

/// One run and those who wait for it. The leader calls [`Flight::complete`] or [`Flight::abandon`]
/// once; the others poll.
pub struct Flight<T> {
    // An ordinary mutex: nothing waits while holding it.
    state: Mutex<FlightState<T>>,
}

enum FlightState<T> {
    Running(Vec<Waker>),
    Complete(T),
    Abandoned,
}

impl<T: Clone> Default for Flight<T> {
    fn default() -> Self {
        Flight {
            state: Mutex::new(FlightState::Running(Vec::new())),
        }
    }
}

impl<T: Clone> Flight<T> {
    /// Hands the result to all who wait, and to later callers.
    pub fn complete(&self, value: T) {
        self.end(FlightState::Complete(value));
    }

    /// Ends the run without a result: the others must run for themselves. Has no effect after
    /// [`Flight::complete`], so a leader may call it whenever it leaves.
    pub fn abandon(&self) {
        if matches!(*self.lock(), FlightState::Running(_)) {
            self.end(FlightState::Abandoned);
        }
    }

    /// The result, `None` if the run was abandoned; or `Pending`, and `waker` is called at the end.
    pub fn poll(&self, waker: &Waker) -> Poll<Option<T>> {
        match &mut *self.lock() {
            FlightState::Running(wakers) => {
                if !wakers.iter().any(|known| known.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
                Poll::Pending
            }
            FlightState::Complete(value) => Poll::Ready(Some(value.clone())),
            FlightState::Abandoned => Poll::Ready(None),
        }
    }

    fn end(&self, end: FlightState<T>) {
        let before = std::mem::replace(&mut *self.lock(), end);
        if let FlightState::Running(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, FlightState<T>> {
        // A panic elsewhere leaves the state whole: each change of it is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn rings(bell: &Bell) -> usize {
        bell.0.load(Ordering::Relaxed)
    }

    #[test]
    fn waiters_are_woken_once_and_late_callers_get_the_result_at_once() {
        let (flight, bell) = (Flight::default(), Arc::new(Bell::default()));
        let waker = Waker::from(bell.clone());
        assert_eq!(flight.poll(&waker), Poll::Pending);
        assert_eq!(
            flight.poll(&waker),
            Poll::Pending,
            "asking twice is one place in the queue"
        );
        flight.complete(7);
        assert_eq!(rings(&bell), 1);
        assert_eq!(flight.poll(&waker), Poll::Ready(Some(7)));
    }

    #[test]
    fn abandoned_run_wakes_and_gives_nothing_but_not_after_its_end() {
        let (flight, bell) = (Flight::<u8>::default(), Arc::new(Bell::default()));
        let waker = Waker::from(bell.clone());
        assert_eq!(flight.poll(&waker), Poll::Pending);
        flight.abandon();
        assert_eq!((rings(&bell), flight.poll(&waker)), (1, Poll::Ready(None)));

        let landed = Flight::default();
        landed.complete(1);
        landed.abandon();
        assert_eq!(landed.poll(&waker), Poll::Ready(Some(1)));
    }
}
