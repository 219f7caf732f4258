//! Rules `imports`, `budget` and `serialisation`: the table of rooms against manifests and code.

use super::Finding;
use super::manifest::{self, Manifest};
use super::rooms::{self, Kind, ROOMS, Room};
use super::source::{Source, Tree};

const RULE: &str = "imports";
/// The rear half of `query`: it writes SQL, which only a store may ask for.
const SQL_WRITERS: [&str; 2] = ["query::emit", "query::dialect"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifest::all(tree)
        .iter()
        .filter(|manifest| manifest.is_crate)
    {
        match rooms::room(&manifest.owner) {
            Some(room) => check_manifest(manifest, room, &mut findings),
            None => findings.push(Finding::new(
                &manifest.source.path,
                1,
                RULE,
                format!(
                    "crate `{}` has no row in the table of rooms; add one to \
                     xtask/src/tidy/rooms.rs, or make it a module",
                    manifest.owner
                ),
            )),
        }
    }
    for source in tree.rust() {
        if let Some(room) = rooms::room_of(&source.path) {
            check_uses(tree, source, room, &mut findings);
            check_serialisation(source, room, &mut findings);
        }
        check_dialects_apart(source, &mut findings);
    }
    findings
}

fn check_manifest(manifest: &Manifest<'_>, room: &Room, findings: &mut Vec<Finding>) {
    let path = &manifest.source.path;
    let mut outside_count = 0;
    for dependency in &manifest.dependencies {
        let refusal = if rooms::room(&dependency.name).is_some() {
            refuse_ours(room, &dependency.name, dependency.in_tests)
        } else {
            outside_count += usize::from(!dependency.in_tests);
            let advice = "use what it has, or do this in the room that may";
            let refusal = room.refusal(&dependency.name, dependency.in_tests);
            refusal.map(|refusal| format!("{refusal}; {advice}"))
        };
        let line = dependency.line;
        findings.extend(refusal.map(|message| Finding::new(path, line, RULE, message)));
    }
    if outside_count > room.outside_max {
        let (name, max) = (room.name, room.outside_max);
        let message = format!(
            "`{name}` names {outside_count} outside crates, its budget is {max}; drop one, or \
             raise the budget in xtask/src/tidy/rooms.rs with the reason"
        );
        findings.push(Finding::new(path, 1, "budget", message));
    }
}

fn refuse_ours(room: &Room, wanted: &str, in_tests: bool) -> Option<String> {
    if room.ours.contains(&wanted) || room.name == wanted || room.may_test(wanted, in_tests) {
        return None;
    }
    let may = if room.ours.is_empty() {
        "no room".to_owned()
    } else {
        room.ours.join(", ")
    };
    Some(format!(
        "`{}` may import {may}, not `{wanted}`; pass the value down, return it up, or move the \
         code to a room that may",
        room.name
    ))
}

/// The manifest already decides what compiles; this names the line that wants it.
fn check_uses(tree: &Tree, source: &Source, room: &Room, findings: &mut Vec<Finding>) {
    for (line, used) in &source.uses {
        let first = used.split("::").next().unwrap_or(used);
        let name = first.replace('_', "-");
        let ours = ROOMS.iter().find(|room| room.name == name);
        let refusal = match ours {
            // A module of the crate may carry the name of a room.
            Some(_) if has_module(tree, source, room, first) => None,
            Some(_) => refuse_ours(room, &name, source.is_test_line(*line)),
            None => rooms::reserved_for(&name)
                .and_then(|_| room.refusal(&name, source.is_test_line(*line)))
                .map(|refusal| format!("{refusal}; do this in the room that may")),
        };
        findings.extend(refusal.map(|message| Finding::new(&source.path, *line, RULE, message)));
    }
    if matches!(room.name, "query" | "store") || room.kind == Kind::Beside {
        return;
    }
    for writer in SQL_WRITERS {
        for line in source.lines_naming(writer) {
            let message = format!(
                "`{writer}` writes SQL, and `{}` must not see any; hand the resolved query to \
                 the store",
                room.name
            );
            findings.push(Finding::new(&source.path, line, RULE, message));
        }
    }
}

fn has_module(tree: &Tree, source: &Source, room: &Room, name: &str) -> bool {
    let folder = room.folder();
    let declared = |source: &Source| source.modules.iter().any(|module| module == name);
    declared(source)
        || tree
            .rust()
            .any(|other| other.path.starts_with(&folder) && declared(other))
}

fn check_serialisation(source: &Source, room: &Room, findings: &mut Vec<Finding>) {
    if room.is_rim() || room.kind == Kind::Beside {
        return;
    }
    for (at, _) in source.code.match_indices("derive(") {
        let list = source.code[at..].split(')').next().unwrap_or("");
        let line = source.line_of(at);
        if list.contains("erialize") && !source.is_test_line(line) {
            let message = "a wire shape below the server; take the type as it is and shape it in \
                           crates/server/src/http/wire.rs";
            findings.push(Finding::new(&source.path, line, "serialisation", message));
        }
    }
}

