//! Rule `noun`: product code, and comments of tests and benches, name who acts.

use super::Finding;
use super::mask::is_word;
use super::source::{Language, Source, Tree};

/// Pronouns that stand where a noun of the field would say more, and one adverb of theirs.
const REFUSED: [&str; 5] = ["whoever", "nobody", "somebody", "anybody", "anew"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let Some(read) = reads(source) else {
            continue;
        };
        for (index, line) in source.text.lines().enumerate() {
            if let Some(word) = refused(read(line)) {
                let message = format!(
                    "`{word}`; name the caller, the reader, the thread … that is meant, or say \
                     `again`"
                );
                findings.push(Finding::new(&source.path, index + 1, "noun", message));
            }
        }
    }
    findings
}

/// Which part of each line is held to the rule: all of it in product code; in tests and benches,
/// where `nobody` is also a value that a test sends, the comment.
fn reads(source: &Source) -> Option<fn(&str) -> &str> {
    let path = source.path.as_str();
    let is_crate = path.starts_with("crates/");
    let is_beside = path.starts_with("tests/") || path.starts_with("bench/");
    match source.language {
        Language::Rust if is_product(path) => Some(|line| line),
        Language::Rust if is_crate || is_beside => Some(comment),
        Language::JavaScript if is_beside => Some(comment),
        _ => None,
    }
}

fn is_product(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    path.starts_with("crates/") && path.contains("/src/") && !is_test
}

/// What stands behind `//` at the beginning of the line or after a space, as no address has it.
fn comment(line: &str) -> &str {
    if line.starts_with("//") {
        return line;
    }
    line.find(" //").map_or("", |start| &line[start..])
}

fn refused(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let mut words = line.split(|letter: char| !is_word(letter));
    words.find_map(|word| REFUSED.into_iter().find(|refused| *refused == word))
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[test]
    fn a_pronoun_in_product_code_is_refused() {
        let text = "\n/// Whoever reads it.\nlet whoever_reads = 1;\n";
        let check =
            |path, expected: &[&str]| snippets::check(super::check, &[(path, text)], expected);
        check("crates/model/src/a.rs", &["crates/model/src/a.rs:2: noun"]);
        check("python/src/a.rs", &[]);
    }

    #[test]
    fn a_pronoun_in_a_comment_of_a_test_or_bench_is_refused() {
        let text = "let id = \"nobody\";\n    let at = 1; // Nobody reads it.\n";
        for path in [
            "crates/model/src/a/tests.rs",
            "crates/model/tests/a.rs",
            "bench/harness/src/a.rs",
            "tests/tests/a.rs",
            "tests/sdk/node/a.test.js",
        ] {
            let expected = format!("{path}:2: noun");
            snippets::check(super::check, &[(path, text)], &[&expected]);
        }
        snippets::check(super::check, &[("php/tests/a.rs", text)], &[]);
    }
}
