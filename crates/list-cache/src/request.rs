//! What callers ask the cache for, what they are answered, and what they hand in when it was read.

use std::sync::Arc;

use model::{Mark, Value};
use query::Query;

use crate::entry::{Freshness, Rows};
use crate::key::{Contract, Family};

/// A list that a caller requests. The query must be one that [`ListCache::keeps`] allows.
#[derive(Clone, Copy, Debug)]
pub struct ListRequest<'a> {
    /// What to list.
    pub query: &'a Query,
    /// For which route family the rows are encoded.
    pub family: Family,
    /// Whether the total is wanted.
    pub total: bool,
    /// How old the answer may be.
    pub contract: Contract,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The rows.
    pub rows: Rows,
    /// The total, if it was wanted: matches, up to the cap.
    pub total: Option<u64>,
    /// Whether it was cached: within a `ttl` the rows, else all of it.
    pub is_hit: bool,
    /// Within a `ttl`: whether a commit since may have altered it. `Some(false)` is proof that
    /// none has.
    pub is_stale: Option<bool>,
    /// Whether it is still so.
    pub freshness: Freshness,
}

/// What was read, on one snapshot.
#[derive(Clone, Debug)]
pub struct Read {
    /// The rows, if they were asked for.
    pub rows: Option<ReadRows>,
    /// The total, if it was asked for.
    pub total: Option<u64>,
    /// The mark that stood in the snapshot.
    pub mark: Mark,
    /// When the read began, in milliseconds of the clock that [`ListFetch::step`] is given.
    pub read_ms: u64,
}

/// Rows that were read.
#[derive(Clone, Debug)]
pub struct ReadRows {
    /// As in [`Rows::body`].
    pub body: Arc<[u8]>,
    /// As in [`Rows::tag`].
    pub tag: u128,
    /// Of a page that has as many rows as its limit: what the row read last has in each key of
    /// [`Query::read_order`]. `None` of any other page.
    pub last_place: Option<Vec<Value>>,
    /// Within a `ttl`: the `$sequence` of each row.
    pub shown: Vec<i64>,
}

/// What of an answer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// These parts are not cached.
    Lacking { rows: bool, total: bool },
    /// All of it, but rows and total may never have been true together.
    OfTwoInstants,
    /// All of it.
    Whole,
}
