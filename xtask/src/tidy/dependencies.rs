//! Rule `dependency`: each outside dependency has its line in the list, each line its use.

use std::collections::HashSet;

use super::Finding;
use super::manifest::{self, Manifest};
use super::rooms;
use super::source::{Source, Tree};

const RULE: &str = "dependency";
const LIST: &str = "docs/decisions/dependencies.md";
/// Name, rooms, purpose, why this one, what would replace it.
const COLUMNS: usize = 5;

/// One row of the list.
struct Row<'a> {
    name: &'a str,
    rooms: Vec<&'a str>,
    cells: usize,
    line: usize,
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = manifest::all(tree);
    let list = tree.source(LIST).map_or("", |list| list.text.as_str());
    let rows = rows(list);
    let mut findings = Vec::new();
    check_listed(&manifests, &rows, &mut findings);
    check_rows(&manifests, &rows, &mut findings);
    for manifest in manifests.iter().filter(|manifest| manifest.is_crate) {
        check_used(tree, manifest, &mut findings);
    }
    if let Some(root) = tree.source("Cargo.toml") {
        check_shared(root, &manifests, &mut findings);
    }
    findings
}

fn check_listed(manifests: &[Manifest<'_>], rows: &[Row<'_>], findings: &mut Vec<Finding>) {
    for manifest in manifests {
        for dependency in &manifest.dependencies {
            let is_ours = rooms::room(&dependency.name).is_some();
            let is_listed = rows
                .iter()
                .any(|row| row.name == dependency.name && row.rooms.contains(&&*manifest.owner));
            if !is_ours && !is_listed {
                let message = format!(
                    "`{}` of `{}` has no line in {LIST}; add one, or do without it",
                    dependency.name, manifest.owner
                );
                let path = &manifest.source.path;
                findings.push(Finding::new(path, dependency.line, RULE, message));
            }
        }
    }
}

fn check_rows(manifests: &[Manifest<'_>], rows: &[Row<'_>], findings: &mut Vec<Finding>) {
    for row in rows {
        if row.cells != COLUMNS {
            let message = format!(
                "`{}`: {COLUMNS} columns, none empty; see the head",
                row.name
            );
            findings.push(Finding::new(LIST, row.line, RULE, message));
        }
        for room in &row.rooms {
            let mut owned = manifests.iter().filter(|manifest| manifest.owner == *room);
            let names =
                |manifest: &Manifest<'_>| manifest.dependencies.iter().any(|d| d.name == row.name);
            if !owned.any(names) {
                let message = format!("`{room}` no longer uses `{}`; delete it here", row.name);
                findings.push(Finding::new(LIST, row.line, RULE, message));
            }
        }
    }
}

/// A dependency that no code names is compiled for nothing.
fn check_used(tree: &Tree, manifest: &Manifest<'_>, findings: &mut Vec<Finding>) {
    let folder = manifest.folder();
    let sources = tree.rust().filter(|source| source.path.starts_with(folder));
    let words = sources.flat_map(Source::words).map(|word| word.text);
    let words: HashSet<&str> = words.collect();
    for dependency in &manifest.dependencies {
        if !words.contains(dependency.alias.as_str()) {
            let message = format!(
                "no code of `{}` names `{}`; delete it here",
                manifest.owner, dependency.name
            );
            findings.push(Finding::new(
                &manifest.source.path,
                dependency.line,
                RULE,
                message,
            ));
        }
    }
}

/// Versions shared in the workspace, of which each has to have a user.
fn check_shared(root: &Source, manifests: &[Manifest<'_>], findings: &mut Vec<Finding>) {
    for (name, line) in manifest::workspace_dependencies(root) {
        let alias = name.replace('-', "_");
        let mut named = manifests.iter().flat_map(|manifest| &manifest.dependencies);
        if rooms::room(&name).is_none() && !named.any(|dependency| dependency.alias == alias) {
            let message = format!("no crate uses the shared `{name}`; delete it here");
            findings.push(Finding::new(&root.path, line, RULE, message));
        }
    }
}

/// The rows of every table in the list, heads and rules left out.
fn rows(list: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (index, line) in list.lines().enumerate() {
        let Some(inside) = line.trim().strip_prefix('|') else {
            continue;
        };
        let inside = inside.strip_suffix('|').unwrap_or(inside);
        let cells: Vec<&str> = inside
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        let is_rule = cells
            .iter()
            .all(|cell| cell.chars().all(|letter| "-: ".contains(letter)));
        if is_rule || cells[0] == "name" {
            continue;
        }
        let rooms = cells.get(1).map_or("", |cell| cell).split(',');
        rows.push(Row {
            name: cells[0],
            rooms: rooms.map(|room| room.trim().trim_matches('`')).collect(),
            cells: cells.iter().filter(|cell| !cell.is_empty()).count(),
            line: index + 1,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    const STORE: &str =
        "[package]\nname = \"store\"\n[dependencies]\nrusqlite = \"1\"\nmodel = \"1\"";
    const CODE: &str = "use rusqlite::Connection;\nuse model::Row;";
    const HEAD: &str =
        "# Dependencies\n\n| name | rooms | for | why | else |\n|---|---|---|---|---|\n";

    #[track_caller]
    fn check(manifest: &str, code: &str, rows: &str, expected: &[&str]) {
        let list = format!("{HEAD}{rows}");
        let files = [
            ("crates/store/Cargo.toml", manifest),
            ("crates/store/src/lib.rs", code),
            ("docs/decisions/dependencies.md", list.as_str()),
        ];
        snippets::check(super::check, &files, expected);
    }

    #[test]
    fn each_dependency_has_its_line() {
        check(STORE, CODE, "| `rusqlite` | store | a | b | c |", &[]);
        check(STORE, CODE, "", &["crates/store/Cargo.toml:4: dependency"]);
        let elsewhere = "| rusqlite | engine | a | b | c |";
        let expected = [
            "crates/store/Cargo.toml:4: dependency",
            "docs/decisions/dependencies.md:5: dependency",
        ];
        check(STORE, CODE, elsewhere, &expected);
    }

    #[test]
    fn each_line_is_whole_and_used() {
        let expected = ["docs/decisions/dependencies.md:5: dependency"];
        check(STORE, CODE, "| rusqlite | store | a | | c |", &expected);
        check(
            STORE,
            CODE,
            "| rusqlite | store, engine | a | b | c |",
            &expected,
        );
    }

    #[test]
    fn each_dependency_is_named_by_some_code() {
        let rows = "| rusqlite | store | a | b | c |";
        let code = "use model::Row; // rusqlite";
        check(
            STORE,
            code,
            rows,
            &["crates/store/Cargo.toml:4: dependency"],
        );
    }

    #[test]
    fn packages_of_other_languages_are_listed_by_folder() {
        let package = "{ \"dependencies\": {\n \"node-appwrite\": \"27.1.0\" } }";
        let list = format!("{HEAD}| node-appwrite | bench/ttl | a | b | c |");
        let files = [("bench/ttl/package.json", package)];
        snippets::check(
            super::check,
            &files,
            &["bench/ttl/package.json:2: dependency"],
        );
        let files = [files[0], ("docs/decisions/dependencies.md", list.as_str())];
        snippets::check(super::check, &files, &[]);
    }

    #[test]
    fn a_shared_version_has_a_user() {
        let root = "[workspace]\n[workspace.dependencies]\nmodel = { path = \"m\" }\nbytes = \"1\"";
        snippets::check(
            super::check,
            &[("Cargo.toml", root)],
            &["Cargo.toml:4: dependency"],
        );
    }
}
