//! Rule `noun`: product code, and comments of all other code, name who acts and what is done.

use super::Finding;
use super::mask::is_word;
use super::source::{Language, Source, Tree};

/// Names of variables and functions that leave open what is held: a request, headers, a count.
const PARTICIPLES: [&str; 3] = ["asked", "told", "heard"];

/// Pronouns that stand where a noun of the field would say more, and one adverb of theirs.
const PRONOUNS: [&str; 5] = ["whoever", "nobody", "somebody", "anybody", "anew"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (line, text) in prose(source) {
            let pronoun = pronoun(&words(text)).map(|word| {
                format!(
                    "`{word}`; name the caller, the reader, the thread … that is meant, or say \
                     `again`"
                )
            });
            let vague = || {
                let comment = if is_product(source) {
                    behind(text, "//")
                } else {
                    text
                };
                let word = vague(&words(comment)).filter(|_| is_plain(source, line))?;
                Some(format!(
                    "`{word}`; say what is done: sent, read, requested, notified, distinguished …"
                ))
            };
            if let Some(message) = pronoun.or_else(vague) {
                findings.push(Finding::new(&source.path, line, "noun", message));
            }
        }
        findings.extend(participles(source));
    }
    findings
}

/// Names in code that is no test.
fn participles(source: &Source) -> impl Iterator<Item = Finding> {
    let is_read = source.language == Language::Rust && comments(source).is_some();
    let words = if is_read { source.words() } else { Vec::new() };
    let words = words
        .into_iter()
        .filter(|word| PARTICIPLES.contains(&word.text) && !source.is_test_line(word.line));
    words.map(|word| {
        let message = format!(
            "`{}`; name what it holds: request, answer, counts …",
            word.text
        );
        Finding::new(&source.path, word.line, "noun", message)
    })
}

/// The lines that are held to the rule, counted from 1: all of product code; of other code, where
/// `nobody` is also a value that a test sends, the comments.
fn prose(source: &Source) -> Vec<(usize, &str)> {
    let lines = source.text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line));
    if is_product(source) {
        return lines.collect();
    }
    match comments(source) {
        Some(Comments::Slashes) => lines.map(|(at, line)| (at, behind(line, "//"))).collect(),
        Some(Comments::Stars) => lines.map(|(at, line)| (at, starred(line))).collect(),
        Some(Comments::Hashes) => {
            let hashed = lines.map(|(at, line)| (at, behind(line, "#")));
            hashed.chain(docstrings(source)).collect()
        }
        None => Vec::new(),
    }
}

/// How a language marks its comments.
enum Comments {
    /// `//`
    Slashes,
    /// `//` and `/** … */`
    Stars,
    /// `#`, and texts that stand alone
    Hashes,
}

/// `None` for code that the rule does not read.
fn comments(source: &Source) -> Option<Comments> {
    let top = source.path.split('/').next().unwrap_or_default();
    let is_read = matches!(
        top,
        "crates" | "bench" | "tests" | "fuzz" | "clients" | "php" | "python"
    );
    let extension = source.path.rsplit_once('.').filter(|_| is_read)?.1;
    match (source.language, extension) {
        (Language::Rust, _) | (_, "go") => Some(Comments::Slashes),
        (Language::JavaScript, _) | (_, "php") => Some(Comments::Stars),
        (Language::Python, _) => Some(Comments::Hashes),
        _ => None,
    }
}

fn is_product(source: &Source) -> bool {
    let path = source.path.as_str();
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let is_source = path.starts_with("crates/") && path.contains("/src/");
    source.language == Language::Rust && is_source && !is_test
}

/// Where vague verbs are refused, too: in tests, in the clients and in the caches beside the
/// server.
fn is_plain(source: &Source, line: usize) -> bool {
    let top = source.path.split('/').next().unwrap_or_default();
    matches!(top, "clients" | "php" | "python") || source.is_test_line(line)
}

/// What stands behind a mark at the beginning of the line or after a space, as no address has it.
fn behind<'a>(line: &'a str, mark: &str) -> &'a str {
    let starts = line.match_indices(mark).map(|(start, _)| start);
    let mut spaced = starts.filter(|start| line[..*start].ends_with([' ', '\t']) || *start == 0);
    spaced.next().map_or("", |start| &line[start..])
}

