//! What is counted of a history, and why one cannot be exported or imported.

use std::fmt;
use std::path::PathBuf;

use model::Mark;
use serde_json::{Map, Value as Json};

use crate::StoreError;

/// The members of an entry.
pub type HistoryMembers = Map<String, Json>;

/// What was exported or imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryCount {
    /// The mark of the last commit.
    pub mark: Mark,
    /// Tables that are there at that mark.
    pub tables: u64,
    /// Versions of their rows.
    pub versions: u64,
    /// Records of commits.
    pub commits: u64,
}

impl HistoryCount {
    pub(super) const NONE: HistoryCount = HistoryCount {
        mark: Mark::ZERO,
        tables: 0,
        versions: 0,
        commits: 0,
    };
}

/// Why a history cannot be exported or imported.
#[derive(Debug)]
pub enum HistoryFault {
    /// An entry cannot be taken in.
    Entry {
        /// The member that is wrong; empty where it is the entry as a whole.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// The entries do not make a store.
    Unfit(String),
    /// The directory holds a store in which something was committed.
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// Its last mark.
        mark: Mark,
    },
    /// The directory holds a key that is none of this import.
    KeyThere(PathBuf),
    /// The store was written by an older format.
    OlderFormat,
    /// The store is at fault.
    Store(StoreError),
    /// The entry could not be written.
    Output(std::io::Error),
}

impl HistoryFault {
    pub(super) fn entry(field: &str, why: impl Into<String>) -> HistoryFault {
        HistoryFault::Entry {
            field: field.to_owned(),
            why: why.into(),
        }
    }
}

impl fmt::Display for HistoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HistoryFault::Entry { field, why } if field.is_empty() => f.write_str(why),
            HistoryFault::Entry { field, why } => write!(f, "`{field}` {why}"),
            HistoryFault::Unfit(why) => f.write_str(why),
            HistoryFault::NotEmpty { directory, mark } => write!(
                f,
                "A history is imported into an empty store only. {} holds commits, the last one at \
                 mark {}. Name a new directory with --data.",
                directory.display(),
                mark.0
            ),
            HistoryFault::KeyThere(file) => write!(
                f,
                "{} is the key of another store. An import makes a key of its own: name a new \
                 directory with --data.",
                file.display()
            ),
            HistoryFault::OlderFormat => f.write_str(
                "The store has an older format. Start a server on it once: it brings the format \
                 up.",
            ),
            HistoryFault::Store(error) => error.fmt(f),
            HistoryFault::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HistoryFault {}

impl From<StoreError> for HistoryFault {
    fn from(error: StoreError) -> HistoryFault {
        HistoryFault::Store(error)
    }
}

impl From<rusqlite::Error> for HistoryFault {
    fn from(error: rusqlite::Error) -> HistoryFault {
        HistoryFault::Store(error.into())
    }
}
