//! The one function through which the rules' tests reach them.

use super::Finding;
use super::source::Tree;

/// Runs one rule over a tree of (path, text) snippets; expects `path:line: rule` of each finding.
#[track_caller]
pub fn check(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)], expected: &[&str]) {
    let owned = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let mut findings = rule(&Tree::new(owned.collect()));
    findings.sort();
    let shown: Vec<String> = findings
        .iter()
        .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.rule))
        .collect();
    assert_eq!(shown, expected, "{findings:#?}");
}
