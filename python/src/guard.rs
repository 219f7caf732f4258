//! State that several callers share.
//!
//! Where the interpreter has its lock, whoever touches such state holds it, and a cell is enough.
//! A free-threaded interpreter has none: there each guard is a mutex, held for tens of
//! nanoseconds and never across a call of the interpreter but the counting of a reference, and
//! each counter is atomic.

#[cfg(not(Py_GIL_DISABLED))]
mod under_the_lock {
    use std::cell::{Cell, RefCell, RefMut};

    /// State behind a guard.
    #[derive(Default)]
    pub struct Guarded<T>(RefCell<T>);

    // Touched only by threads that hold the interpreter's lock, never across a call that gives
    // it up.
    unsafe impl<T> Sync for Guarded<T> {}
    unsafe impl<T> Send for Guarded<T> {}

    impl<T> Guarded<T> {
        pub const fn new(state: T) -> Guarded<T> {
            Guarded(RefCell::new(state))
        }

        #[inline(always)]
        pub fn lock(&self) -> RefMut<'_, T> {
            self.0.borrow_mut()
        }
    }

    /// A number.
    #[derive(Default)]
    pub struct Count(Cell<u64>);

    unsafe impl Sync for Count {}

    impl Count {
        pub const fn new(number: u64) -> Count {
            Count(Cell::new(number))
        }

        #[inline(always)]
        pub fn get(&self) -> u64 {
            self.0.get()
        }

        #[inline(always)]
        pub fn set(&self, number: u64) {
            self.0.set(number);
        }

        #[inline(always)]
        pub fn raise(&self) {
            self.0.set(self.0.get() + 1);
        }

        /// Sets it if it is `from`; whether it was.
        pub fn exchange(&self, from: u64, to: u64) -> bool {
            let is_from = self.0.get() == from;
            if is_from {
                self.0.set(to);
            }
            is_from
        }
    }

    /// How many hold a thing.
    pub struct Holders(Cell<u32>);

    impl Holders {
        pub fn one() -> Holders {
            Holders(Cell::new(1))
        }

        #[inline(always)]
        pub fn add(&self) {
            let holders = self.0.get();
            assert!(holders < u32::MAX, "holders are counted in 32 bits");
            self.0.set(holders + 1);
        }

        /// Whether the last one has left.
        #[inline(always)]
        pub fn leave(&self) -> bool {
            self.0.set(self.0.get() - 1);
            self.0.get() == 0
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod free_threaded {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// State behind a guard.
    #[derive(Default)]
    pub struct Guarded<T>(Mutex<T>);

    impl<T> Guarded<T> {
        pub const fn new(state: T) -> Guarded<T> {
            Guarded(Mutex::new(state))
        }

        #[inline(always)]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// A number.
    #[derive(Default)]
    pub struct Count(AtomicU64);

    impl Count {
        pub const fn new(number: u64) -> Count {
            Count(AtomicU64::new(number))
        }

        #[inline(always)]
        pub fn get(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }

        #[inline(always)]
        pub fn set(&self, number: u64) {
            self.0.store(number, Ordering::SeqCst);
        }

        #[inline(always)]
        pub fn raise(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        /// Sets it if it is `from`; whether it was.
        pub fn exchange(&self, from: u64, to: u64) -> bool {
            let (order, other) = (Ordering::SeqCst, Ordering::SeqCst);
            self.0.compare_exchange(from, to, order, other).is_ok()
        }
    }

    /// How many hold a thing.
    pub struct Holders(AtomicU32);

    impl Holders {
        pub fn one() -> Holders {
            Holders(AtomicU32::new(1))
        }

        #[inline(always)]
        pub fn add(&self) {
            let holders = self.0.fetch_add(1, Ordering::Relaxed);
            assert!(holders < u32::MAX / 2, "holders are counted in 32 bits");
        }

        /// Whether the last one has left.
        #[inline(always)]
        pub fn leave(&self) -> bool {
            let is_last = self.0.fetch_sub(1, Ordering::Release) == 1;
            if is_last {
                fence(Ordering::Acquire);
            }
            is_last
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
pub use free_threaded::{Count, Guarded, Holders};
#[cfg(not(Py_GIL_DISABLED))]
pub use under_the_lock::{Count, Guarded, Holders};
