//! Which lists are asked for, how often and how long they take; and who is notified of slow ones.
//!
//! Lists that differ in values only are counted together. The table of counts has a fixed size:
//! a shape that is new drives out the one that was asked for least, so that a caller that asks in
//! ever new ways takes no memory and those asked for often stay.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use model::{DatabaseId, Direction, ProjectId, Table, TableId, TableNumber};
use query::{Query, advise, shape, shape_number};
use store::{Listed, Listing, Snapshot, StoreError};

use crate::Engine;

/// Most shapes that are counted, of all tables together; some 200 bytes each, and no more than some
/// 700. A busy application has some hundred.
const SHAPES_MAX: usize = 512;
/// After so many shapes were driven out, those that stayed count half: what was asked for often
/// long ago gives way in the end.
const AGE_EVERY: u32 = 4_096;
/// Most slow queries that are reported within a second; more are only counted. Explaining one costs
/// some 50 µs, and a log of a thousand such lines says no more than one of ten.
const TOLD_PER_S_MAX: u64 = 10;

/// Hears of each slow query, on the thread that read it.
pub type TellSlow = fn(&SlowQuery);

/// A list that took longer to read than the threshold.
#[derive(Clone, Debug)]
pub struct SlowQuery {
    /// The project.
    pub project: ProjectId,
    /// The database.
    pub database: DatabaseId,
    /// The table.
    pub table: TableId,
    /// What was asked, without values.
    pub shape: String,
    /// Most rows of the page.
    pub limit: u32,
    /// Rows left out at its front.
    pub offset: u64,
    /// From asking the store to its answer, waiting for a thread included.
    pub took: Duration,
    /// Rows of the page; `None` where the read failed or did not want them.
    pub rows: Option<usize>,
    /// Rows that whole tables were read through for, where the store has counted any: for the page
    /// and for its total, so a row may count twice.
    pub scanned: Option<u64>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// How the rows are found, a step each.
    pub plan: Vec<String>,
    /// The columns of an index that would lead to these rows, such as `genre, year DESC`.
    pub index: Option<String>,
    /// Slow queries before this one that were not reported, since the last one that was.
    pub unreported: u64,
}

/// What became of the lists of one shape since it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeCounts {
    /// The project.
    pub project: ProjectId,
    /// The database.
    pub database: DatabaseId,
    /// The table.
    pub table: TableId,
    /// What was asked, without values.
    pub shape: String,
    /// How often it was answered from the cache. Threads that answer such lists at once report
    /// them twice a second.
    pub hits: u64,
    /// How often it was read from the store.
    pub reads: u64,
    /// How long that took together, in nanoseconds.
    pub read_ns: u64,
    /// The longest read, in nanoseconds.
    pub slowest_ns: u64,
}

/// The counts of one shape.
#[derive(Debug)]
pub(crate) struct ObservedShape {
    project: ProjectId,
    database: DatabaseId,
    table: TableId,
    text: String,
    hits: AtomicU64,
    reads: AtomicU64,
    read_ns: AtomicU64,
    slowest_ns: AtomicU64,
    /// How much it is worth to keep; falls with time.
    weight: AtomicU64,
}

/// What one engine has observed.
#[derive(Default)]
pub(crate) struct Observed {
    shapes: Mutex<Shapes>,
    slow: OnceLock<Slow>,
    slow_count: AtomicU64,
}

#[derive(Default)]
struct Shapes {
    known: HashMap<(TableNumber, u64), Arc<ObservedShape>>,
    driven_out: u32,
}

/// Who is notified of slow queries, and of which.
struct Slow {
    threshold: Duration,
    tell: TellSlow,
    began: Instant,
    reported: Mutex<ReportRate>,
}

#[derive(Default)]
struct ReportRate {
    second: u64,
    count: u64,
    unreported: u64,
}

impl Engine {
    /// From now on tells of each read of a list that takes `threshold` or longer. Asked for again,
    /// nothing changes.
    pub fn tell_slow(&self, threshold: Duration, tell: TellSlow) {
        let slow = Slow {
            threshold,
            tell,
            began: Instant::now(),
            reported: Mutex::default(),
        };
        // A second one is not wanted.
        let _ = self.observed.slow.set(slow);
    }

    /// How many slow queries there were since the start, reported or not.
    pub fn slow_queries(&self) -> u64 {
        self.observed.slow_count.load(Ordering::Relaxed)
    }

    /// What is asked, at most so many shapes as are counted, in no order.
    pub fn list_shapes(&self) -> Vec<ShapeCounts> {
        let shapes = self.observed.lock();
        shapes.known.values().map(|shape| shape.read()).collect()
    }

    /// The counts of what `query` has in common with its like.
    pub(crate) fn shape_of(&self, query: &Query) -> Arc<ObservedShape> {
        self.observed.lock().of(query)
    }

