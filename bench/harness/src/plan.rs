//! How long everything is measured.

/// The length of each measurement. Chosen so that a median of the rounds says more than noise.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of each figure: subject, floor, subject again.
    pub rounds: u32,
    /// A slice of wrk, in seconds; wrk takes whole ones.
    pub wrk_s: u64,
    /// A slice of one connection, in milliseconds.
    pub sequential_ms: u64,
    /// A slice of lists inside this process, in milliseconds.
    pub list_ms: u64,
    /// A slice of inserts, by wrk or by the bare loop, in seconds.
    pub insert_s: u64,
    /// Starts of each kind.
    pub starts: usize,
    /// Syncs timed in each round of inserts.
    pub syncs: usize,
}

impl Plan {
    /// For results that are kept: about ten minutes.
    pub const FULL: Plan = Plan {
        rounds: 7,
        wrk_s: 5,
        sequential_ms: 1_000,
        list_ms: 400,
        insert_s: 4,
        starts: 9,
        syncs: 200,
    };

    /// For trying it: under 90 seconds.
    pub const QUICK: Plan = Plan {
        rounds: 5,
        wrk_s: 1,
        sequential_ms: 100,
        list_ms: 30,
        insert_s: 1,
        starts: 5,
        syncs: 40,
    };
}
