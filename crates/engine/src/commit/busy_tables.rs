//! Changes of tables that others use. Each try holds up all that write for a while, so it is made
//! seldom, and not for ever.

use std::time::{Duration, Instant};

use super::write_queue::Until;

/// From one try to the next. Each may hold up the writer for a tenth of that.
const PAUSE: Duration = Duration::from_secs(1);
/// So long a caller waits, as long as a read may take that is in its way.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a write that was not run is to run.
pub(super) enum Again {
    InNextGroup,
    After(Until),
}

/// When a change is tried again that was put aside first at this instant; `None` where its caller
/// has waited long enough.
pub(super) fn next_try(since: Instant, now: Instant) -> Option<Instant> {
    (now.saturating_duration_since(since) < PATIENCE).then(|| now + PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_tried_each_second_until_its_caller_has_waited_for_ten() {
        let since = Instant::now();
        let mut now = since;
        let mut tries = 1;
        while let Some(next) = next_try(since, now) {
            assert!(next > now);
            now = next;
            tries += 1;
        }
        assert_eq!(tries, 11);
    }
}
