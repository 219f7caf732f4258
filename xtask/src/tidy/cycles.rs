//! Rule `cycle`: files of a crate import one another in one direction only.
//!
//! A file that imports itself through others cannot be read, tested or moved without them.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::graph::{self, Crate};
use super::source::Tree;

const RULE: &str = "cycle";

pub fn check(tree: &Tree) -> Vec<Finding> {
    graph::crates(tree).iter().flat_map(check_crate).collect()
}

/// For each file, the files it imports with the line of the first such import.
type Imports = Vec<BTreeMap<usize, usize>>;

fn check_crate(own: &Crate<'_>) -> Vec<Finding> {
    let modules = &own.modules;
    let imports: Imports = (0..modules.len()).map(|file| own.imports(file)).collect();
    let reached: Vec<BTreeSet<usize>> = (0..modules.len()).map(|f| reach(&imports, f)).collect();
    let mut findings = Vec::new();
    for (file, module) in modules.iter().enumerate() {
        let is_mutual = |other: &usize| reached[*other].contains(&file);
        let circle = reached[file]
            .iter()
            .filter(|other| is_mutual(other))
            .count();
        let first = imports[file].iter().filter(|(other, _)| is_mutual(other));
        let Some((other, line)) = first.min_by_key(|(_, line)| **line) else {
            continue;
        };
        let message = format!(
            "imports {}, which imports this file again, in a circle of {circle} files; move what \
             both need into a file below them",
            modules[*other].source.path
        );
        findings.push(Finding::new(&module.source.path, *line, RULE, message));
    }
    findings
}

/// The files that a file imports, directly or through others.
fn reach(imports: &Imports, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(file) = waiting.pop() {
        waiting.extend(imports[file].keys().filter(|other| reached.insert(**other)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn circle_is_found_over_several_files() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
            ("crates/a/src/b.rs", "\nuse crate::c::C;"),
            ("crates/a/src/c.rs", "fn f() { crate::d::g() }"),
            ("crates/a/src/d.rs", "use super::b::{B, D};"),
        ];
        let circle = [
            "crates/a/src/b.rs:2: cycle",
            "crates/a/src/c.rs:1: cycle",
            "crates/a/src/d.rs:1: cycle",
        ];
        check(&files, &circle);
        check(&files[..3], &[]);
    }

    #[test]
    fn module_is_made_of_what_is_below_it() {
        let parent = ("crates/a/src/b.rs", "mod c;\nmod d;\nuse c::C;");
        let child = ("crates/a/src/b/c.rs", "use super::B;");
        check(&[parent, child], &[]);
        // Beside it there is a direction.
        let other = ("crates/a/src/b/d.rs", "use super::c::C;");
        let back = ("crates/a/src/b/c.rs", "fn f() { super::d::g() }");
        let both = [
            "crates/a/src/b/c.rs:1: cycle",
            "crates/a/src/b/d.rs:1: cycle",
        ];
        check(&[parent, back, other], &both);
    }

    #[test]
    fn reexported_name_counts_for_the_file_that_defines_it() {
        let reexports = "mod b; mod c;\npub use crate::b::B;\npub use c::C;";
        let library = ("crates/a/src/lib.rs", reexports);
        let b = ("crates/a/src/b.rs", "use crate::C;");
        check(&[library, b, ("crates/a/src/c.rs", "struct C;")], &[]);
        let c = ("crates/a/src/c.rs", "use crate::{B, C};");
        let both = ["crates/a/src/b.rs:1: cycle", "crates/a/src/c.rs:1: cycle"];
        check(&[library, b, c], &both);
    }

    #[test]
    fn tests_and_other_crates_make_no_circle() {
        let b = ("crates/a/src/b.rs", "use crate::c::C;");
        let test = "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}";
        check(&[b, ("crates/a/src/c.rs", test)], &[]);
        check(&[b, ("crates/a/src/c.rs", "use b::B; // crate::b")], &[]);
        check(
            &[
                b,
                ("crates/a/src/c.rs", "use d::crate_b; macro!($crate::b::B)"),
            ],
            &[],
        );
        check(&[b, ("crates/d/src/c.rs", "use crate::b::B;")], &[]);
    }
}
