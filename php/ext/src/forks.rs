//! How often this process and those before it were forked.

use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Forks of this process and of those before it.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// To be called once, when the module is loaded.
#[unsafe(no_mangle)]
extern "C" fn tm_module_begin() {
    // SAFETY: the function only counts, which a child may do before anything else.
    unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
}
