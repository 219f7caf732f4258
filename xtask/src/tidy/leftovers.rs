//! Rules `machine-path` and `leftover`: what somebody forgot.

use super::Finding;
use super::mask::is_word;
use super::source::Tree;

/// Folders of one machine, wherever a path begins. Taken apart, or this file would hold them.
const MACHINE: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/", "bash"),
    concat!("/home", "/"),
];
const NOTES: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        // Hashes in lock files may spell anything.
        let file = source.path.rsplit('/').next();
        if matches!(file, Some("Cargo.lock" | "package-lock.json")) {
            continue;
        }
        // So may the samples of kept runs.
        let is_written = !source.path.starts_with("bench/results/");
        for (index, line) in source.text.lines().enumerate() {
            if MACHINE.iter().any(|folder| begins_path(line, folder)) {
                let message = "a path of one machine; take it as an argument, or make it relative";
                findings.push(Finding::new(
                    &source.path,
                    index + 1,
                    "machine-path",
                    message,
                ));
            }
            let mut notes = NOTES.iter().filter(|_| is_written);
            if let Some(note) = notes.find(|note| has_word(line, note)) {
                let message = format!("`{note}`; do it, or open an issue and delete the note");
                findings.push(Finding::new(&source.path, index + 1, "leftover", message));
            }
        }
    }
    findings
}

/// A folder in the middle of another path, or of an address, is nobody's machine.
fn begins_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|letter| !is_word(letter) && !"./-}>)]*~".contains(letter))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at]
            .chars()
            .next_back()
            .is_none_or(|letter| !is_word(letter));
        let after = line[at + word.len()..]
            .chars()
            .next()
            .is_none_or(|letter| !is_word(letter));
        before && after
    })
}

#[cfg(test)]
mod tests {
    use super::super::snippets;
    use super::{MACHINE, NOTES};

    #[test]
    fn a_path_of_one_machine_is_refused() {
        for folder in MACHINE {
            let text = format!("\nlet a = \"{folder}b\";");
            snippets::check(super::check, &[("a.rs", &text)], &["a.rs:2: machine-path"]);
            let inside = format!("https://example.org{folder}b ..{folder}b");
            snippets::check(super::check, &[("a.md", &inside)], &[]);
            snippets::check(super::check, &[("package-lock.json", &text)], &[]);
        }
    }

    #[test]
    fn a_note_to_finish_it_later_is_refused() {
        for note in NOTES {
            let text = format!("// {note}: more");
            snippets::check(super::check, &[("a.py", &text)], &["a.py:1: leftover"]);
            snippets::check(
                super::check,
                &[("a.py", &format!("# {note}S MY{note}"))],
                &[],
            );
        }
    }
}
