//! Rule `commit`: what the history says of each change.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::Finding;
use crate::checkout::Checkout;

const RULE: &str = "commit";
/// Commits before it were written without the rule.
const SINCE: &str = "492cfbe";
/// `git log --oneline` of a narrow terminal shows so much.
const SUBJECT_MAX: usize = 72;
/// A change that has more lines, added and removed, says why it was made.
const LINES_MAX: usize = 50;
/// Written by programs: nobody reads them line by line.
const GENERATED: [&str; 4] = [
    "Cargo.lock",
    "package-lock.json",
    "bench/results/",
    "/golden/",
];

/// One commit as `git log` tells of it.
#[derive(Debug, PartialEq)]
struct Commit {
    id: String,
    subject: String,
    body: String,
    /// Lines that were added and removed by hand.
    lines: usize,
}

/// Judges each commit since the rule was made.
///
/// # Errors
/// When git does not start or cannot read the history.
pub fn check(checkout: &Checkout) -> Result<Vec<Finding>> {
    let Some(log) = read_log(checkout)? else {
        eprintln!("tidy: the history does not reach back to {SINCE}; commits are not judged");
        return Ok(Vec::new());
    };
    Ok(parse(&log).iter().flat_map(judge).collect())
}

/// The history since [`SINCE`]; `None` where a copy of the project does not have it.
fn read_log(checkout: &Checkout) -> Result<Option<String>> {
    let mut known = checkout.command("git");
    known.args(["merge-base", "--is-ancestor", SINCE, "HEAD"]);
    let known = known.stderr(Stdio::null()).status();
    if !known.context("git does not start")?.success() {
        return Ok(None);
    }
    let mut command = checkout.command("git");
    command.args(["log", "--numstat", "--format=%x01%h%x02%s%x02%b%x02"]);
    let output = command.arg(format!("{SINCE}..HEAD")).output()?;
    if !output.status.success() {
        bail!(
            "`git log`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Commits begin with U+0001; U+0002 ends identifier, subject and body.
fn parse(log: &str) -> Vec<Commit> {
    let commits = log.split('\u{1}').skip(1);
    let parts = commits.filter_map(|commit| {
        let mut parts = commit.split('\u{2}').map(|part| part.trim().to_owned());
        let (id, subject, body) = (parts.next()?, parts.next()?, parts.next()?);
        let lines = parts.next()?.lines().map(changed).sum();
        Some(Commit {
            id,
            subject,
            body,
            lines,
        })
    });
    parts.collect()
}

/// Lines that one row of `--numstat` counts; a binary file has none.
fn changed(row: &str) -> usize {
    let mut words = row.split('\t');
    let (added, removed) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = words.next().unwrap_or("");
    if GENERATED.iter().any(|part| path.contains(part)) {
        return 0;
    }
    let count = |text: &str| text.parse::<usize>().unwrap_or(0);
    count(added) + count(removed)
}

fn judge(commit: &Commit) -> Vec<Finding> {
    let Commit {
        id,
        subject,
        body,
        lines,
    } = commit;
    let path = format!("commit {id}");
    let columns = subject.chars().count();
    let mut messages = Vec::new();
    if columns > SUBJECT_MAX {
        messages.push(format!(
            "subject of {columns} letters; {SUBJECT_MAX} at most"
        ));
    }
    if subject.contains(';') || subject.starts_with("Merge ") {
        messages.push("the subject joins several changes; make a commit of each".to_owned());
    }
    if *lines > LINES_MAX && body.is_empty() {
        messages.push(format!(
            "{lines} lines without a body; say why they changed"
        ));
    }
    let finding = |message| Finding::new(&path, 1, RULE, message);
    messages.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(subject: &str, body: &str, lines: usize) -> Commit {
        let [id, subject, body] = ["abc", subject, body].map(str::to_owned);
        Commit {
            id,
            subject,
            body,
            lines,
        }
    }

    #[track_caller]
    fn check(commit: &Commit, expected: &[&str]) {
        let messages: Vec<String> = judge(commit).into_iter().map(|one| one.message).collect();
        assert_eq!(messages.len(), expected.len(), "{messages:?}");
        for (message, part) in messages.iter().zip(expected) {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn commit_has_one_change_with_a_short_subject() {
        check(&commit(&"é".repeat(72), "", 50), &[]);
        check(&commit(&"e".repeat(73), "", 50), &["73 letters"]);
        check(&commit("Add a; drop b", "", 1), &["several changes"]);
        check(&commit("Merge branch 'a'", "", 1), &["several changes"]);
    }

    #[test]
    fn large_commit_says_why() {
        check(&commit("Move rows", "", 51), &["51 lines"]);
        check(&commit("Move rows", "They are written there.", 51), &[]);
    }

    #[test]
    fn log_is_split_into_commits() {
        let log = "\u{1}a1\u{2}First\u{2}Because.\n\u{2}\n\n3\t4\ta.rs\n-\t-\tb.png\n\
                   90\t1\tCargo.lock\n\u{1}b2\u{2}Second\u{2}\u{2}\n";
        let first = Commit {
            id: "a1".to_owned(),
            ..commit("First", "Because.", 7)
        };
        let second = Commit {
            id: "b2".to_owned(),
            ..commit("Second", "", 0)
        };
        assert_eq!(parse(log), [first, second]);
    }
}
