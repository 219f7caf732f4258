//! State that several callers share.
//!
//! Where the interpreter has its lock, a thread that touches such state holds it, and a cell is
//! enough. A free-threaded interpreter has none: there each guard is a mutex, held for tens of
//! nanoseconds and never across a call of the interpreter but the counting of a reference, and
//! each counter is atomic.

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::{Cell, RefCell as Lock, RefMut as Guard};
#[cfg(Py_GIL_DISABLED)]
use std::sync::{
    Mutex as Lock, MutexGuard as Guard, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

#[cfg(not(Py_GIL_DISABLED))]
type Number64 = Cell<u64>;
#[cfg(Py_GIL_DISABLED)]
type Number64 = AtomicU64;
#[cfg(not(Py_GIL_DISABLED))]
type Number32 = Cell<u32>;
#[cfg(Py_GIL_DISABLED)]
type Number32 = AtomicU32;

/// State behind a guard.
#[derive(Default)]
pub struct Guarded<T>(Lock<T>);

// Touched only by threads that hold the interpreter's lock, and never across a call that gives it
// up; where there is no such lock, a mutex is one already.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T> Sync for Guarded<T> {}
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T> Send for Guarded<T> {}

impl<T> Guarded<T> {
    /// Guards `state`.
    pub const fn new(state: T) -> Guarded<T> {
        Guarded(Lock::new(state))
    }

    /// The state, for as long as the answer is held.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        #[cfg(not(Py_GIL_DISABLED))]
        return self.0.borrow_mut();
        #[cfg(Py_GIL_DISABLED)]
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that several callers read and write.
#[derive(Default)]
pub struct SharedCount(Number64);

#[cfg(not(Py_GIL_DISABLED))]
unsafe impl Sync for SharedCount {}

impl SharedCount {
    /// Begins at `number`.
    pub const fn new(number: u64) -> SharedCount {
        SharedCount(Number64::new(number))
    }

    /// The number.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        #[cfg(not(Py_GIL_DISABLED))]
        return self.0.get();
        #[cfg(Py_GIL_DISABLED)]
        self.0.load(Ordering::SeqCst)
    }

    /// Sets the number.
    #[inline(always)]
    pub fn set(&self, number: u64) {
        #[cfg(not(Py_GIL_DISABLED))]
        self.0.set(number);
        #[cfg(Py_GIL_DISABLED)]
        self.0.store(number, Ordering::SeqCst);
    }

    /// Adds one.
    #[inline(always)]
    pub fn raise(&self) {
        #[cfg(not(Py_GIL_DISABLED))]
        self.0.set(self.0.get() + 1);
        #[cfg(Py_GIL_DISABLED)]
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Adds what `after` is more than `before`, or takes away what it is less.
    pub fn move_by(&self, before: u64, after: u64) {
        loop {
            let all = self.get();
            if self.exchange(all, all + after - before) {
                return;
            }
        }
    }

    /// Sets it if it is `from`; whether it was.
    pub fn exchange(&self, from: u64, to: u64) -> bool {
        #[cfg(not(Py_GIL_DISABLED))]
        {
            let is_from = self.0.get() == from;
            if is_from {
                self.0.set(to);
            }
            is_from
        }
        #[cfg(Py_GIL_DISABLED)]
        {
            let (order, other) = (Ordering::SeqCst, Ordering::SeqCst);
            self.0.compare_exchange(from, to, order, other).is_ok()
        }
    }
}

/// How many hold a thing.
pub struct Holders(Number32);

impl Holders {
    /// One holder.
    pub fn one() -> Holders {
        Holders(Number32::new(1))
    }

    /// One more.
    #[inline(always)]
    pub fn add(&self) {
        #[cfg(not(Py_GIL_DISABLED))]
        let before = self.0.replace(self.0.get().wrapping_add(1));
        #[cfg(Py_GIL_DISABLED)]
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "holders are counted in 32 bits");
    }

    /// One less; whether it was the last.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        #[cfg(not(Py_GIL_DISABLED))]
        return self.0.replace(self.0.get() - 1) == 1;
        #[cfg(Py_GIL_DISABLED)]
        {
            let is_last = self.0.fetch_sub(1, Ordering::Release) == 1;
            if is_last {
                // A load, not a fence: ThreadSanitizer knows no fences.
                self.0.load(Ordering::Acquire);
            }
            is_last
        }
    }
}
