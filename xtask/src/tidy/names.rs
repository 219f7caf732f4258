//! Rule `word`: names that say nothing.

use super::Finding;
use super::source::{Language, Source, Tree};

const REFUSED: [&str; 14] = [
    "util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "service",
    "services", "info", "base", "smart", "data",
];
/// Means something only where requests come in.
const REFUSED_OUTSIDE_HTTP: [&str; 2] = ["handler", "handlers"];
/// Names of others that end in a 2 which counts nothing.
const PROPER: [&str; 6] = ["argon2", "bzip2", "h2", "http2", "pbkdf2", "sha2"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let in_http = source.path.contains("/http/");
        if !matches!(source.language, Language::Markdown | Language::Other) {
            for name in source.path.split('/') {
                let stem = name.split('.').next().unwrap_or(name);
                findings.extend(judge(source, 1, "path", stem, in_http));
            }
        }
        for (line, kind, name) in definitions(source) {
            findings.extend(judge(source, line, kind, name, in_http));
        }
    }
    findings
}

fn judge(source: &Source, line: usize, kind: &str, name: &str, http: bool) -> Option<Finding> {
    let words = split(name);
    let vague = words.iter().enumerate().find(|(index, word)| {
        let next = words.get(index + 1).map_or("", String::as_str);
        // The data directory is a thing of its own; the design calls it so.
        let is_directory = *word == "data" && matches!(next, "dir" | "directory");
        let is_refused = REFUSED.contains(&word.as_str())
            || !http && REFUSED_OUTSIDE_HTTP.contains(&word.as_str());
        is_refused && !is_directory
    });
    let why = if let Some((_, word)) = vague {
        format!("`{word}` says nothing; name what it holds or does")
    } else if is_numbered(&words) {
        "a 2 at the end says nothing; say how it differs from the first".to_owned()
    } else {
        return None;
    };
    Some(Finding::new(
        &source.path,
        line,
        "word",
        format!("{kind} `{name}`: {why}"),
    ))
}

fn is_numbered(words: &[String]) -> bool {
    let Some(last) = words.last() else {
        return false;
    };
    let before = last.strip_suffix('2');
    let counts = before.is_some_and(|before| !before.ends_with(|l: char| l.is_ascii_digit()));
    counts && words.len() + last.len() > 2 && !PROPER.contains(&last.as_str())
}

/// `HttpRow_data` → `http row data`; digits stay with what they follow.
fn split(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let letters: Vec<char> = name.chars().collect();
    let mut begins = true;
    for (index, letter) in letters.iter().enumerate() {
        if !letter.is_alphanumeric() {
            begins = true;
            continue;
        }
        let before_is_small = index > 0 && !letters[index - 1].is_uppercase();
        let next_is_small = letters
            .get(index + 1)
            .is_some_and(|next| next.is_lowercase());
        begins |= letter.is_uppercase() && (before_is_small || next_is_small);
        if begins {
            words.push(String::new());
        }
        begins = false;
        let word = words
            .last_mut()
            .expect("the first letter always begins a word");
        word.extend(letter.to_lowercase());
    }
    words
}

/// Types and modules that the code defines.
fn definitions(source: &Source) -> Vec<(usize, &str, &str)> {
    let keywords: &[&str] = match source.language {
        Language::Rust => &["struct", "enum", "trait", "mod", "union"],
        Language::JavaScript => &["class", "interface"],
        Language::Python => &["class"],
        _ => &[],
    };
    let words = source.words();
    let mut found = Vec::new();
    for pair in words.windows(2) {
        let between = &source.code[pair[0].end..pair[1].end - pair[1].text.len()];
        if keywords.contains(&pair[0].text) && between.trim().is_empty() {
            found.push((pair[1].line, pair[0].text, pair[1].text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn files_are_named_by_what_they_hold() {
        let bad = [
            "crates/a/src/util.rs",
            "crates/a/src/row_helpers.rs",
            "crates/a/src/base/b.rs",
        ];
        for path in bad {
            check(&[(path, "")], &[format!("{path}:1: word").as_str()]);
        }
        for path in [
            "crates/a/src/database.rs",
            "docs/common.md",
            "crates/a/src/base64.rs",
        ] {
            check(&[(path, "")], &[]);
        }
    }

    #[test]
    fn types_are_named_by_what_they_are() {
        let text =
            "struct RowManager;\nenum HTTPInfo {}\ntrait Data {}\nmod rows2 {}\nstruct Rows2;";
        let expected = [
            "a.rs:1: word",
            "a.rs:2: word",
            "a.rs:3: word",
            "a.rs:4: word",
            "a.rs:5: word",
        ];
        check(&[("a.rs", text)], &expected);
        check(&[("a.py", "class Helper:\n    pass")], &["a.py:1: word"]);
    }

    #[test]
    fn only_whole_words_count() {
        let text = "struct Database;\nstruct Services1st;\nstruct DataDirectory;\nmod sha2 {}\n\
                    struct Utf32;\nstruct Basement; // struct Helper\nfn common() {}\nlet data = 1;";
        check(&[("a.rs", text)], &[]);
    }

    #[test]
    fn a_handler_belongs_to_http() {
        let text = "struct RowHandler;";
        check(&[("crates/server/src/http/rows.rs", text)], &[]);
        check(
            &[("crates/engine/src/read/rows.rs", text)],
            &["crates/engine/src/read/rows.rs:1: word"],
        );
    }
}
