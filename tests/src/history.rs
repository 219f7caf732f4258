//! What was written and read, by whom and when; and whether an order of events explains it.
//!
//! Each row has one writer, and a writer sends its next write when the last one is answered. So
//! how far each writer was at an instant says what every row was at that instant, and a read is
//! explained by how far the writers were when it was answered: no less far than the caller
//! could know, and no further than they had gone. A read as of a mark is explained by the writes up
//! to that mark, whenever it is sent, and is the same each time. A list within a `ttl` may be as old
//! as that, but shows no row that its caller has lost since it was true.
//!
//! Changes of all rows that match know no writers. They are judged by marks: such a change takes what
//! was created at lower marks and what no other took before it, and counts that (`bulk`).

mod bulk;
mod judge;
mod model;

pub use bulk::{Change, Mistaken, Taking, judge_changes};
pub use judge::{Fault, Judged, Why, judge};
pub use model::{Filter, Name, Order, Question, Row, Rows, Shown};

/// Nanoseconds since a common beginning.
pub type Instant = u64;

/// One write, which the server acknowledged; or the instant at which rows that it scheduled begin
/// or end, which is one of its own.
#[derive(Clone, Debug)]
pub struct Write {
    /// Just before it was sent.
    pub sent: Instant,
    /// Just after its answer came.
    pub answered: Instant,
    /// From which mark on its rows are shown to a caller that asks as of a mark, if that is known.
    pub mark: Option<i64>,
    /// Its writer's rows after it.
    pub after: Rows,
    /// The slot whose row it erased, with whatever that was before.
    pub erased: Option<usize>,
}

/// One read that was answered.
#[derive(Clone, Debug)]
pub struct Read {
    /// Just before it was sent.
    pub sent: Instant,
    /// Just after its answer came.
    pub answered: Instant,
    /// Place in the list of questions.
    pub question: usize,
    /// Whether the caller sees every row.
    pub sees_all: bool,
    /// Whether the caller has no key, and sees what the table and its rows grant to all.
    pub is_guest: bool,
    /// As of which mark, if not as of now.
    pub as_of: Option<i64>,
    /// How old it may be, in nanoseconds, if it need not be exact.
    pub within: Option<u64>,
    /// What came.
    pub shown: Shown,
    /// Whether the answer says that rows of the table were erased since its mark.
    pub says_erased: bool,
}

/// Everything that happened to one table, which was empty before.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The writes of each writer, in order.
    pub writers: Vec<Vec<Write>>,
    /// The reads, in whatever order.
    pub reads: Vec<Read>,
    /// When the table granted guests nothing: from the answer to the change that took the grant
    /// away to just before the change that gave it back was sent.
    pub barred: Vec<(Instant, Instant)>,
}
