//! Why a store call failed.

use std::fmt;
use std::path::{Path, PathBuf};

use model::{HistoryGone, Mark, RowId};

use crate::{DatabaseFinding, StorePlace};

const TOO_COMPLEX: &str =
    "The queries make a statement that is too complex for the database; ask less at once";

/// What a sort may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortRoom {
    /// Memory of this process.
    Memory {
        /// The limit.
        bytes_max: usize,
    },
    /// Files of the database.
    Files {
        /// The limit, if the database has said it.
        kib_max: Option<u64>,
    },
}

/// Why a store call failed. Code decides by variant; a person reads the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The snapshot was written under another catalogue. Resolve the query again, then run it.
    CatalogueMoved,
    /// The cursor's row does not exist, or the query may not see it.
    CursorNotFound {
        /// The row asked for.
        id: RowId,
    },
    /// The cursor's row has no value in a column that the order uses.
    CursorNull {
        /// The row asked for.
        id: RowId,
    },
    /// See [`HistoryGone`].
    HistoryGone(HistoryGone),
    /// The read was stopped after `limit_ms` milliseconds.
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The rows take more bytes than the caller allowed.
    AnswerTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// Too many long reads wait for their turn.
    ReadersBusy {
        /// How many may wait.
        waiting_max: usize,
    },
    /// A regular expression would take too much work on a text that it meets.
    PatternTooHard,
    /// The statement for a query would be longer than this.
    QueryTooLong {
        /// Most bytes of its SQL.
        bytes_max: usize,
    },
    /// What must be sorted for the order takes more room than one read may have.
    SortTooLarge(SortRoom),
    /// The statement for a query is too complex for the database.
    QueryTooComplex,
    /// What a row holds in all its columns takes more than the database has room for in one.
    RowTooLarge {
        /// What the database said.
        detail: String,
    },
    /// Rows have equal values in a unique index that is not available yet: while the database
    /// builds it, it keeps values apart already.
    NotUnique {
        /// The index's key.
        index: String,
    },
    /// The disk, or the database's own bound, is full.
    Full,
    /// Memory ran out.
    Memory,
    /// The statement was stopped from outside.
    Interrupted,
    /// The database cannot be reached, or has ended the connection.
    Unreachable {
        /// What came in place of an answer.
        detail: String,
    },
    /// Reading or writing failed.
    Io {
        /// What the database or the system said.
        detail: String,
    },
    /// A commit failed, and so did taking it back: whether it is there after the next start is not
    /// known. It is there whole or not at all. Until that start the store writes no more.
    OutcomeUnknown {
        /// What the database or the system said.
        detail: String,
    },
    /// A fault of the program stopped the call. Nothing of it stays.
    Panicked {
        /// What it said.
        detail: String,
    },
    /// The store writes no more, after [`StoreError::OutcomeUnknown`].
    Stopped,
    /// Another process holds the store.
    Locked {
        /// Where it is.
        place: StorePlace,
        /// Who that is, as far as the place says it.
        holder: Option<String>,
    },
    /// No store can be in the database.
    DatabaseUnfit(DatabaseFinding),
    /// The store of the data directory is in a database, next to which it keeps keys alone.
    StoredElsewhere {
        /// The directory.
        directory: PathBuf,
        /// The database, in words.
        place: String,
        /// Whether the directory still has its own database from before it was moved there.
        was_moved: bool,
    },
    /// The data directory has a store of its own, and was to be that of another one in a database.
    StoredHere {
        /// The directory.
        directory: PathBuf,
    },
    /// No store can be there, or this cannot be done with one that is.
    PlaceUnfit {
        /// Where.
        place: StorePlace,
    },
    /// The data directory held a database, and holds none now, or an empty file.
    DatabaseMissing {
        /// The directory.
        directory: PathBuf,
    },
    /// An import of a history into the data directory did not end.
    ImportUnfinished {
        /// What it has left.
        directory: PathBuf,
    },
    /// A store was to be moved into the data directory, and that has not ended.
    MoveUnfinished {
        /// What it has left.
        directory: PathBuf,
    },
    /// A store is to be moved into a data directory that holds one.
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// The database ends before a commit that was made durable in it.
    CommitsLost {
        /// Where it ends.
        found: Mark,
        /// The mark of that commit.
        kept: Mark,
    },
    /// The store was written by a format this binary does not know.
    Format {
        /// The format found.
        found: i64,
        /// The newest format this binary knows.
        newest: i64,
    },
    /// The store was written by an older format, and this does not bring it to today's.
    OlderFormat {
        /// The format found.
        found: i64,
        /// The format this binary writes.
        newest: i64,
    },
    /// The database was written with a key, and the file that held it is absent.
    KeyMissing {
        /// The file.
        file: PathBuf,
    },
    /// The file holds another key than the one the database was written with, or none.
    KeyWrong {
        /// The file.
        file: PathBuf,
    },
    /// Something encrypted is not what was stored in its place.
    SealBroken {
        /// What it is.
        what: String,
        /// Of which row, if it is a value of one.
        row: Option<RowId>,
    },
    /// Stored bytes break a law of ours. Stop writing and report it.
    Corrupt {
        /// Which law.
        detail: String,
    },
}