    /// Reads a list from the store, and takes note of how long that took.
    pub(crate) async fn read_list(
        &self,
        listing: Listing<'_>,
    ) -> Result<Snapshot<Listed>, StoreError> {
        let began = Instant::now();
        let read = self.shared.store.list(listing).await;
        self.observe(listing.query, began, read.as_ref()).await;
        read
    }

    /// A list was read from the store, or could not be.
    async fn observe(
        &self,
        query: &Query,
        began: Instant,
        read: Result<&Snapshot<Listed>, &StoreError>,
    ) {
        let took = began.elapsed();
        self.shape_of(query).read_in(took);
        let Some(slow) = self.observed.slow.get() else {
            return;
        };
        if took < slow.threshold || matches!(read, Err(StoreError::CatalogueMoved)) {
            return;
        }
        self.observed.slow_count.fetch_add(1, Ordering::Relaxed);
        let Some(unreported) = slow.may_tell() else {
            return;
        };
        let plan = self.shared.store.explain(query).await;
        let read_rows = read.ok().map(|snapshot| &snapshot.answer);
        (slow.tell)(&SlowQuery {
            project: query.table.project.clone(),
            database: query.table.database.clone(),
            table: query.table.id.clone(),
            shape: shape(query),
            limit: query.limit,
            offset: query.offset,
            took,
            rows: read_rows.map(|listed| listed.rows.len()),
            scanned: read_rows
                .map(|listed| listed.scanned)
                .filter(|rows| *rows > 0),
            error: read.err().map(ToString::to_string),
            // That it cannot be explained now is no news beside that it is slow.
            plan: plan.unwrap_or_default(),
            index: advise(query).map(|columns| index_text(&query.table, &columns)),
            unreported,
        });
    }
}

/// Columns as people write them; ascending goes without saying.
pub(crate) fn index_text(table: &Table, columns: &[(model::Field, Direction)]) -> String {
    let column = |(field, direction): &(model::Field, Direction)| {
        let name = query::shape::name(table, *field);
        match direction {
            Direction::Asc => name.to_owned(),
            Direction::Desc => format!("{name} DESC"),
        }
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

impl Observed {
    fn lock(&self) -> MutexGuard<'_, Shapes> {
        // Whole after a panic: each step on it is one call.
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shapes {
    fn of(&mut self, query: &Query) -> Arc<ObservedShape> {
        let key = (query.table.number, shape_number(query));
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= SHAPES_MAX {
            self.drive_one_out();
        }
        let shape = Arc::new(ObservedShape::new(query));
        self.known.insert(key, shape.clone());
        shape
    }

    fn drive_one_out(&mut self) {
        let weight = |shape: &ObservedShape| shape.weight.load(Ordering::Relaxed);
        let least = self.known.iter().min_by_key(|(_, shape)| weight(shape));
        if let Some(key) = least.map(|(key, _)| *key) {
            self.known.remove(&key);
        }
        self.driven_out += 1;
        if self.driven_out >= AGE_EVERY {
            self.driven_out = 0;
            for shape in self.known.values() {
                let weight = weight(shape);
                shape.weight.store(weight / 2, Ordering::Relaxed);
            }
        }
    }
}

impl ObservedShape {
    fn new(query: &Query) -> ObservedShape {
        let table = &query.table;
        ObservedShape {
            project: table.project.clone(),
            database: table.database.clone(),
            table: table.id.clone(),
            text: shape(query),
            hits: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            read_ns: AtomicU64::new(0),
            slowest_ns: AtomicU64::new(0),
            weight: AtomicU64::new(0),
        }
    }

    /// Counts answers from the cache.
    pub(crate) fn hit(&self, count: u64) {
        self.hits.fetch_add(count, Ordering::Relaxed);
        self.weight.fetch_add(count, Ordering::Relaxed);
    }

    fn read_in(&self, took: Duration) {
        let took_ns = took.as_nanos() as u64;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.slowest_ns.fetch_max(took_ns, Ordering::Relaxed);
        self.weight.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> ShapeCounts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        ShapeCounts {
            project: self.project.clone(),
            database: self.database.clone(),
            table: self.table.clone(),
            shape: self.text.clone(),
            hits: count(&self.hits),
            reads: count(&self.reads),
            read_ns: count(&self.read_ns),
            slowest_ns: count(&self.slowest_ns),
        }
    }
}

impl Slow {
    /// How many were not reported before, if one more may be reported now.
    fn may_tell(&self) -> Option<u64> {
        let second = self.began.elapsed().as_secs();
        let mut rate = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        rate.next(second)
    }
}

impl ReportRate {
    fn next(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.count) = (second, 0);
        }
        if self.count >= TOLD_PER_S_MAX {
            self.unreported += 1;
            return None;
        }
        self.count += 1;
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_are_reported_a_second_and_the_rest_is_counted() {
        let mut rate = ReportRate::default();
        let of_first = (0..15).filter_map(|_| rate.next(7)).count();
        assert_eq!(of_first, 10);
        assert_eq!(rate.next(8), Some(5), "the next second begins at none");
        assert_eq!(rate.next(8), Some(0));
    }
}
