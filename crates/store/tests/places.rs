//! Which tests of programs that also run on a database are of data directories alone.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::fs;
use std::path::Path;

use db::OF_DIRECTORIES;

#[test]
fn tests_on_a_directory_are_those_of_the_list() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let is_test = |name: &str| {
        let (program, test) = name.split_once("::").expect("a program and its test");
        let source = fs::read_to_string(tests.join(format!("{program}.rs")));
        source.is_ok_and(|source| source.contains(&format!("#[test]\nfn {test}()")))
    };
    OF_DIRECTORIES.compare(20, is_test);
}