impl StoreError {
    /// True when the same request may succeed if the caller starts it afresh.
    pub fn is_retryable(&self) -> bool {
        match self {
            StoreError::CatalogueMoved
            | StoreError::Timeout { .. }
            | StoreError::ReadersBusy { .. }
            | StoreError::Memory
            | StoreError::Interrupted
            | StoreError::Unreachable { .. } => true,
            StoreError::CursorNotFound { .. }
            | StoreError::CursorNull { .. }
            | StoreError::HistoryGone(_)
            | StoreError::PatternTooHard
            | StoreError::AnswerTooLarge { .. }
            | StoreError::QueryTooLong { .. }
            | StoreError::QueryTooComplex
            | StoreError::SortTooLarge(_)
            | StoreError::RowTooLarge { .. }
            | StoreError::NotUnique { .. }
            | StoreError::Full
            | StoreError::Io { .. }
            | StoreError::OutcomeUnknown { .. }
            | StoreError::Panicked { .. }
            | StoreError::Stopped
            | StoreError::Locked { .. }
            | StoreError::PlaceUnfit { .. }
            | StoreError::DatabaseUnfit(_)
            | StoreError::StoredElsewhere { .. }
            | StoreError::StoredHere { .. }
            | StoreError::DatabaseMissing { .. }
            | StoreError::ImportUnfinished { .. }
            | StoreError::MoveUnfinished { .. }
            | StoreError::NotEmpty { .. }
            | StoreError::CommitsLost { .. }
            | StoreError::Format { .. }
            | StoreError::OlderFormat { .. }
            | StoreError::KeyMissing { .. }
            | StoreError::KeyWrong { .. }
            | StoreError::SealBroken { .. }
            | StoreError::Corrupt { .. } => false,
        }
    }
}

