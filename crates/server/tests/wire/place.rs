//! Which store the suite runs on: data directories, or the database that a variable names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{DatabaseUrl, StorePlace};

/// A database of a server for tests, by its URL with a parameter. Each server of the suite has a
/// schema of its own in it.
const DATABASE: &str = "TIDEMARK_TEST_DATABASE";
/// A file to which each server of the suite adds a line: its test, and where its store is. Where
/// the suite ran whole on a database, [`tests_on_a_directory_are_those_of_the_list`] reads it.
const RECORD: &str = "TIDEMARK_TEST_RECORD";

/// Tests of data directories alone, and why.
const OF_DIRECTORIES: &[(&str, &[&str])] = &[
    (
        "encrypted columns cannot be stored in a database yet",
        &[
            "encrypted::a_damaged_row_is_mended_by_a_new_value",
            "encrypted::a_damaged_row_is_named_and_can_be_passed_by",
            "encrypted::an_encrypted_column_stands_in_no_index_and_no_constraint",
            "encrypted::encrypted_column_cannot_be_searched",
            "encrypted::encrypted_value_is_unreadable_on_disk_however_it_is_written",
            "encrypted::every_text_can_be_encrypted_and_the_flag_is_shown_and_stays",
            "encrypted::reads_at_given_times_look_for_nothing_in_an_encrypted_column",
            "encrypted::related_rows_show_their_encrypted_values",
            "encrypted::staged_plaintext_is_encrypted_once_there_is_a_key",
            "encrypted::the_history_of_a_damaged_row_marks_what_it_lacks",
            "quotas::full_project_refuses_encrypted_values_too",
        ],
    ),
    (
        "a database sorts within settings of its own, and its sorts hold where a long text is",
        &["answers::a_sort_beyond_its_memory_says_what_to_do"],
    ),
];

fn of_directories() -> BTreeSet<String> {
    let names = OF_DIRECTORIES.iter().flat_map(|(_, names)| *names);
    names.map(|name| (*name).to_owned()).collect()
}

/// The place of the store of a new server, next to which it keeps this directory.
pub fn choose(directory: &Path) -> StorePlace {
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    let Ok(url) = std::env::var(DATABASE) else {
        return directory.into();
    };
    // The harness names the thread of a test so, unless it runs one test at a time.
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    assert_ne!(test, "main", "on a database this suite needs two threads");
    let (place, what) = if of_directories().contains(&test) {
        (directory.into(), "directory")
    } else {
        let number = CHOSEN.fetch_add(1, Ordering::Relaxed);
        let url = format!("{url}&schema=wire_{}_{number}", std::process::id());
        (DatabaseUrl::parse(&url).unwrap().into(), "database")
    };
    if let Some(record) = std::env::var_os(RECORD) {
        let record = File::options().append(true).create(true).open(record);
        let line = format!("{test} {what}\n");
        record.unwrap().write_all(line.as_bytes()).unwrap();
    }
    place
}

#[test]
fn tests_on_a_directory_are_those_of_the_list() {
    let listed = of_directories();
    if let (Err(_), Some(record)) = (std::env::var(DATABASE), std::env::var_os(RECORD)) {
        let record = fs::read_to_string(record).unwrap();
        let ran = |what: &str| -> BTreeSet<String> {
            let lines = record.lines().filter_map(|line| line.rsplit_once(' '));
            let of = lines.filter(|(_, place)| *place == what);
            of.map(|(test, _)| test.to_owned()).collect()
        };
        assert_eq!(ran("directory"), listed);
        let on_database = ran("database");
        assert!(on_database.is_disjoint(&listed));
        assert!(
            on_database.len() > 300,
            "the suite ran whole: {}",
            on_database.len()
        );
    }
    // A name that no test has would say nothing.
    let suite = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output();
    let suite = String::from_utf8(suite.unwrap().stdout).unwrap();
    let tests: BTreeSet<&str> = suite
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    for name in &listed {
        assert!(tests.contains(name.as_str()), "{name}");
    }
}
