//! What groups of batches take, for those who watch the server.

use crate::laws::working_set::HeldSize;
use crate::tally::{Distribution, Histogram};

/// A group takes two at least.
const ROUND_TRIPS: &[u64] = &[2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128, 256];
const ROWS: &[u64] = &[1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536];
/// From a KiB to 64 MiB.
const BYTES: &[u64] = &[
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
];

/// What a group has taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupEffort {
    /// How often its session had waited for the server before it.
    pub(super) trips_before: u64,
    /// What it holds in memory at its end.
    pub(super) held: HeldSize,
}

/// What the groups took that were committed. The one writer counts.
pub(super) struct GroupTally {
    round_trips: Histogram,
    rows: Histogram,
    bytes: Histogram,
}

impl Default for GroupTally {
    fn default() -> GroupTally {
        GroupTally {
            round_trips: Histogram::new(ROUND_TRIPS),
            rows: Histogram::new(ROWS),
            bytes: Histogram::new(BYTES),
        }
    }
}

impl GroupTally {
    /// Takes in a group whose session has waited so often since its start.
    pub(super) fn take_in(&self, effort: GroupEffort, trips: u64) {
        let GroupEffort { trips_before, held } = effort;
        self.round_trips.record(trips.saturating_sub(trips_before));
        self.rows.record(held.rows as u64);
        self.bytes.record(held.bytes as u64);
    }

    /// Round trips, rows and bytes.
    pub(super) fn read(&self) -> [Distribution; 3] {
        [&self.round_trips, &self.rows, &self.bytes].map(Histogram::read)
    }
}