fn starred(line: &str) -> &str {
    let trimmed = line.trim_start();
    if trimmed.starts_with("/*") || trimmed.starts_with('*') {
        return trimmed;
    }
    behind(line, "//")
}

/// Each line of the texts that begin a line with three quotes.
fn docstrings(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let first: Vec<&str> = source.text.lines().collect();
    let alone = source.literals.iter().filter(move |literal| {
        let line = first.get(literal.line - 1).copied().unwrap_or_default();
        line.trim_start().starts_with("\"\"\"")
    });
    alone.flat_map(|literal| {
        let lines = literal.text.lines().enumerate();
        lines.map(move |(index, line)| (literal.line + index, line))
    })
}

fn words(line: &str) -> Vec<String> {
    let words = line.split(|letter: char| !is_word(letter));
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn pronoun(words: &[String]) -> Option<&'static str> {
    let refused = |word: &String| PRONOUNS.into_iter().find(|refused| refused == word);
    words.iter().find_map(refused)
}

/// Verbs that leave open who sends what: a cache is looked up, a caller gets an answer. What is
/// `asked for` is requested, and a thread may be `asked to` stop.
fn vague(words: &[String]) -> Option<&'static str> {
    let next = words.iter().skip(1).map(String::as_str).chain([""]);
    words
        .iter()
        .zip(next)
        .find_map(|(word, next)| match word.as_str() {
            "told" => Some("told"),
            "asked" if !matches!(next, "for" | "to") => Some("asked"),
            "hear" | "hears" | "heard" if next == "of" => Some("hear of"),
            _ => None,
        })
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
        check("xtask/src/a.rs", &[]);
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
            "python/src/a.rs",
            "clients/go/a.go",
            "php/wordpress/src/a.php",
        ] {
            let expected = format!("{path}:2: noun");
            snippets::check(super::check, &[(path, text)], &[&expected]);
        }
        snippets::check(super::check, &[("xtask/src/a/tests.rs", text)], &[]);
    }

    #[test]
    fn vague_verbs_in_comments_of_tests_and_clients_are_refused() {
        for said in [
            "What it is told.",
            "The list as asked.",
            "Asked again, it is",
            "Who hears of it.",
        ] {
            let text = format!("let was = \"told\";\n\t// {said}\n");
            for path in [
                "crates/model/tests/a.rs",
                "crates/model/src/a/tests.rs",
                "tests/src/a/tests.rs",
                "tests/sdk/node/a.test.js",
                "fuzz/src/a.rs",
                "clients/go/a.go",
                "php/wordpress/src/a.php",
                "python/src/a.rs",
            ] {
                let expected = format!("{path}:2: noun");
                snippets::check(super::check, &[(path, &text)], &[&expected]);
            }
            for path in ["crates/model/src/a.rs", "bench/harness/src/a.rs"] {
                snippets::check(super::check, &[(path, &text)], &[]);
            }
        }
        let plain = "// It is asked for, and asked to stop; who may hear it.\n";
        snippets::check(super::check, &[("crates/model/tests/a.rs", plain)], &[]);
    }

    #[test]
    fn participle_is_no_name_in_code_that_is_no_test() {
        let text = "fn a(asked: u32) {}\nconst B: &str = \"asked\";\n\
                    #[cfg(test)]\nmod tests {\n    const told: u32 = 1;\n}\n";
        for path in [
            "crates/model/src/a.rs",
            "bench/harness/src/a.rs",
            "python/src/a.rs",
        ] {
            let expected = format!("{path}:1: noun");
            snippets::check(super::check, &[(path, text)], &[&expected]);
        }
        snippets::check(super::check, &[("crates/model/tests/a.rs", text)], &[]);
    }

    #[test]
    fn comments_of_each_language_are_read() {
        let check = |path, text, at: &[&str]| snippets::check(super::check, &[(path, text)], at);
        let php = "/**\n * What it is told.\n */\n$told = 'told';\n";
        check(
            "php/wordpress/src/a.php",
            php,
            &["php/wordpress/src/a.php:2: noun"],
        );
        let javascript = "/** What it is told. */\nlet told = 'told';\n";
        check("clients/js/a.js", javascript, &["clients/js/a.js:1: noun"]);
        let python = "\"\"\"One.\n\nTold.\n\"\"\"\ntold = 'told'\nvalue = 1  # Told.\n";
        let found = ["python/a.py:3: noun", "python/a.py:6: noun"];
        check("python/a.py", python, &found);
    }
}
