//! Where the stores of a suite are: data directories, or the database that a variable names.
//!
//! A suite says by a list which of its tests are of data directories alone, and why. On a database
//! each directory that a test names has a schema of its own there, the same one each time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use store::{DatabaseStore, DatabaseUrl, Options, Store, StoreError, StorePlace};

/// A database of a server for tests, by its URL with a parameter.
const DATABASE: &str = "TIDEMARK_TEST_DATABASE";
/// A file to which each store that is opened adds a line: its test, and where it is. Where a suite
/// ran whole on a database, [`OfDirectories::compare`] reads it.
const RECORD: &str = "TIDEMARK_TEST_RECORD";

/// A session ends within milliseconds of its connection, also on a busy machine.
const UNLOCKED_MAX: Duration = Duration::from_secs(10);
/// Each attempt is a connection.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Of the tests of a package those of data directories alone: why, and which, as `program::test` or
/// `program::module::test`.
pub struct OfDirectories {
    /// The package.
    pub package: &'static str,
    /// Reasons, and the tests of each.
    pub tests: &'static [(&'static str, &'static [&'static str])],
}

/// Where a store is that a test would keep in a directory.
struct ChosenSchema {
    directory: PathBuf,
    place: StorePlace,
    schema: String,
}

/// The directories of this process whose stores are in a database.
fn all_chosen() -> MutexGuard<'static, Vec<ChosenSchema>> {
    static CHOSEN: Mutex<Vec<ChosenSchema>> = Mutex::new(Vec::new());
    CHOSEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that runs, without the number that the compiler gave it, and its test.
fn running() -> String {
    let program = std::env::current_exe().expect("a program runs");
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    // The harness names the thread of a test so, unless it runs one test at a time.
    let thread = thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let test = test.expect("on a database a suite needs two threads, named after the test");
    format!("{program}::{test}")
}

/// Whether the tests of this process have their stores in a database, but those of the list.
pub fn on_database() -> bool {
    std::env::var_os(DATABASE).is_some()
}

impl OfDirectories {
    fn names(&self) -> BTreeSet<String> {
        let names = self.tests.iter().flat_map(|(_, names)| *names);
        names.map(|name| (*name).to_owned()).collect()
    }

    /// Where a store is that a test would keep in this directory.
    pub fn choose(&self, directory: &Path) -> StorePlace {
        let Ok(url) = std::env::var(DATABASE) else {
            return directory.into();
        };
        let test = running();
        let (place, what) = if self.names().contains(&test) {
            (directory.into(), "directory")
        } else {
            (in_database(&url, directory), "database")
        };
        if let Some(record) = std::env::var_os(RECORD) {
            let record = File::options().append(true).create(true).open(record);
            let line = format!("{} {test} {what}\n", self.package);
            let written = record.and_then(|mut record| record.write_all(line.as_bytes()));
            written.expect("the record can be written");
        }
        place
    }

    /// Compares the list with the tests that took a directory, where the suite ran whole on a
    /// database and at least so many of its tests opened a store there. Each test of the list must
    /// be in `tests` in any case: a name that no test has would say nothing.
    ///
    /// # Panics
    /// When they differ.
    pub fn compare(&self, at_least: usize, is_test: impl Fn(&str) -> bool) {
        let listed = self.names();
        for name in &listed {
            assert!(is_test(name), "{name} is no test");
        }
        let (false, Some(record)) = (on_database(), std::env::var_os(RECORD)) else {
            return;
        };
        let record = fs::read_to_string(record).expect("the suite ran");
        let start = format!("{} ", self.package);
        let lines = record.lines().filter_map(|line| line.strip_prefix(&start));
        let lines: Vec<(&str, &str)> = lines.filter_map(|line| line.rsplit_once(' ')).collect();
        let ran = |what: &str| -> BTreeSet<String> {
            let of = lines.iter().filter(|(_, place)| *place == what);
            of.map(|(test, _)| (*test).to_owned()).collect()
        };
        assert_eq!(ran("directory"), listed);
        let in_database = ran("database");
        assert!(in_database.is_disjoint(&listed));
        let count = in_database.len();
        assert!(count >= at_least, "the suite ran whole: {count}");
    }
}

fn in_database(url: &str, directory: &Path) -> StorePlace {
    let mut all = all_chosen();
    if let Some(known) = all.iter().find(|known| known.directory == directory) {
        return known.place.clone();
    }
    let schema = format!("test_{}_{}", std::process::id(), all.len());
    let url = DatabaseUrl::parse(&format!("{url}&schema={schema}"));
    let place = StorePlace::from(url.expect("the variable has a URL"));
    all.push(ChosenSchema {
        directory: directory.to_owned(),
        place: place.clone(),
        schema,
    });
    place
}

/// The directory that a test named for a store: what is kept beside a database stays there.
///
/// # Panics
/// When no test did.
pub fn directory_of(place: &StorePlace) -> PathBuf {
    if let StorePlace::Directory(directory) = place {
        return directory.clone();
    }
    let all = all_chosen();
    let named = all.iter().find(|known| known.place == *place);
    named
        .expect("a place that was chosen here")
        .directory
        .clone()
}

/// The URL and the schema of the store that a test would keep in this directory, where it is in a
/// database.
pub fn schema_of(directory: &Path) -> Option<(String, String)> {
    let all = all_chosen();
    let known = all.iter().find(|known| known.directory == directory)?;
    Some((std::env::var(DATABASE).ok()?, known.schema.clone()))
}

/// Starts a further thread of the test that runs, which opens stores in its name.
pub fn spawn_as_test<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    let started = thread::Builder::new().name(test).spawn_scoped(scope, work);
    started.expect("there is room for a thread");
}

/// Opens a store where the options say. A database notices a moment later that a store was dropped
/// and not closed, as when a process ends.
///
/// # Errors
/// What the store says.
pub fn open_store(options: Options) -> Result<Arc<dyn Store>, StoreError> {
    let StorePlace::Database(url) = &options.place else {
        return store::open(options);
    };
    let began = Instant::now();
    let store = loop {
        match DatabaseStore::open(url, None) {
            Err(StoreError::Locked { .. }) if began.elapsed() < UNLOCKED_MAX => {
                thread::park_timeout(RETRY_AFTER);
            }
            opened => break opened?,
        }
    };
    store.serve(&options, None, &directory_of(&options.place))
}
