//! What the laws of writing read of rows, and do to them: each call is one statement of a database
//! that does everything at once.

use model::history::{Ending, VersionNumber};
use model::{Image, Mark, Period, RowId, Table, TableNumber, Timestamp, Value};

use super::damaged::Damaged;
use super::halt::Step;
use super::versions::{PIECES_MET_MAX, Stored, VersionsWanted};
use crate::StoreError;
use crate::refusal::Refusal;

/// What is read of a row that nothing is held of.
pub(crate) trait SingleRows {
    /// Versions of a row, by their beginnings; see [`VersionsWanted`].
    ///
    /// # Errors
    /// [`Refusal::PiecesTooLarge`] when they take too much memory together.
    fn versions(&self, table: &Table, id: &str, which: VersionsWanted) -> Step<Vec<Stored>>;

    /// Hands over the open grants in the order in which they were given: the role, and the bits of
    /// its actions.
    fn open_grants(
        &self,
        table: &Table,
        seq: i64,
        each: &mut dyn FnMut(&str, i64),
    ) -> Result<(), StoreError>;

    /// When the first row of the table begins or ends by itself.
    fn next_boundary(&self, table: TableNumber) -> Result<Option<Timestamp>, StoreError>;
}

/// What is stored of rows.
pub(crate) trait StoredRows: SingleRows {
    /// The row of now.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn current(&self, table: &Table, id: &str) -> Result<Option<CurrentRow>, StoreError>;

    /// Which version the row of now shows.
    fn shown(&self, table: &Table, id: &str) -> Result<Option<ShownVersion>, StoreError>;

    /// What is known of an id.
    fn identity(&self, table: &Table, id: &str) -> Result<RowIdentity, StoreError>;

    /// The `$sequence` of a row that has a version without a twin.
    fn known_seq(&self, table: &Table, id: &str) -> Result<Option<i64>, StoreError>;

    /// Whether the row begins or ends by itself.
    fn is_scheduled(&self, table: &Table, id: &str) -> Result<bool, StoreError>;
}

/// What is changed of rows that were written before, one by one.
pub(crate) trait RowAmends {
    /// Ends a version at the mark; how many bytes it counted if it was removed, else 0. `None`
    /// where it is not there to be ended so.
    fn end(
        &self,
        table: &Table,
        version: VersionNumber,
        mark: Mark,
        ending: VersionEnding,
    ) -> Result<Option<i64>, StoreError>;

    /// Gives the row of now values that it was shown without, by the positions of their columns.
    /// Whether no unique index was against it.
    fn fill(&self, table: &Table, seq: i64, values: &[(usize, Value)]) -> Result<bool, StoreError>;

