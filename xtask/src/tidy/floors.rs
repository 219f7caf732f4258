//! Rule `floor`: the folders of a module stand on one another, and none imports one above it.
//!
//! What lies beside the folders, as the module's own file does, stands on all of them. The file of
//! a whole crate is not judged: it holds the type whose methods stand in the folders.

use super::Finding;
use super::graph::{self, Crate, Module};
use super::source::Tree;

const RULE: &str = "floor";

/// Modules whose folders have an order: the folders from the ground up.
const ORDERED: [(&str, &[&str]); 3] = [
    (
        "crates/store/src/sqlite/",
        &[
            "disk",
            "schema",
            "read",
            "write",
            "constraint",
            "commit",
            "upkeep",
        ],
    ),
    (
        "crates/engine/src/",
        &[
            "error",
            "state",
            "request",
            "commit",
            "schema",
            "read",
            "write",
            "transactions",
        ],
    ),
    (
        "crates/server/src/http/",
        &[
            "wire", "head", "limits", "reply", "state", "input", "routes",
        ],
    ),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    graph::crates(tree).iter().flat_map(check_crate).collect()
}

fn check_crate(own: &Crate<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, module) in own.modules.iter().enumerate() {
        let Some((root, floors)) = ORDERED.iter().find(|(root, _)| is_in(module, root)) else {
            continue;
        };
        let from = floor(module, root, floors);
        for (other, line) in own.imports(file) {
            let other = &own.modules[other];
            if !is_in(other, root) || floor(other, root, floors) <= from {
                continue;
            }
            let message = format!(
                "imports {}, which stands above it (from the ground up: {}); move what both need \
                 down",
                other.source.path,
                floors.join(", ")
            );
            findings.push(Finding::new(&module.source.path, line, RULE, message));
        }
    }
    findings
}

/// Whether a file belongs to the module with these folders; its own file does.
fn is_in(module: &Module<'_>, root: &str) -> bool {
    let path = &module.source.path;
    if path.ends_with("/src/lib.rs") {
        return false;
    }
    path.starts_with(root) || path.strip_suffix(".rs") == root.strip_suffix('/')
}

/// The floor that a file is on, from 0; what is in no folder stands above all.
fn floor(module: &Module<'_>, root: &str, floors: &[&str]) -> usize {
    let inside = module.source.path.strip_prefix(root).unwrap_or_default();
    let folder = inside.split(['/', '.']).next();
    let found = floors.iter().position(|floor| Some(*floor) == folder);
    found.unwrap_or(floors.len())
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(path: &str, text: &str, is_refused: bool) {
        let files = [
            ("crates/store/src/lib.rs", "mod sqlite;"),
            ("crates/store/src/error.rs", "pub struct E;"),
            ("crates/store/src/sqlite/mod.rs", "mod read;\npub struct S;"),
            ("crates/store/src/sqlite/disk/mod.rs", "pub mod file;"),
            ("crates/store/src/sqlite/disk/file.rs", "pub struct F;"),
            ("crates/store/src/sqlite/read.rs", "mod row;\npub struct R;"),
            ("crates/store/src/sqlite/inspect.rs", "pub struct I;"),
            (path, text),
        ];
        let finding = format!("{path}:1: floor");
        let expected = [finding.as_str()];
        snippets::check(super::check, &files, &expected[..usize::from(is_refused)]);
    }

    #[test]
    fn folder_imports_those_below_it_only() {
        let disk = "crates/store/src/sqlite/disk/log.rs";
        let row = "crates/store/src/sqlite/read/row.rs";
        check(row, "use crate::sqlite::disk::file::F;", false);
        check(row, "use super::super::disk::file;", false);
        check(row, "use super::R;", false);
        check(row, "use crate::error::E;", false);
        check(disk, "use super::file::F;", false);
        check(disk, "use crate::sqlite::read::R;", true);
        check(disk, "fn f() { crate::sqlite::read::row::g() }", true);
        let upkeep = "crates/store/src/sqlite/upkeep.rs";
        check(upkeep, "use super::read::R;", false);
    }

    #[test]
    fn file_beside_the_folders_stands_on_all_of_them() {
        let row = "crates/store/src/sqlite/read/row.rs";
        check(row, "use crate::sqlite::S;", true);
        check(row, "use crate::sqlite::inspect::I;", true);
        let preview = "crates/store/src/sqlite/preview.rs";
        check(preview, "use super::S;", false);
        check(preview, "use super::read::R;", false);
    }

    #[test]
    fn crates_own_file_is_imported_by_all() {
        let files = [
            ("crates/engine/src/lib.rs", "mod read;\npub struct Engine;"),
            ("crates/engine/src/read.rs", "pub struct R;"),
            (
                "crates/engine/src/state.rs",
                "use crate::Engine;\nuse crate::read::R;",
            ),
        ];
        snippets::check(
            super::check,
            &files,
            &["crates/engine/src/state.rs:2: floor"],
        );
    }

    #[test]
    fn visibility_is_no_import() {
        let row = "crates/store/src/sqlite/read/row.rs";
        check(row, "pub(in crate::sqlite) struct R;", false);
    }
}
