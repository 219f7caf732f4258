//! Failures that pass: load, a restart, a clock to be set.

use thiserror::Error;

/// Why the engine takes no more work at present. The same request may succeed later.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Unavailable {
    /// Too many writes are waiting.
    #[error("Too many writes are waiting. Try again later.")]
    Overloaded,
    /// Too many dry runs of transactions are waiting.
    #[error(
        "Too many requests inside transactions are waiting: at most {waiting_max} may. Try again \
         later."
    )]
    DryRunsBusy {
        /// How many may wait.
        waiting_max: usize,
    },
    /// A change of tables that others use without a pause.
    #[error(
        "Nothing was changed: others use the table, and did not stop for long. Try again later."
    )]
    TablesBusy,
    /// The server is shutting down.
    #[error("The server is shutting down.")]
    Closing,
    /// Nothing is written until a restart; see [`crate::Engine::stop_reason`].
    #[error(
        "Nothing was changed: this server writes no more, after a fault, and ends. Try again when \
         it has been restarted."
    )]
    Stopped,
    /// The outcome of an earlier commit has not been known for long.
    #[error(
        "Nothing was changed: the database has not said yet what became of an earlier write. Try \
         again later."
    )]
    AwaitsCommit,
    /// The clock is so far ahead of the last commit that a wrong year must be feared.
    #[error("Writes are stopped: the clock is {ahead_s} s ahead of the last commit.")]
    ClockImplausible {
        /// How far it is ahead, in seconds.
        ahead_s: u64,
    },
}