fn check_dialects_apart(source: &Source, findings: &mut Vec<Finding>) {
    for (own, other) in [("sqlite", "postgres"), ("postgres", "sqlite")] {
        if !source.path.starts_with(&format!("crates/store/src/{own}/")) {
            continue;
        }
        for (line, used) in &source.uses {
            if used.split("::").any(|part| part == other) {
                let message = format!(
                    "`store/{own}` must not import `store/{other}`; move what they share up \
                     into `query` or store/src/lib.rs"
                );
                findings.push(Finding::new(&source.path, *line, RULE, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}")
    }

    #[test]
    fn a_manifest_keeps_to_the_table() {
        let good = manifest(
            "store",
            "[dependencies]\nmodel.workspace = true\nrusqlite = \"1\"",
        );
        check(&[("crates/store/Cargo.toml", &good)], &[]);
        let bad = manifest(
            "store",
            "[dependencies]\nengine.workspace = true\nhyper = \"1\"",
        );
        let expected = [
            "crates/store/Cargo.toml:4: imports",
            "crates/store/Cargo.toml:5: imports",
        ];
        check(&[("crates/store/Cargo.toml", &bad)], &expected);
    }

    #[test]
    fn tests_inside_a_room_keep_to_the_table_too() {
        let good = manifest(
            "engine",
            "[dev-dependencies]\nproptest = \"1\"\nstore = \"1\"",
        );
        check(&[("crates/engine/Cargo.toml", &good)], &[]);
        let bad = manifest(
            "engine",
            "[dev-dependencies]\nrusqlite = \"1\"\nserver = \"1\"",
        );
        let expected = [
            "crates/engine/Cargo.toml:4: imports",
            "crates/engine/Cargo.toml:5: imports",
        ];
        check(&[("crates/engine/Cargo.toml", &bad)], &expected);
    }

    #[test]
    fn testing_serves_tests_alone() {
        let in_tests = manifest("store", "[dev-dependencies]\ntesting = \"1\"");
        check(&[("crates/store/Cargo.toml", &in_tests)], &[]);
        let in_product = manifest("store", "[dependencies]\ntesting = \"1\"");
        let expected = ["crates/store/Cargo.toml:4: imports"];
        check(&[("crates/store/Cargo.toml", &in_product)], &expected);
        let beside = manifest("fuzz", "[dependencies]\ntesting = \"1\"");
        check(&[("fuzz/Cargo.toml", &beside)], &[]);
        let code = "use testing::traces;";
        check(&[("crates/store/tests/erase.rs", code)], &[]);
        let expected = ["crates/store/src/lib.rs:1: imports"];
        check(&[("crates/store/src/lib.rs", code)], &expected);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        check(
            &[("crates/extra/Cargo.toml", &manifest("extra", ""))],
            &["crates/extra/Cargo.toml:1: imports"],
        );
        check(
            &[(
                "tests/Cargo.toml",
                &manifest("tests", "[dependencies]\nhyper = \"1\""),
            )],
            &[],
        );
    }

    #[test]
    fn the_budget_counts_outside_crates_but_not_those_of_tests() {
        let room = super::ROOMS
            .iter()
            .find(|room| room.name == "server")
            .unwrap();
        let one_too_many = 0..=room.outside_max;
        let names: Vec<String> = one_too_many
            .map(|n| format!("outside-{n} = \"1\""))
            .collect();
        let names = names.join("\n");
        let over = manifest("server", &format!("[dependencies]\n{names}"));
        check(
            &[("crates/server/Cargo.toml", &over)],
            &["crates/server/Cargo.toml:1: budget"],
        );
        let tests = manifest("server", &format!("[dev-dependencies]\n{names}"));
        check(&[("crates/server/Cargo.toml", &tests)], &[]);
    }

    #[test]
    fn use_lines_keep_to_the_table() {
        check(
            &[(
                "crates/engine/src/read/rows.rs",
                "use store::Store;\nuse query::parse;",
            )],
            &[],
        );
        let bad = "use model::Row;\nuse store::Store;\nuse rusqlite::{Connection};";
        let expected = [
            "crates/query/src/parse.rs:2: imports",
            "crates/query/src/parse.rs:3: imports",
        ];
        check(&[("crates/query/src/parse.rs", bad)], &expected);
        let own = [
            ("crates/server/src/main.rs", "mod cache;"),
            ("crates/server/src/http.rs", "use cache::Entry;"),
        ];
        check(&own, &[]);
    }

    #[test]
    fn only_a_store_asks_for_sql() {
        check(
            &[(
                "crates/store/src/read.rs",
                "use query::{dialect::Dialect, emit::emit};",
            )],
            &[],
        );
        let bad = "use query::{parse::parse,\n emit::emit};\nfn f() { query::dialect::all() }";
        let expected = [
            "crates/engine/src/a.rs:1: imports",
            "crates/engine/src/a.rs:3: imports",
        ];
        check(&[("crates/engine/src/a.rs", bad)], &expected);
    }

    #[test]
    fn the_two_databases_do_not_know_each_other() {
        let text = "use crate::postgres::codec;";
        check(
            &[("crates/store/src/sqlite/read.rs", text)],
            &["crates/store/src/sqlite/read.rs:1: imports"],
        );
        check(&[("crates/store/src/lib.rs", text)], &[]);
    }

    #[test]
    fn only_the_server_derives_serialisation() {
        let text = "#[derive(Debug, Serialize)]\nstruct A;";
        check(&[("crates/server/src/http/wire.rs", text)], &[]);
        check(
            &[("crates/model/src/row.rs", text)],
            &["crates/model/src/row.rs:1: serialisation"],
        );
        check(
            &[(
                "crates/model/src/row.rs",
                "#[derive(Debug)]\nstruct Serialize;",
            )],
            &[],
        );
    }
}
