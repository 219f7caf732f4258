//! What is missing is noticed: commits, or the whole database. And what is there belongs to it.

mod suite;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Mark;
use store::{Durability, Options, Store, StoreError};
use suite::db::{Db, Place, encode_row, note};
use tempfile::TempDir;

const DATABASE: &str = "tidemark.db";
const LOG: &str = "tidemark.db-wal";
const MARKS: &str = "tidemark.marks";
/// Rows of [`served`], each a commit of its own.
const ROWS: usize = 20;

struct Directory(PathBuf, Durability);

impl Directory {
    fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        store::open(Options {
            place: self.0.clone().into(),
            durability: self.1,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
            vfs: None,
        })
    }
}

impl Place for Directory {
    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }
}

fn insert_rows(db: &mut Db) {
    for number in 0..ROWS {
        let id = format!("r{number}");
        let op = db.insert(&id, note(&id));
        db.ok(vec![op]);
    }
}

/// What a server leaves behind that ends without closing anything.
struct Left {
    folder: TempDir,
    mark: Mark,
    durability: Durability,
}

impl Left {
    fn by_a_killed_server(durability: Durability) -> Left {
        let served = tempfile::tempdir().unwrap();
        let mut db = Db::with_notes(&Directory(served.path().to_owned(), durability));
        insert_rows(&mut db);
        let folder = tempfile::tempdir().unwrap();
        for name in [DATABASE, LOG, MARKS] {
            fs::copy(served.path().join(name), folder.path().join(name)).unwrap();
        }
        Left {
            folder,
            mark: db.load().mark,
            durability,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn try_open(&self) -> Result<Mark, StoreError> {
        let place = Directory(self.folder.path().to_owned(), self.durability);
        // Dropped before the store is: what it reads by is the thread's.
        std::thread::spawn(move || {
            place.try_open().map(|store| {
                let loaded = futures_executor::block_on(store.load()).unwrap();
                futures_executor::block_on(store.close(loaded.horizon)).unwrap();
                loaded.mark
            })
        })
        .join()
        .unwrap()
    }

    /// Opening is refused, again and again, and changes nothing, until the loss is accepted.
    #[track_caller]
    fn misses_commits(&self) {
        let log = || fs::read(self.at(LOG)).unwrap_or_default();
        let before = log();
        for _ in 0..2 {
            let Err(StoreError::CommitsLost { found, kept }) = self.try_open() else {
                panic!("opened without its last commits");
            };
            assert!(found < kept && kept == self.mark, "{found:?} {kept:?}");
            assert_eq!(log(), before, "the log is as it was");
            let inspection = store::inspect(&self.folder.path().into()).unwrap().unwrap();
            let said = inspection.holds_all();
            assert_eq!(said, Err(StoreError::CommitsLost { found, kept }));
        }
        store::accept_loss(&self.folder.path().into()).unwrap();
        let found = self.try_open().unwrap();
        assert!(found < self.mark);
        assert_eq!(
            self.try_open().unwrap(),
            found,
            "from then on nothing is missed"
        );
    }
}

#[test]
fn a_killed_server_misses_nothing() {
    for durability in [Durability::Full, Durability::Normal] {
        let left = Left::by_a_killed_server(durability);
        assert_eq!(left.try_open().unwrap(), left.mark);
        assert_eq!(left.try_open().unwrap(), left.mark);
    }
}

#[test]
fn a_log_that_is_cut_is_noticed() {
    let left = Left::by_a_killed_server(Durability::Full);
    let log = fs::File::options().write(true).open(left.at(LOG)).unwrap();
    log.set_len(log.metadata().unwrap().len() / 2).unwrap();
    left.misses_commits();
}

#[test]
fn a_byte_of_the_log_that_is_another_is_noticed() {
    let left = Left::by_a_killed_server(Durability::Full);
    let mut log = fs::read(left.at(LOG)).unwrap();
    let middle = log.len() / 2;
    log[middle] ^= 1;
    fs::write(left.at(LOG), log).unwrap();
    left.misses_commits();
}

#[test]
fn a_log_that_is_gone_is_noticed() {
    let left = Left::by_a_killed_server(Durability::Full);
    fs::remove_file(left.at(LOG)).unwrap();
    left.misses_commits();
}

#[test]
fn the_marks_of_another_history_say_nothing_of_this_one() {
    let left = Left::by_a_killed_server(Durability::Full);
    let other = tempfile::tempdir().unwrap();
    let place = Directory(other.path().to_owned(), Durability::Full);
    let db = Db::with_notes(&place);
    let mark = db.load().mark;
    assert!(mark < left.mark);
    db.close();
    fs::copy(other.path().join(DATABASE), left.at(DATABASE)).unwrap();
    fs::remove_file(left.at(LOG)).unwrap();
    assert_eq!(left.try_open(), Ok(mark));
}

#[test]
fn an_older_copy_of_the_database_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let place = Directory(folder.path().to_owned(), Durability::Normal);
    let db = Db::with_notes(&place);
    db.close();
    let older = fs::read(folder.path().join(DATABASE)).unwrap();
    let mut db = Db::open(&place);
    insert_rows(&mut db);
    let mark = db.load().mark;
    db.close();
    // Closed in order, so all of it lasts, whatever a commit waits for.
    fs::write(folder.path().join(DATABASE), older).unwrap();
    let durability = Durability::Normal;
    let left = Left {
        folder,
        mark,
        durability,
    };
    left.misses_commits();
}

#[test]
fn a_database_that_is_gone_is_not_begun_anew() {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let empty = |path: &Path| fs::write(path, "").unwrap();
    for marks in [true, false] {
        for lose in [remove as fn(&Path), empty] {
            let left = Left::by_a_killed_server(Durability::Full);
            lose(&left.at(DATABASE));
            // What stands beside it tells of it, the log as well as the marks.
            remove(&left.at(if marks { LOG } else { MARKS }));
            for _ in 0..2 {
                let said = left.try_open();
                let is_missing = matches!(said, Err(StoreError::DatabaseMissing { .. }));
                assert!(is_missing, "{said:?}");
                let said = store::inspect(&left.folder.path().into()).map(|_| ());
                let is_missing = matches!(said, Err(StoreError::DatabaseMissing { .. }));
                assert!(is_missing, "{said:?}");
            }
            assert_eq!(left.at(LOG).exists(), !marks, "nothing was touched");
            store::accept_loss(&left.folder.path().into()).unwrap();
            assert_eq!(left.try_open().unwrap(), Mark::ZERO);
        }
    }
}

#[test]
fn the_rest_of_a_store_is_known_as_long_as_the_machine_runs() {
    let folder = tempfile::tempdir().unwrap();
    let place = Directory(folder.path().to_owned(), Durability::Full);
    let db = Db::with_notes(&place);
    assert_eq!(db.load().rest_ms, None, "nothing was committed before");
    db.close();
    let db = Db::open(&place);
    let rest_ms = db.load().rest_ms;
    // A day is longer than any test.
    assert!(rest_ms.is_some_and(|ms| ms < 86_400_000), "{rest_ms:?}");
    db.close();
    let marks = folder.path().join(MARKS);
    let text = fs::read_to_string(&marks).unwrap();
    let boot = text.split_ascii_whitespace().nth(2).unwrap();
    fs::write(&marks, text.replace(boot, &"0".repeat(boot.len()))).unwrap();
    assert_eq!(Db::open(&place).load().rest_ms, None);
}

#[test]
fn files_are_their_owners_in_a_directory_of_any_mode() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = Directory(folder.path().to_owned(), Durability::Full);
    let check = |count: usize| {
        let files = fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let modes = files.map(|file| {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", file.file_name());
        });
        assert_eq!(modes.count(), count);
    };
    let db = Db::with_notes(&place);
    // The database, its log and the memory beside it, the lock and the marks.
    check(5);
    db.close();
    // Those that an earlier version made are closed to others at the next start.
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _db = Db::open(&place);
    check(5);
}