/// Stored bytes break the law that `detail` names.
pub(crate) fn corrupt(detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        detail: detail.into(),
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::CatalogueMoved => f.write_str("The schema changed meanwhile."),
            StoreError::CursorNotFound { id } => write!(f, "No row `{id}` to start from."),
            StoreError::HistoryGone(gone) => gone.fmt(f),
            StoreError::CursorNull { id } => write!(
                f,
                "Row `{id}` has no value in a column that the order uses."
            ),
            StoreError::Timeout { limit_ms } => {
                write!(f, "The query was stopped after {limit_ms} ms.")
            }
            StoreError::AnswerTooLarge { bytes_max } => write!(
                f,
                "The answer would have more than {bytes_max} bytes. Ask for fewer rows with \
                 `limit` and go on with `cursorAfter`, or for fewer columns with `select`."
            ),
            StoreError::ReadersBusy { waiting_max } => write_busy(f, *waiting_max),
            StoreError::PatternTooHard => f.write_str(
                "A regular expression would take too much work on one of the texts it is matched \
                 against",
            ),
            StoreError::QueryTooLong { bytes_max } => write!(
                f,
                "The queries make a statement of more than {bytes_max} bytes; ask less at once",
            ),
            StoreError::QueryTooComplex => f.write_str(TOO_COMPLEX),
            StoreError::SortTooLarge(room) => write_sort(f, *room),
            StoreError::RowTooLarge { detail } => write_wide(f, detail),
            StoreError::NotUnique { index } => {
                write!(f, "Rows have equal values in the unique index `{index}`.")
            }
            StoreError::Full => f.write_str("The disk is full."),
            StoreError::Memory => f.write_str("Memory ran out."),
            StoreError::Interrupted => f.write_str("The statement was interrupted."),
            StoreError::Unreachable { detail } => write!(f, "No database to reach: {detail}."),
            StoreError::Io { detail } => write!(f, "Reading or writing failed: {detail}."),
            StoreError::OutcomeUnknown { detail } => write!(
                f,
                "Whether this write is stored is not known: it could neither be made durable nor \
                 be taken back. {detail}"
            ),
            StoreError::Panicked { detail } => write!(f, "A fault of the program: {detail}"),
            StoreError::Stopped => {
                f.write_str("Nothing is written until a restart, after a write of unknown outcome.")
            }
            StoreError::Locked { place, holder } => write_locked(f, place, holder.as_deref()),
            StoreError::DatabaseUnfit(_)
            | StoreError::PlaceUnfit { .. }
            | StoreError::StoredElsewhere { .. }
            | StoreError::StoredHere { .. }
            | StoreError::DatabaseMissing { .. }
            | StoreError::ImportUnfinished { .. }
            | StoreError::MoveUnfinished { .. }
            | StoreError::NotEmpty { .. } => self.write_place(f),
            StoreError::CommitsLost { found, kept } => write_lost(f, *found, *kept),
            StoreError::Format { found, newest } => write_newer(f, *found, *newest),
            StoreError::OlderFormat { found, newest } => write_older(f, *found, *newest),
            StoreError::KeyMissing { file } => write_keyless(f, file),
            StoreError::KeyWrong { file } => write!(
                f,
                "The file {} does not hold the key that the data was encrypted with. Put it back.",
                file.display()
            ),
            StoreError::SealBroken { what, .. } => write_broken(f, what),
            StoreError::Corrupt { detail } => write!(f, "Stored data is damaged: {detail}."),
        }
    }
}

impl StoreError {
    /// What is wrong with the place of a store.
    fn write_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::DatabaseUnfit(finding) => {
                let advice = finding.advice.as_deref().unwrap_or_default();
                write!(f, "{} {advice}.", finding.found)
            }
            StoreError::PlaceUnfit { place } => write!(
                f,
                "This needs a directory of this machine; a store cannot be in {place}."
            ),
            StoreError::StoredElsewhere {
                directory,
                place,
                was_moved: true,
            } => write_moved(f, directory, place),
            StoreError::StoredElsewhere {
                directory, place, ..
            } => write_elsewhere(f, directory, place),
            StoreError::StoredHere { directory } => write_here(f, directory),
            StoreError::DatabaseMissing { directory } => write_missing(f, directory),
            StoreError::ImportUnfinished { directory } => write_unfinished(f, directory),
            StoreError::MoveUnfinished { directory } => write_unmoved(f, directory),
            StoreError::NotEmpty { directory } => write_full(f, directory),
            _ => f.write_str("The place of the store is unfit."),
        }
    }
}

fn write_locked(
    f: &mut fmt::Formatter<'_>,
    place: &StorePlace,
    holder: Option<&str>,
) -> fmt::Result {
    write!(f, "Another process holds the {place}")?;
    if let Some(holder) = holder {
        write!(f, ": {holder}")?;
    }
    write!(f, ". Stop it, or give {}.", place.option())
}

fn write_busy(f: &mut fmt::Formatter<'_>, waiting_max: usize) -> fmt::Result {
    write!(
        f,
        "Too many long queries: {waiting_max} may wait. Try again later, or make an index for \
         what the query filters and orders by."
    )
}

