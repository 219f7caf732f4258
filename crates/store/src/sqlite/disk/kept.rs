//! The mark of the last commit, kept beside the database in a file of its own.
//!
//! What a database has lost does not show in what is left of it: a log that was cut, or altered in
//! its middle, is whole up to there, and an absent database looks like one that is yet to be made.
//! So the last mark is written down after each commit that a power cut cannot take. That is not
//! synced, because it would cost as much as the commit: after a power cut it may say less than the
//! database holds, never more.
//!
//! Beside the mark stands when that commit was, by a clock that no one sets: as long as the machine
//! runs, a start knows how long there was no commit.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use model::Mark;
use rusqlite::Connection;

use super::file_format;
use crate::StoreError;

/// The file's name in the data directory.
pub(crate) const MARKS_FILE: &str = "tidemark.marks";
/// It has this length, less than a sector, so that it is written whole or not at all.
const LINE_BYTES: usize = 128;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    mark: Mark,
    /// Whose mark: that of another history says nothing of this one.
    lineage: String,
    /// The machine's start after which the commit was; `-` where there is no telling.
    boot: String,
    /// When the commit was, in milliseconds after that start.
    written_ms: u64,
}

impl Kept {
    /// What the file in `directory` says; `None` where it is absent, or cannot be understood.
    pub(crate) fn read(directory: &Path) -> Option<Kept> {
        let path = directory.join(MARKS_FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            read => read.unwrap_or_default(),
        };
        let kept = Kept::parse(&text);
        if kept.is_none() {
            let path = path.display();
            tracing::warn!(%path, "it says nothing of the last commit, so nothing can be missed");
        }
        kept
    }

    fn parse(text: &str) -> Option<Kept> {
        let mut words = text.split_ascii_whitespace();
        Some(Kept {
            mark: Mark(words.next()?.parse().ok()?),
            lineage: words.next()?.to_owned(),
            boot: words.next()?.to_owned(),
            written_ms: words.next()?.parse().ok()?,
        })
    }

    /// As it is written down, at the given mark.
    fn line(&self, mark: Mark) -> String {
        let (lineage, boot, written_ms) = (&self.lineage, &self.boot, self.written_ms);
        let line = format!("{} {lineage} {boot} {written_ms}", mark.0);
        format!("{line:<width$}\n", width = LINE_BYTES - 1)
    }

    /// # Errors
    /// [`StoreError::CommitsLost`] when the database ends below the mark.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        let (found, lineage) = if file_format::is_empty(connection)? {
            (Mark::ZERO, self.lineage.clone())
        } else {
            let sql = "SELECT mark, lineage FROM meta";
            connection.query_row(sql, (), |row| Ok((Mark(row.get(0)?), row.get(1)?)))?
        };
        if lineage == self.lineage && found < self.mark {
            return Err(StoreError::CommitsLost {
                found,
                kept: self.mark,
            });
        }
        Ok(())
    }

    /// How many milliseconds ago the commit of this mark was; `None` where it is another one that
    /// was written down, or the machine has started since.
    pub(crate) fn rest_ms(&self, mark: Mark) -> Option<u64> {
        let is_known = self.mark == mark && self.boot != "-" && self.boot == boot();
        is_known.then(|| since_boot_ms().checked_sub(self.written_ms))?
    }
}

/// The file, as it is written.
pub(crate) struct Keeping {
    /// `None` once it could not be written: then it says less than it might, and nothing wrong.
    file: Option<File>,
    /// The last commit.
    last: Kept,
    /// What the file says of it.
    written: Mark,
    boot: String,
    /// Whether a commit survives a power cut.
    is_durable: bool,
}

impl Keeping {
    /// Goes on from what was `kept` of the database, which is at this mark now.
    pub(crate) fn begin(
        directory: &Path,
        (mark, lineage): (Mark, &str),
        kept: Option<&Kept>,
        is_durable: bool,
    ) -> Keeping {
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(directory.join(MARKS_FILE));
        let kept = kept.filter(|kept| kept.lineage == lineage);
        // When another commit than the kept one was, there is no telling.
        let known = kept.filter(|kept| kept.mark == mark).cloned();
        let last = known.unwrap_or_else(|| Kept {
            mark,
            lineage: lineage.to_owned(),
            boot: "-".to_owned(),
            written_ms: 0,
        });
        let mut keeping = Keeping {
            file: file.map_err(|error| warn(&error)).ok(),
            last,
            written: kept.map_or(Mark::ZERO, |kept| kept.mark),
            boot: boot(),
            is_durable,
        };
        // A new file tells of a database even where it may not say of which mark.
        if kept.is_none() || (is_durable && keeping.written != mark) {
            keeping.write(if is_durable { mark } else { Mark::ZERO });
        }
        keeping
    }

