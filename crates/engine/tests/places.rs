//! Which tests of the engine have their stores in data directories where the others have them in a
//! database.

mod fixture;

use std::fs;
use std::path::Path;

use fixture::places::OF_DIRECTORIES;

#[test]
fn tests_on_a_directory_are_those_of_the_list() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let is_test = |name: &str| {
        let (program, test) = name.split_once("::").expect("a program and its test");
        let source = fs::read_to_string(tests.join(format!("{program}.rs")));
        source.is_ok_and(|source| source.contains(&format!("#[test]\nfn {test}()")))
    };
    OF_DIRECTORIES.compare(120, is_test);
}
