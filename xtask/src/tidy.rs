//! `cargo xtask tidy`: the rules of the house that a machine can check.
//!
//! Each rule is a pure function from the texts of the tree to findings, in a file of its own
//! under `tidy/`; this file reads the tree and prints.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::checkout::Checkout;

mod allow;
mod calls;
mod commits;
mod cycles;
mod declarations;
mod dependencies;
mod floors;
mod functions;
mod graph;
mod imports;
mod leftovers;
mod licence;
mod links;
mod manifest;
mod mask;
mod names;
mod prose;
mod rooms;
mod sizes;
mod source;
mod storage;

#[cfg(test)]
mod snippets;

use source::Tree;

/// The rules of the house: imports, purity, sizes, words, dependencies, leftovers, links.
///
/// Reads every file that is in git or would be added to it. Prints one line for each finding:
///
///     path:line: rule: what is wrong; what to do instead
///
/// Rules:
///     imports        which room may use which (the table in xtask/src/tidy/rooms.rs)
///     budget         outside crates per room
///     dependency     each outside dependency has its line in docs/decisions/dependencies.md
///     sql-text       SQL stands in crates/query/src/emit.rs and crates/store/ only
///     database-name  the engine and what is above it do not know which database is below
///     serialisation  only crates/server and the rooms above it derive it
///     purity         pure rooms: no files, sockets, threads, clocks, chance
///     clock          below the server, the wall clock comes in as an argument
///     environment    read in crates/tidemark/src/config.rs only
///     banned-call    no process exit, todo!, unimplemented!, dbg!, #[ignore]
///     line           at most 100 columns (links and test data excepted)
///     function       at most 70 lines
///     file           at most 800 lines without tests
///     cycle          the files of a crate import one another in one direction
///     floor          folders of a module import those below them (the table in floors.rs)
///     trait          at most 8 methods
///     type-name      a type's name stands once in the workspace
///     test-name      a test's name begins with the thing it is about
///     commit         one change, its subject of at most 72 letters; above 50 lines, a reason
///     noun           no `whoever`, `nobody` and the like; in comments of tests no `told`
///     word           no file or type called helper, manager, common and the like
///     machine-path   no path of somebody's machine
///     leftover       no note to finish something later
///     licence        every manifest names the licence, every package carries its texts
///     link           relative links in Markdown lead somewhere
///     allow          xtask/tidy-allow.toml lists exactly what is excused, and why
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

/// One place that breaks one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    rule: &'static str,
    /// What is wrong; what to do instead.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            rule,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.message
        )
    }
}

/// # Errors
/// When the tree or the list of exceptions cannot be read.
pub fn run(checkout: &Checkout, _: &Arguments) -> Result<ExitCode> {
    Ok(if report(checkout)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints every finding that is not excused. True when there is none.
///
/// # Errors
/// When the tree or the list of exceptions cannot be read.
pub fn report(checkout: &Checkout) -> Result<bool> {
    let tree = read_tree(checkout)?;
    let listed = tree
        .source(allow::PATH)
        .map_or("", |source| source.text.as_str());
    let exceptions = allow::parse(listed).context(allow::PATH)?;
    let mut found = check(&tree);
    found.extend(commits::check(checkout)?);
    let findings = allow::apply(&exceptions, found);
    for finding in &findings {
        println!("{finding}");
    }
    let plural = if findings.len() == 1 { "" } else { "s" };
    println!(
        "tidy: {} files, {} finding{plural}",
        tree.paths.len(),
        findings.len()
    );
    Ok(findings.is_empty())
}

/// Every rule over the whole tree, in the order of path and line.
fn check(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 14] = [
        imports::check,
        storage::check,
        calls::check,
        dependencies::check,
        sizes::check,
        functions::check,
        cycles::check,
        floors::check,
        names::check,
        prose::check,
        declarations::check,
        leftovers::check,
        licence::check,
        links::check,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings.dedup();
    findings
}

fn read_tree(checkout: &Checkout) -> Result<Tree> {
    let mut texts = Vec::new();
    for path in checkout.files()? {
        // What is not UTF-8 has no lines to judge, but links may lead to it.
        let bytes = std::fs::read(checkout.root.join(&path)).with_context(|| path.clone())?;
        texts.push((path, String::from_utf8(bytes).unwrap_or_default()));
    }
    Ok(Tree::new(texts))
}
