//! Which store the suite runs on: data directories, or the database that a variable names.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use engine::StorePlace;
use testing::places::OfDirectories;

/// Tests of data directories alone, and why.
const OF_DIRECTORIES: OfDirectories = OfDirectories {
    package: "server",
    tests: &[
        (
            "what is stored is looked for in files, or altered there",
            &[
                "wire::encrypted::a_damaged_row_is_mended_by_a_new_value",
                "wire::encrypted::a_damaged_row_is_named_and_can_be_passed_by",
                "wire::encrypted::encrypted_value_is_unreadable_on_disk_however_it_is_written",
                "wire::encrypted::staged_plaintext_is_encrypted_once_there_is_a_key",
                "wire::encrypted::the_history_of_a_damaged_row_marks_what_it_lacks",
            ],
        ),
        (
            "a database sorts within settings of its own, and its sorts hold where a long text is",
            &["wire::answers::a_sort_beyond_its_memory_says_what_to_do"],
        ),
    ],
};

/// The place of the store of a new server, next to which it keeps this directory.
pub fn choose(directory: &Path) -> StorePlace {
    OF_DIRECTORIES.choose(directory)
}

#[test]
fn tests_on_a_directory_are_those_of_the_list() {
    let suite = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output();
    let suite = String::from_utf8(suite.unwrap().stdout).unwrap();
    let tests: BTreeSet<&str> = suite
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    let is_test = |name: &str| {
        let test = name.strip_prefix("wire::");
        test.is_some_and(|test| tests.contains(test))
    };
    OF_DIRECTORIES.compare(300, is_test);
}