    /// Called after each commit. One that forgets marks takes them from here, too.
    pub(crate) fn committed(&mut self, mark: Mark) {
        if mark == self.last.mark {
            return;
        }
        self.last.mark = mark;
        self.last.boot.clone_from(&self.boot);
        self.last.written_ms = since_boot_ms();
        if self.is_durable || mark < self.written {
            self.write(mark);
        }
    }

    /// Called once all is carried over and synced.
    pub(crate) fn carried_over(&mut self) {
        if self.written != self.last.mark {
            self.write(self.last.mark);
        }
    }

    fn write(&mut self, mark: Mark) {
        let Some(file) = &self.file else {
            return;
        };
        let line = self.last.line(mark);
        if let Err(error) = file.write_all_at(line.as_bytes(), 0) {
            warn(&error);
            self.file = None;
        }
        self.written = mark;
    }
}

fn warn(error: &io::Error) {
    tracing::warn!(%error, "{MARKS_FILE} cannot be written: losses may go unnoticed");
}

/// Which start of the machine this is, where the system says.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match id.trim() {
        "" => "-".to_owned(),
        id => id.to_owned(),
    }
}

fn since_boot_ms() -> u64 {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    since.tv_sec.unsigned_abs() * 1_000 + since.tv_nsec.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_and_half_a_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Kept::read(folder.path()), None);
        let lineage = "ab".repeat(16);
        let mut keeping = Keeping::begin(folder.path(), (Mark(7), &lineage), None, true);
        assert_eq!(Kept::read(folder.path()).unwrap().mark, Mark(7));
        keeping.committed(Mark(1_790_000_000_000_000));
        let kept = Kept::read(folder.path()).unwrap();
        assert_eq!(kept, keeping.last);
        assert_eq!(kept.mark, Mark(1_790_000_000_000_000));
        let written = fs::metadata(folder.path().join(MARKS_FILE)).unwrap();
        assert_eq!(written.len(), LINE_BYTES as u64, "an older line is covered");
        for damaged in ["", "17", "x y z 1", "1 a b"] {
            fs::write(folder.path().join(MARKS_FILE), damaged).unwrap();
            assert_eq!(Kept::read(folder.path()), None, "{damaged}");
        }
    }

    #[test]
    fn records_hold_no_mark_that_a_power_cut_may_undo() {
        let folder = tempfile::tempdir().unwrap();
        let kept = || Kept::read(folder.path());
        let mark = || kept().unwrap().mark;
        let begin = |at: i64, is_durable: bool| {
            let kept = kept();
            Keeping::begin(folder.path(), (Mark(at), "l"), kept.as_ref(), is_durable)
        };
        let mut keeping = begin(7, false);
        assert_eq!(mark(), Mark::ZERO);
        keeping.committed(Mark(8));
        assert_eq!(mark(), Mark::ZERO);
        keeping.carried_over();
        assert_eq!(mark(), Mark(8));
        assert!(kept().unwrap().rest_ms(Mark(8)).is_some());
        let mut keeping = begin(9, false);
        assert_eq!(mark(), Mark(8));
        keeping.carried_over();
        assert_eq!(mark(), Mark(9));
        keeping.committed(Mark(2));
        assert_eq!(mark(), Mark(2), "marks were forgotten on purpose");
    }

    #[test]
    fn when_a_commit_was_is_kept_over_starts_without_one_and_never_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |at: i64| {
            let kept = Kept::read(folder.path());
            let mut keeping = Keeping::begin(folder.path(), (Mark(at), "l"), kept.as_ref(), true);
            keeping.carried_over();
            keeping
        };
        let kept = || Kept::read(folder.path()).unwrap();
        // An earlier version committed it, at an unknown time.
        begin(7);
        assert_eq!(kept().rest_ms(Mark(7)), None);
        begin(7);
        assert_eq!(kept().rest_ms(Mark(7)), None);
        begin(7).committed(Mark(8));
        let committed = kept();
        assert!(committed.rest_ms(Mark(8)).is_some());
        begin(8);
        assert_eq!(kept(), committed);
        // One that another process made, and did not come to write down.
        begin(9);
        assert_eq!((kept().mark, kept().rest_ms(Mark(9))), (Mark(9), None));
    }

    #[test]
    fn a_rest_is_known_of_that_commit_and_that_start_of_the_machine() {
        let kept = Kept {
            mark: Mark(7),
            lineage: "l".to_owned(),
            boot: boot(),
            written_ms: 0,
        };
        assert!(kept.rest_ms(Mark(7)).is_some_and(|rest| rest > 0));
        assert_eq!(kept.rest_ms(Mark(8)), None);
        let other = |boot: &str| Kept {
            boot: boot.to_owned(),
            ..kept.clone()
        };
        assert_eq!(other("elsewhere").rest_ms(Mark(7)), None);
        assert_eq!(other("-").rest_ms(Mark(7)), None);
    }
}
