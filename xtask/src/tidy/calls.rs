//! Rules `purity`, `clock`, `environment` and `banned-call`: what code must not reach for.

use super::Finding;
use super::rooms::{self, Kind, Room};
use super::source::{Source, Tree};

/// What a pure room must not reach for, and where it comes from instead.
const IMPURE: [(&str, &str); 9] = [
    ("std::fs", "take the bytes as an argument"),
    ("std::net", "leave it to the server"),
    ("std::thread", "be a state machine that the caller drives"),
    ("std::process", "return an error"),
    ("std::env", "take the value as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("SystemTime::now", "take the time as an argument"),
    ("rand", "take the random number as an argument"),
    ("getrandom", "take the random number as an argument"),
];
/// The one file that reads the environment.
const CONFIG: &str = "crates/tidemark/src/config.rs";
const ENVIRONMENT: [&str; 6] = ["var", "var_os", "vars", "vars_os", "args", "args_os"];
/// Refused everywhere, in tests too.
const BANNED: [(&str, &str); 5] = [
    (
        "process::exit(",
        "return an `ExitCode` from main, so that what is open gets closed",
    ),
    ("todo!", "finish it, or answer with a typed error"),
    ("unimplemented!", "finish it, or answer with a typed error"),
    ("dbg!", "log it, or delete it"),
    (
        "#[ignore",
        "assert today's answer, or choose a size by TIDEMARK_LANE",
    ),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.rust() {
        check_banned(source, &mut findings);
        if let Some(room) = rooms::room_of(&source.path) {
            if room.kind == Kind::Pure {
                check_purity(source, &mut findings);
            } else if room.kind == Kind::Active {
                check_clock(source, room, &mut findings);
            }
            // A build script has no other way to learn what cargo wants.
            let may_read = source.path == CONFIG || source.path.ends_with("/build.rs");
            if room.kind != Kind::Beside && !may_read {
                check_environment(source, &mut findings);
            }
        }
    }
    findings
}

/// Tests are the callers of a pure room, and read files and seeds for it.
fn refuse(source: &Source, rule: &'static str, path: &str, advice: &str) -> Vec<Finding> {
    let lines = source
        .lines_naming(path)
        .into_iter()
        .filter(|line| !source.is_test_line(*line));
    let finding = |line| Finding::new(&source.path, line, rule, format!("`{path}`; {advice}"));
    lines.map(finding).collect()
}

fn check_purity(source: &Source, findings: &mut Vec<Finding>) {
    for (path, advice) in IMPURE {
        // `rand` alone would be any name; as a crate it leads a path.
        let found = match path {
            "rand" | "getrandom" => refuse(source, "purity", &format!("{path}::"), advice),
            _ => refuse(source, "purity", path, advice),
        };
        findings.extend(found);
    }
}

fn check_clock(source: &Source, room: &Room, findings: &mut Vec<Finding>) {
    if !room.is_rim() {
        let advice = "take it through the `Clock` that main.rs passes down";
        findings.extend(refuse(source, "clock", "SystemTime::now", advice));
    }
}

fn check_environment(source: &Source, findings: &mut Vec<Finding>) {
    for name in ENVIRONMENT {
        let advice = format!("read it in {CONFIG} and pass the checked value down");
        let path = format!("env::{name}");
        findings.extend(refuse(source, "environment", &path, &advice));
    }
}

fn check_banned(source: &Source, findings: &mut Vec<Finding>) {
    for (text, advice) in BANNED {
        for (at, _) in source.code.match_indices(text) {
            let before = source.code[..at].chars().next_back();
            if before.is_some_and(super::mask::is_word) {
                continue;
            }
            let name = text.trim_start_matches('#').trim_matches(['[', '(']);
            let message = format!("`{name}`; {advice}");
            findings.push(Finding::new(
                &source.path,
                source.line_of(at),
                "banned-call",
                message,
            ));
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

    #[test]
    fn pure_rooms_reach_for_nothing() {
        let text =
            "use std::{fs, time::Instant};\nlet a = Instant::now();\nlet b = rand::random();";
        let expected = [
            "crates/cache/src/map.rs:1: purity",
            "crates/cache/src/map.rs:2: purity",
            "crates/cache/src/map.rs:3: purity",
        ];
        check(&[("crates/cache/src/map.rs", text)], &expected);
        check(&[("crates/store/src/open.rs", text)], &[]);
        check(
            &[(
                "crates/cache/src/map.rs",
                "// std::fs\nuse std::time::Duration;",
            )],
            &[],
        );
    }

    #[test]
    fn tests_of_pure_rooms_may_read_files() {
        let text = "use std::fs;";
        check(&[("crates/query/tests/golden.rs", text)], &[]);
        let inside = "#[cfg(test)]\nmod tests {\n  use std::fs;\n}\n";
        check(&[("crates/query/src/emit.rs", inside)], &[]);
    }

    #[test]
    fn the_clock_comes_in_from_the_server() {
        let text = "let a = std::time::SystemTime::now();";
        check(
            &[("crates/engine/src/commit/group.rs", text)],
            &["crates/engine/src/commit/group.rs:1: clock"],
        );
        check(&[("crates/tidemark/src/main.rs", text)], &[]);
    }

    #[test]
    fn the_environment_is_read_in_one_file() {
        let text = "let a = std::env::var(\"A\");\nlet b = env!(\"CARGO_PKG_VERSION\");";
        check(
            &[
                ("crates/tidemark/src/config.rs", text),
                ("bench/measure/build.rs", text),
            ],
            &[],
        );
        check(
            &[("crates/tidemark/src/main.rs", text)],
            &["crates/tidemark/src/main.rs:1: environment"],
        );
        check(&[("tests/src/lib.rs", text)], &[]);
        let in_a_test = "#[test]\nfn seed() {\n  std::env::var(\"SEED\");\n}";
        check(&[("crates/engine/src/read/rows.rs", in_a_test)], &[]);
    }

    #[test]
    fn some_calls_are_refused_everywhere() {
        let text = "\
fn f() { std::process::exit(1) }
fn g() { todo!() }
fn h() { dbg!(1) }
#[ignore = \"slow\"]
fn i() { unimplemented!() }
fn exit() { self::exit(); \"todo!()\"; /* dbg! */ }";
        let expected = [
            "tests/a.rs:1: banned-call",
            "tests/a.rs:2: banned-call",
            "tests/a.rs:3: banned-call",
            "tests/a.rs:4: banned-call",
            "tests/a.rs:5: banned-call",
        ];
        check(&[("tests/a.rs", text)], &expected);
    }
}
