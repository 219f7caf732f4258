//! Where the stores are: which tests are of data directories alone, and statements past a store.

use std::path::Path;

use testing::places::{OfDirectories, schema_of};
use testing_postgres::run_sql as psql;

/// Of the programs that also run on a database.
pub const OF_DIRECTORIES: OfDirectories = OfDirectories {
    package: "store",
    tests: &[
        (
            "what is erased is looked for in files, and the log of a database is its operator's",
            &["erase::no_byte_of_an_erased_row_is_left"],
        ),
        (
            "a database builds an index of words by its own means, not in slices of ours",
            &[
                "words::words_are_built_again_when_their_rule_changes",
                "words::one_over_many_rows_is_filled_by_slices_between_which_rows_change",
                "words::a_slice_ends_with_the_row_that_fills_its_bytes_and_may_be_the_last",
            ],
        ),
        (
            "from a database any read may take 20 ms, and none can be made in no time",
            &[
                "long_reads::a_pattern_is_stopped_inside_one_text",
                "long_reads::a_shape_known_to_be_long_begins_apart",
                "long_reads::rows_of_many_bytes_are_long_however_few_they_are",
            ],
        ),
        (
            "rows that a database has sent are looked at to the last, however large",
            &["long_reads::a_read_of_large_rows_ends_when_nobody_waits_for_it"],
        ),
        (
            "they look into a file, or bring one of an older format",
            &[
                "execution_queue::bodies_of_a_deleted_function_go_in_slices_of_eight_mebibytes",
                "execution_queue::cursor_of_a_file_of_format_20_goes_on",
            ],
        ),
        (
            "a database reads no row at once",
            &[
                "unique_keys::rows_by_many_keys_are_those_by_each_key",
                "unique_keys::rows_by_many_keys_end_where_their_bytes_are_enough",
                "unique_keys::rows_by_many_keys_are_found_by_their_index",
            ],
        ),
    ],
};

/// Runs statements in the store of this directory, or in the one in its stead; what the last one
/// returns, a line for each row.
pub fn run_sql(data: &Path, statements: &[&str]) -> Vec<String> {
    let Some((url, schema)) = schema_of(data) else {
        return run_in_file(data, statements);
    };
    let search = format!("SET search_path TO {schema}");
    let statements = [&[search.as_str()], statements].concat();
    let printed = psql(&url, &statements);
    printed.unwrap().lines().map(str::to_owned).collect()
}

fn run_in_file(data: &Path, statements: &[&str]) -> Vec<String> {
    let file = rusqlite::Connection::open(data.join("tidemark.db")).unwrap();
    let mut lines = Vec::new();
    for statement in statements {
        let mut prepared = file.prepare(statement).unwrap();
        let mut rows = prepared.raw_query();
        lines.clear();
        while let Some(row) = rows.next().unwrap() {
            let value: rusqlite::types::Value = row.get(0).unwrap();
            lines.push(match value {
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Text(text) => text,
                other => panic!("{other:?}"),
            });
        }
    }
    lines
}
