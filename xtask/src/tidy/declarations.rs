//! Rules `type-name`, `trait` and `test-name`: names that say one thing, and small interfaces.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{Source, Tree, Word};

const METHODS_MAX: usize = 8;
/// Words that stand for a thing without naming it.
const PRONOUNS: [&str; 30] = [
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
    "whose",
    "they",
    "them",
    "their",
    "it",
    "its",
    "this",
    "that",
    "these",
    "those",
    "there",
    "he",
    "she",
    "we",
    "you",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "nothing",
    "something",
    "anything",
    "everything",
    "neither",
    "none",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut types: BTreeMap<&str, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in tree.rust() {
        let words = source.words();
        for (at, word) in words.iter().enumerate() {
            let Some(name) = words.get(at + 1).filter(|_| is_item(source, &words, at)) else {
                continue;
            };
            if word.text == "fn" {
                check_test(source, word, name, &mut findings);
                continue;
            }
            if word.text == "trait" {
                check_trait(source, name, &mut findings);
            }
            if !source.is_test_line(name.line) {
                types
                    .entry(name.text)
                    .or_default()
                    .push((source, name.line));
            }
        }
    }
    for (name, places) in types.iter().filter(|(_, places)| places.len() > 1) {
        for (nth, (source, line)) in places.iter().enumerate() {
            let (other, other_line) = places[usize::from(nth == 0)];
            let message = format!(
                "type `{name}` is defined at {}:{other_line}, too; name each by what differs",
                other.path
            );
            findings.push(Finding::new(&source.path, *line, "type-name", message));
        }
    }
    findings
}

/// Whether the word begins a definition, whose name follows.
fn is_item(source: &Source, words: &[Word<'_>], at: usize) -> bool {
    let (word, next) = (&words[at], words.get(at + 1));
    let is_keyword = matches!(word.text, "fn" | "struct" | "enum" | "trait" | "union");
    let between = next.map(|next| &source.code[word.end..next.end - next.text.len()]);
    is_keyword && between.is_some_and(|between| between.trim().is_empty())
}

fn check_trait(source: &Source, name: &Word<'_>, findings: &mut Vec<Finding>) {
    let Some(open) = source.code[name.end..].find('{').map(|at| name.end + at) else {
        return;
    };
    let close = source.closing_brace(open).unwrap_or(source.code.len());
    let words = source.words();
    let inside = words
        .iter()
        .filter(|word| (open..close).contains(&word.end));
    let is_method = |word: &&Word<'_>| {
        let depth = source.code[open..word.end].matches('{').count();
        word.text == "fn" && depth == source.code[open..word.end].matches('}').count() + 1
    };
    for (nth, method) in inside.filter(is_method).enumerate().skip(METHODS_MAX) {
        let message = format!(
            "method {} of trait `{}`; split it by subject, {METHODS_MAX} at most",
            nth + 1,
            name.text
        );
        findings.push(Finding::new(&source.path, method.line, "trait", message));
    }
}

fn check_test(source: &Source, keyword: &Word<'_>, name: &Word<'_>, findings: &mut Vec<Finding>) {
    let first = name.text.split('_').next().unwrap_or(name.text);
    if !PRONOUNS.contains(&first) || !is_test(source, keyword) {
        return;
    }
    let message = format!(
        "test `{}` begins with `{first}`; begin with the thing it is about",
        name.text
    );
    findings.push(Finding::new(&source.path, name.line, "test-name", message));
}

/// Whether the attributes over a function make it a test.
fn is_test(source: &Source, keyword: &Word<'_>) -> bool {
    let before = &source.code[..keyword.end - keyword.text.len()];
    let begin = before.rfind(['{', '}', ';']).map_or(0, |at| at + 1);
    let attributes = &before[begin..];
    attributes.contains("#[test]")
        || attributes.contains("::test]")
        || attributes.contains("::test(")
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn type_name_stands_once_in_the_workspace() {
        let both = [
            "crates/a/src/b.rs:1: type-name",
            "crates/c/src/d.rs:2: type-name",
        ];
        let texts = [
            ("crates/a/src/b.rs", "struct Row;"),
            ("crates/c/src/d.rs", "// enum Row\npub enum Row { A }"),
        ];
        check(&texts, &both);
        let test = ("crates/c/tests/d.rs", "struct Row;");
        let inside = (
            "crates/c/src/d.rs",
            "#[cfg(test)]\nmod tests {\n    struct Row;\n}",
        );
        check(&[texts[0], test, inside], &[]);
        check(
            &[texts[0], ("crates/c/src/d.rs", "fn row(_: Row) -> Row {}")],
            &[],
        );
    }

    #[test]
    fn trait_has_at_most_eight_methods() {
        let methods = |count: usize| "fn a() { if b { } }\n".repeat(count);
        check(
            &[(
                "a.rs",
                &format!("trait T {{\n{}}}\n{}", methods(8), methods(9)),
            )],
            &[],
        );
        let over = format!("pub trait T: U {{\ntype V;\n{}}}", methods(10));
        check(&[("a.rs", &over)], &["a.rs:11: trait", "a.rs:12: trait"]);
    }

    #[test]
    fn test_name_begins_with_a_noun() {
        let riddle = "#[test]\n#[cfg(unix)]\nfn what_is_lost_comes_back() {}";
        check(
            &[("crates/a/tests/b.rs", riddle)],
            &["crates/a/tests/b.rs:3: test-name"],
        );
        let other = "#[tokio::test(flavor = \"x\")]\nasync fn they_end() {}";
        check(&[("a.rs", other)], &["a.rs:2: test-name"]);
        check(
            &[(
                "a.rs",
                "#[test]\nfn rows_come_back() {}\nfn what_is_lost() {}",
            )],
            &[],
        );
    }
}