fn write_sort(f: &mut fmt::Formatter<'_>, room: SortRoom) -> fmt::Result {
    f.write_str("No index gives this order, and sorting up to `limit` and `offset` takes more ")?;
    match room {
        SortRoom::Memory { bytes_max } => write!(f, "than {bytes_max} bytes of memory.")?,
        SortRoom::Files { kib_max } => {
            f.write_str("temporary files than the `temp_file_limit` of the database allows")?;
            if let Some(kib_max) = kib_max {
                write!(f, ", which is {kib_max} kB")?;
            }
            f.write_str(".")?;
        }
    }
    f.write_str(
        " Make an index over the attributes of the order, ask for fewer rows, or go on with \
         `cursorAfter` in place of `offset`.",
    )
}

fn write_wide(f: &mut fmt::Formatter<'_>, detail: &str) -> fmt::Result {
    write!(
        f,
        "A row has more in its columns than the database has room for in one: {detail}. Long texts \
         and lists count little there, so take fewer columns."
    )
}

fn write_newer(f: &mut fmt::Formatter<'_>, found: i64, newest: i64) -> fmt::Result {
    write!(
        f,
        "The store has format {found}; this binary knows formats up to {newest}. Use a newer \
         Tidemark."
    )
}

fn write_older(f: &mut fmt::Formatter<'_>, found: i64, newest: i64) -> fmt::Result {
    write!(
        f,
        "The store has format {found}, and this binary writes {newest}. Start it there once."
    )
}

fn write_keyless(f: &mut fmt::Formatter<'_>, file: &Path) -> fmt::Result {
    write!(
        f,
        "The data was encrypted with a key, and its file {} is not there. Put it back; without it \
         encrypted columns cannot be read.",
        file.display()
    )
}

fn write_elsewhere(f: &mut fmt::Formatter<'_>, directory: &Path, place: &str) -> fmt::Result {
    write!(
        f,
        "The store of the data directory {} is in the {place}. Start its server with that \
         --database, or give another directory with --data. Where the store has moved, first \
         remove the file tidemark.database there.",
        directory.display()
    )
}

/// Without the file that says so, the old store could be opened again.
fn write_moved(f: &mut fmt::Formatter<'_>, directory: &Path, place: &str) -> fmt::Result {
    write!(
        f,
        "The store of the data directory {} was moved: it is in the {place}. Start its server with \
         that --database, or give another directory with --data. To name the same database by \
         another URL, or to start a new store here, first move tidemark.db* and tidemark.marks \
         away, which are of the old store, and then remove the file tidemark.database.",
        directory.display()
    )
}

fn write_here(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(
        f,
        "The data directory {} has a store of its own. Give another one with --data for what is \
         kept next to a database.",
        directory.display()
    )
}

fn write_missing(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(
        f,
        "The data directory {} held a database, and tidemark.db is missing or empty now. \
         Put it and tidemark.db-wal back, or restore a copy of the whole directory. To \
         begin with an empty one, start once with --accept-loss.",
        directory.display()
    )
}

fn write_unfinished(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(
        f,
        "An import of a history did not end here, and nothing of it is stored. Run it again. To \
         begin with an empty store, remove {}.",
        directory.display()
    )
}

fn write_broken(f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
    write!(
        f,
        "What is encrypted of {what} is damaged, or was not stored there."
    )
}

fn write_unmoved(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(
        f,
        "A store was to be moved here, and that has not ended: {} is what there is of it. Run the \
         same `tidemark move` again. The place it comes from serves on until it says that it was \
         moved.",
        directory.display()
    )
}

fn write_full(f: &mut fmt::Formatter<'_>, directory: &Path) -> fmt::Result {
    write!(
        f,
        "The data directory {} holds a store with data. Give another one with --to, or take \
         tidemark.db, tidemark.db-wal and tidemark.marks out of this one.",
        directory.display()
    )
}

fn write_lost(f: &mut fmt::Formatter<'_>, found: Mark, kept: Mark) -> fmt::Result {
    write!(
        f,
        "Commits are missing: the database ends at mark {}, and its last one was at mark \
         {}. Its log, tidemark.db-wal, was cut, altered or removed, or an older database \
         was put in its place. Nothing was changed: put the files back, or restore a copy \
         of the whole directory. To go on without those commits, start once with \
         --accept-loss.",
        found.0, kept.0
    )
}

impl std::error::Error for StoreError {}
