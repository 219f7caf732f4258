//! A writer that stands still when a test wants it to, and requests that wait for it.

use std::pin::Pin;
use std::sync::{Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// Holds the writer in its tracks, so that requests gather behind it.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Default, PartialEq)]
enum GateState {
    #[default]
    Open,
    Closed,
    Reached,
}

impl Gate {
    pub fn close(&self) {
        *self.state.lock().unwrap() = GateState::Closed;
    }

    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if *state == GateState::Closed {
            *state = GateState::Reached;
            self.moved.notify_all();
        }
        let closed = |state: &mut GateState| *state == GateState::Reached;
        drop(self.moved.wait_while(state, closed).unwrap());
    }

    pub fn wait_until_reached(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.moved
                .wait_while(state, |state| *state == GateState::Closed)
                .unwrap(),
        );
    }

    pub fn open(&self) {
        *self.state.lock().unwrap() = GateState::Open;
        self.moved.notify_all();
    }
}

pub type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A future of the engine takes its place in the queue when it is first polled.
pub fn poll_once<T>(asked: &mut Asked<'_, T>) -> Poll<T> {
    asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

pub fn enqueue<T>(mut asked: Asked<'_, T>) -> Asked<'_, T> {
    assert!(poll_once(&mut asked).is_pending());
    asked
}