    /// Changes what stands beside the values.
    fn change(&self, table: &Table, change: RowChange<'_>) -> Result<(), StoreError>;

    /// Erases what is kept of a row that is not shown: versions, schedule, the grants of its
    /// `$sequence`, its place in the records of commits, and answers that may show it. Open
    /// transactions with an operation on it fail. The number and the bytes of each version.
    fn erase(
        &self,
        table: &Table,
        row: (&RowId, Option<i64>),
        mark: Mark,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError>;
}

/// What is written of rows.
pub(crate) trait RowLedger: StoredRows + RowAmends {
    /// Writes a version.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    fn append(
        &self,
        table: &Table,
        id: &str,
        version: &VersionToAppend<'_>,
    ) -> Result<AppendedVersion, StoreError>;

    /// Writes the row of now. Whether no unique index was against it.
    fn show(&self, table: &Table, id: &str, row: &RowToShow<'_>) -> Result<bool, StoreError>;
}

/// The versions of a row that are known now and valid somewhere from `low` to before `high`, all of
/// them; perhaps the one before them, too.
///
/// # Errors
/// [`Refusal::TooManyPieces`] when there are more than one operation may meet.
pub(crate) fn known_within(
    rows: &impl StoredRows,
    table: &Table,
    id: &str,
    (low, high): (Timestamp, Timestamp),
) -> Step<Vec<Stored>> {
    let pieces_max = PIECES_MET_MAX;
    let known = VersionsWanted::Known {
        low,
        high,
        count_max: pieces_max + 1,
    };
    let found = rows.versions(table, id, known)?;
    if found.len() > pieces_max {
        return Err(Refusal::TooManyPieces { pieces_max }.into());
    }
    Ok(found)
}

/// A row of now as it is stored.
pub(crate) struct CurrentRow {
    pub(crate) seq: i64,
    /// The version it shows.
    pub(crate) version: VersionNumber,
    /// Without the values that cannot be opened, which are null.
    pub(crate) image: Image,
    pub(crate) damaged: Damaged,
}

/// The version that a row of now shows.
pub(crate) struct ShownVersion {
    pub(crate) number: VersionNumber,
    pub(crate) valid: Period,
    pub(crate) sys_from: Mark,
    /// As the row shows it: a change of permissions moves that of the row alone.
    pub(crate) updated: Timestamp,
    /// Whether the row is an exact copy of it.
    pub(crate) is_twin: bool,
}

/// What is known of an id.
pub(crate) struct RowIdentity {
    /// Whether its row is there now.
    pub(crate) is_there: bool,
    /// The `$sequence` it has, if it has a version without a twin.
    pub(crate) known: Option<i64>,
    /// The highest `$sequence` of the table; 0 if it has none.
    pub(crate) highest: i64,
}

/// A version to be written.
pub(crate) struct VersionToAppend<'a> {
    pub(crate) seq: i64,
    pub(crate) valid: Period,
    pub(crate) mark: Mark,
    pub(crate) origin: Mark,
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    pub(crate) values: &'a [Value],
    /// What stays as it is sealed.
    pub(crate) left: &'a Damaged,
    /// Whether the row of now will be an exact copy of it. Such a version is valid and known from
    /// its mark on, until further notice.
    pub(crate) is_twin: bool,
}

/// A version that was written.
pub(crate) struct AppendedVersion {
    pub(crate) number: VersionNumber,
    /// Of its values.
    pub(crate) bytes: usize,
}

/// How a version ends.
#[derive(Clone, Copy)]
pub(crate) enum VersionEnding {
    /// The everyday one, valid until further notice: it ends at the mark.
    Now,
    /// The everyday one that was written at the mark: it never was.
    Never,
    /// One without a twin, as the model says.
    Planned(Ending),
}

/// A row of now to be written.
#[derive(Clone, Copy)]
pub(crate) struct RowToShow<'a> {
    pub(crate) seq: i64,
    pub(crate) version: VersionNumber,
    pub(crate) image: &'a Image,
    /// In place of those of the image: without what another row has in a unique index.
    pub(crate) values: &'a [Value],
    /// The values that stand there so far, where all of them are known: a database need not write
    /// again what stays.
    pub(crate) stored: Option<&'a [Value]>,
    /// What stays as it is sealed.
    pub(crate) left: &'a Damaged,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) how: NowWrite,
}

/// How a row of now is written.
#[derive(Clone, Copy)]
pub(crate) enum NowWrite {
    /// It was not there, and is the twin of its version.
    New,
    /// It was there, and is the twin of its version.
    Again,
    /// It was not there, and is no twin.
    Derived {
        /// Since when its content is known.
        origin: Mark,
    },
}

/// A change of what stands beside the values of a row.
#[derive(Clone, Copy)]
pub(crate) enum RowChange<'a> {
    /// The row of now shows these permissions, and is no twin from then on.
    Permissions {
        seq: i64,
        permissions: &'a str,
        updated: Timestamp,
    },
    /// The version has no twin any more.
    PartVersion(VersionNumber),
    /// The row of now is no twin any more.
    PartRow(&'a str),
    /// The row is shown no more.
    Withdraw { seq: i64 },
    /// A role may do this from the mark on.
    Grant {
        seq: i64,
        role: &'a str,
        actions: i64,
        mark: Mark,
    },
    /// To the grants of a row, at the mark.
    Grants {
        seq: i64,
        mark: Mark,
        change: GrantsChange,
    },
    /// The row begins or ends by itself next at this instant; `None` if it never does.
    Schedule { id: &'a str, at: Option<Timestamp> },
}

/// What becomes of all grants of a row.
#[derive(Clone, Copy)]
pub(crate) enum GrantsChange {
    /// The open ones end.
    Close,
    /// Those that were given at the mark never were.
    Drop,
    /// Those that ended at the mark did not end.
    Reopen,
    /// The row is created again: those before judge what was known of it before.
    EndLife,
    /// It is not.
    ResumeLife,
}
