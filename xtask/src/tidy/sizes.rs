//! Rules `line` and `file`: how wide and how long.

use super::Finding;
use super::source::{Language, Source, Tree};

/// The formatter's `max_width`.
const COLUMNS_MAX: usize = 100;
/// Beyond this nobody keeps a file in mind.
const LINES_MAX: usize = 800;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        check_lines(source, &mut findings);
        check_file(source, &mut findings);
    }
    findings
}

/// Where runs are kept: pages that a program has written.
const RESULTS: &str = "bench/results/";

/// Prose wraps by itself, and data is no text to read.
fn is_written_by_hand(source: &Source) -> bool {
    if source.path.starts_with(RESULTS) {
        return false;
    }
    let (_, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    match source.language {
        Language::Rust | Language::JavaScript | Language::Python => true,
        Language::Markdown => false,
        Language::Other => matches!(extension, "toml" | "sh" | "yml" | "yaml" | "css" | "html"),
    }
}

fn check_lines(source: &Source, findings: &mut Vec<Finding>) {
    if !is_written_by_hand(source) {
        return;
    }
    let blanked: Vec<&str> = source.code.lines().collect();
    for (index, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        let is_link = line.contains("http://") || line.contains("https://");
        if columns <= COLUMNS_MAX || is_link {
            continue;
        }
        if source.is_test_line(index + 1) && is_test_data(line, blanked.get(index)) {
            continue;
        }
        let message = format!("{columns} columns; wrap at {COLUMNS_MAX}");
        findings.push(Finding::new(&source.path, index + 1, "line", message));
    }
}

/// A row in a table of cases, or a long literal with little code around it: wrapping either
/// would hide what is compared.
fn is_test_data(line: &str, blanked: Option<&&str>) -> bool {
    let line = line.trim();
    let is_row = line.starts_with(['[', '(', '{', '"', '\'']) && line.ends_with(',');
    let code: usize = blanked.map_or(0, |code| code.split_whitespace().map(str::len).sum());
    is_row || code < COLUMNS_MAX / 2
}

fn check_file(source: &Source, findings: &mut Vec<Finding>) {
    let code = matches!(
        source.language,
        Language::Rust | Language::JavaScript | Language::Python
    );
    let own = (1..=source.text.lines().count()).filter(|line| !source.is_test_line(*line));
    let count = own.count();
    if code && count > LINES_MAX {
        let message =
            format!("{count} lines without tests; split it by subject, {LINES_MAX} at most");
        findings.push(Finding::new(&source.path, 1, "file", message));
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
    fn a_line_has_at_most_a_hundred_columns() {
        let fits = format!("// {}", "é".repeat(97));
        check(
            &[
                ("crates/model/src/a.rs", &fits),
                ("a.js", &fits),
                ("b.toml", &fits),
            ],
            &[],
        );
        let over = format!("\n{fits}x");
        check(
            &[("a.py", &over), ("a.rs", &over)],
            &["a.py:2: line", "a.rs:2: line"],
        );
        check(
            &[("a.md", &over), ("a.json", &over), ("Cargo.lock", &over)],
            &[],
        );
        let page = [
            ("bench/results/a/report.html", over.as_str()),
            ("bench/a.html", &over),
        ];
        check(&page, &["bench/a.html:2: line"]);
    }

    #[test]
    fn links_and_test_data_may_be_longer() {
        check(&[("a.rs", &format!("// https://{}", "a".repeat(100)))], &[]);
        let text = format!("check(\"{}\");", "a".repeat(100));
        check(&[("crates/a/tests/b.rs", &text)], &[]);
        check(
            &[("crates/a/src/b.rs", &text)],
            &["crates/a/src/b.rs:1: line"],
        );
        let row = format!(
            "    ['{}', () => {}(), 404],",
            "a".repeat(10),
            "b".repeat(100)
        );
        check(&[("tests/sdk/a.test.js", &row)], &[]);
        check(&[("bench/a.js", &row)], &["bench/a.js:1: line"]);
        let code = format!("let {} = 1;", "a".repeat(100));
        check(
            &[("crates/a/tests/b.rs", &code)],
            &["crates/a/tests/b.rs:1: line"],
        );
    }

    #[test]
    fn a_file_has_at_most_800_lines_without_its_tests() {
        let fits = "x\n".repeat(800);
        check(
            &[
                ("a.rs", &fits),
                ("a.js", &fits),
                ("a.md", &"x\n".repeat(900)),
            ],
            &[],
        );
        let over = "x\n".repeat(801);
        check(
            &[("a.rs", &over), ("a.py", &over)],
            &["a.py:1: file", "a.rs:1: file"],
        );
        check(&[("crates/a/tests/b.rs", &over)], &[]);
        let tests = format!("{fits}#[cfg(test)]\nmod tests {{\n{fits}}}\n");
        check(&[("a.rs", &tests)], &[]);
    }
}
