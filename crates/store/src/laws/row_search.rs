//! What the laws of writing look for among the rows of a table.

use std::time::Duration;

use model::{ColumnNumber, Index, Mark, Period, RowId, Table, Timestamp, Value};
use query::Query;

use crate::StoreError;

/// Searches among rows, each along an index.
pub(crate) trait RowSearch {
    /// Rows of now that have these values in the columns of an index, in its order, but the one
    /// of this `$sequence`.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn value_holders(
        &self,
        table: &Table,
        index: &Index,
        values: &[Value],
        which: HoldersWanted,
    ) -> Result<Vec<ValueHolder>, StoreError>;

    /// Whether another row than the one of this `$sequence` has the link in a column whose links
    /// have a table of their own.
    fn is_link_held(
        &self,
        table: &Table,
        column: ColumnNumber,
        link: &Value,
        seq: i64,
    ) -> Result<bool, StoreError>;

    /// Rows that begin or end by themselves at the instant, or before it.
    fn due_rows(
        &self,
        table: &Table,
        instant: Timestamp,
        which: DueWanted<'_>,
    ) -> Result<Vec<DueRow>, StoreError>;

    /// The last mark of something, if it ever was.
    fn last_mark(&self, table: &Table, of: MarkOf<'_>) -> Result<Option<Mark>, StoreError>;

    /// Whether anything of a row was changed after the first mark and before the second: a version
    /// without a twin, or a grant. The row is named by its id and its `$sequence`.
    fn has_changed(
        &self,
        table: &Table,
        row: (&str, i64),
        between: (Mark, Mark),
    ) -> Result<bool, StoreError>;

    /// Rows that hold a link to the row `id` in the column at this position.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the search takes longer than it may.
    fn link_holders(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        which: LinkHolders,
    ) -> Result<Vec<RowId>, StoreError>;

    /// `$sequence` and id of each row that matches, in the order asked for; `walks` if it is that
    /// of the `$sequence`.
    ///
    /// # Errors
    /// [`StoreError::Timeout`] when the search takes longer than it may;
    /// [`StoreError::CursorNotFound`] and [`StoreError::CursorNull`].
    fn matching(
        &self,
        query: &Query,
        walks: bool,
        time_max: Duration,
    ) -> Result<Vec<(i64, RowId)>, StoreError>;

    /// The greatest `$sequence` of a row of now; 0 if there is none.
    fn last_shown(&self, table: &Table) -> Result<i64, StoreError>;
}

/// Looks ahead for links.
pub(crate) trait LinksAhead {
    /// [`LinkHolders::Now`] will be wanted of each of these rows, at most `each_max` holders of
    /// one, and, where a mark is given, [`LinkHolders::ToCome`] after it: a working set looks for
    /// all of them by one statement each.
    ///
    /// # Errors
    /// What the database says.
    fn expect_links(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        wanted: (usize, Option<Mark>),
    ) -> Result<(), StoreError>;
}

/// Which holders of values are looked for.
#[derive(Clone, Copy)]
pub(crate) enum HoldersWanted {
    /// One other than this row.
    Any { but: i64 },
    /// All others that begin or end by themselves by then.
    DueBy { instant: Timestamp, but: i64 },
}

/// A row of now with values that another one is to have.
pub(crate) struct ValueHolder {
    pub(crate) id: RowId,
    pub(crate) seq: i64,
    pub(crate) valid: Period,
}

/// Which rows that hold a link are looked for.
#[derive(Clone, Copy)]
pub(crate) enum LinkHolders {
    /// At most so many rows of now.
    Now { count_max: usize },
    /// At most so many rows of which a piece begins after the mark and holds the link, in a table
    /// in which something is scheduled.
    ToCome { after: Mark, count_max: usize },
    /// At most so many rows of which a piece within the period, as known now, holds the link. Of
    /// lists of links only those of now have an index, so the search has a limit.
    Within {
        valid: Period,
        count_max: usize,
        time_max: Duration,
    },
}

/// Which rows that are due are looked for.
#[derive(Clone, Copy)]
pub(crate) enum DueWanted<'a> {
    /// This one.
    Row(&'a str),
    /// So many, those that wait longest first.
    First(usize),
}

/// A row that is due.
pub(crate) struct DueRow {
    pub(crate) id: RowId,
    /// `None` where it has no version, as no row that waits should.
    pub(crate) seq: Option<i64>,
}

/// Of what the last mark is wanted.
#[derive(Clone, Copy)]
pub(crate) enum MarkOf<'a> {
    /// Of the versions of a row without a twin.
    Versions(&'a str),
    /// Of the grants of the row of this `$sequence`.
    Grants(i64),
    /// When the row of this `$sequence` was created again.
    Rebirth(i64),
}
