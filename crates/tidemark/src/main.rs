//! The `tidemark` binary: gives the command line the real clock and the real chance.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::Clock;
use model::Timestamp;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(
    unsafe_code,
    reason = "functions of the allocator, which its crate does not show"
)]
mod allocator {
    use std::ffi::{c_int, c_long};

    /// The option `mi_option_purge_delay` of mimalloc 3 (`enum mi_option_e` of its header): so many
    /// milliseconds after memory was freed it goes back to the system.
    pub(super) const PURGE_DELAY: c_int = 15;

    unsafe extern "C" {
        /// The value of an option.
        #[cfg(test)]
        pub(super) safe fn mi_option_get(option: c_int) -> c_long;
        /// Sets an option.
        pub(super) safe fn mi_option_set(option: c_int, value: c_long);

        /// Frees what this thread keeps for itself, and gives memory that was not used for a
        /// second back to the system; with `force`, all that is unused (mimalloc's manual,
        /// `mi_collect`).
        pub(super) safe fn mi_collect(force: bool);
    }
}

/// Memory that was freed is kept for so long, for the next allocation. At the allocator's own
/// second, guests who ask for large answers one after the other held 720 to 740 MiB in place of
/// 590, and 10 ms gained no more than this.
const PURGE_DELAY_MS: std::ffi::c_long = 100;

/// Memory that was freed goes back to the system only when more is asked for, or this: a
/// server that has nothing to do would keep whatever its worst second took.
fn collect(is_quiet: bool) {
    allocator::mi_collect(is_quiet);
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970; the engine refuses times that cannot be.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(since.as_micros() as i64)
    }

    fn elapsed_ms(&self) -> u64 {
        // Boot time, because it goes on while the machine sleeps: what was cached before a
        // night must not look a minute old.
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        since_boot.tv_sec as u64 * 1_000 + since_boot.tv_nsec as u64 / 1_000_000
    }

    fn is_machines(&self) -> bool {
        true
    }
}

fn rng(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("a system without a source of chance cannot run a server");
}

fn main() -> ExitCode {
    allocator::mi_option_set(allocator::PURGE_DELAY, PURGE_DELAY_MS);
    tidemark::cli::main(Arc::new(SystemClock), rng, collect)
}

#[cfg(test)]
mod tests {
    use super::allocator;

    #[test]
    fn purge_delay_is_the_option_with_the_default_of_mimalloc_3() {
        assert_eq!(allocator::mi_option_get(allocator::PURGE_DELAY), 1_000);
    }
}
