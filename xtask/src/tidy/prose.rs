//! Rule `noun`: product code names who acts.

use super::Finding;
use super::mask::is_word;
use super::source::Tree;

/// Pronouns that stand where a noun of the field would say more, and one adverb of theirs.
const REFUSED: [&str; 5] = ["whoever", "nobody", "somebody", "anybody", "anew"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree
        .sources
        .iter()
        .filter(|source| is_product(&source.path))
    {
        for (index, line) in source.text.lines().enumerate() {
            if let Some(word) = refused(line) {
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

fn is_product(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let is_rust = path.rsplit_once('.').is_some_and(|(_, end)| end == "rs");
    path.starts_with("crates/") && path.contains("/src/") && is_rust && !is_test
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
        check("crates/model/src/a/tests.rs", &[]);
        check("crates/model/tests/a.rs", &[]);
        check("bench/harness/src/a.rs", &[]);
    }
}
