//! Slow queries in the log.

use engine::SlowQuery;

/// A line for one slow query. No value of it stands there: what users look for is not the log's
/// business.
pub fn tell_slow(slow: &SlowQuery) {
    tracing::warn!(
        target: "slow",
        project = slow.project.as_str(),
        database = slow.database.as_str(),
        table = slow.table.as_str(),
        query = slow.shape,
        limit = slow.limit,
        offset = slow.offset,
        ms = slow.took.as_millis() as u64,
        rows = slow.rows,
        scanned = slow.scanned,
        plan = slow.plan.join("; "),
        index = slow.index,
        error = slow.error,
        unreported = (slow.unreported > 0).then_some(slow.unreported),
        "a slow query"
    );
}
