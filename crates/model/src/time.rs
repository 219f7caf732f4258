//! Instants, marks, and the coordinates a read looks through.

/// Microseconds since 1970-01-01T00:00:00Z, in UTC.
///
/// Microseconds, because PostgreSQL's `timestamptz` keeps no more (PostgreSQL manual,
/// "Date/Time Types"), and a value must come back from both databases bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The beginning of time: valid from here means "always was".
    pub const BOT: Timestamp = Timestamp(i64::MIN);
    /// The end of time, after every instant: valid to here means "until further notice".
    pub const END: Timestamp = Timestamp(i64::MAX);

    /// This instant cut to whole milliseconds, the precision of the wire protocol.
    #[must_use]
    pub fn cut_to_ms(self) -> Timestamp {
        Timestamp(self.0.div_euclid(1_000) * 1_000)
    }
}

/// The system time of a commit, in microseconds since 1970 UTC: strictly rising, never set by
/// a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub i64);

impl Mark {
    /// Below every commit: the mark of an empty store.
    pub const ZERO: Mark = Mark(0);

    /// The lowest mark above this one.
    #[must_use]
    pub fn next(self) -> Mark {
        Mark(self.0 + 1)
    }

    /// The same instant, on the axis of valid time or of `$updatedAt`.
    pub fn timestamp(self) -> Timestamp {
        Timestamp(self.0)
    }
}

/// The point on both axes that a read looks through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// What is true at this instant …
    pub valid: Timestamp,
    /// … as known at this mark.
    pub system: Mark,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_before_1970_are_cut_downwards() {
        assert_eq!(Timestamp(-1).cut_to_ms(), Timestamp(-1_000));
        assert_eq!(Timestamp(1_999).cut_to_ms(), Timestamp(1_000));
    }
}
