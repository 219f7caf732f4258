//! The linter of texts that users read. `xtask/prose/vocabulary.yml` holds the words it refuses.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::Lane;
use crate::tally::Runner;

/// What brings the linter.
pub const PACKAGES: Packages = Packages::Npm("xtask/prose");
const NAME: &str = "words of the documentation";
/// Pages for those who change Tidemark: they name what its code calls things.
const INTERNAL: [&str; 3] = [
    "docs/decisions/",
    "docs/data-format.md",
    "docs/performance.md",
];
/// Commands whose help is checked, as words of the command line.
const HELP: [&str; 38] = [
    "",
    "serve",
    "project create",
    "project list",
    "project delete",
    "key create",
    "key list",
    "key revoke",
    "export",
    "import",
    "move",
    "maintain",
    "schema pull",
    "schema diff",
    "schema push",
    "schema types",
    "function init",
    "function dev",
    "function deploy",
    "function run",
    "function logs",
    "function list",
    "function delete",
    "function variable set",
    "function variable list",
    "function variable delete",
    "options",
    "explain",
    "history",
    "erase",
    "top",
    "doctor",
    "licenses",
    "seed catalog",
    "bench ttl",
    "bench load",
    "bench bitemporal",
    "bench hostile",
];

/// The pages.
///
/// # Errors
/// When the files of the project cannot be listed.
pub fn pages(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    if !install::provide(checkout, lane, PACKAGES)? {
        lane.not_run(NAME);
        return Ok(());
    }
    let files = checkout
        .files()?
        .into_iter()
        .filter(|path| is_for_users(path));
    let mut linter = linter(checkout);
    linter.args(files);
    lane.run(NAME, Runner::None, &mut linter);
    Ok(())
}

/// The help of the built binary.
///
/// # Errors
/// When the binary does not start, or its help cannot be written to a file.
pub fn help(checkout: &Checkout, lane: &mut Lane) -> Result<()> {
    let path = help_file(checkout)?;
    let mut linter = linter(checkout);
    linter.arg(path);
    lane.run("words of the help", Runner::None, &mut linter);
    Ok(())
}

fn help_file(checkout: &Checkout) -> Result<PathBuf> {
    let mut text = String::new();
    for command in HELP {
        let mut tidemark = checkout.command(checkout.debug_binary()?);
        tidemark.args(command.split_whitespace()).arg("--help");
        let output = tidemark.output().context("tidemark does not start")?;
        text += &String::from_utf8_lossy(&output.stdout);
    }
    let path = checkout.target()?.join("help.txt");
    std::fs::write(&path, text).with_context(|| checkout.shown(&path))?;
    Ok(path)
}

fn linter(checkout: &Checkout) -> Command {
    let folder = checkout.root.join(PACKAGES.folder());
    let mut command = checkout.command(folder.join("node_modules/.bin/textlint"));
    command.args(["--format", "unix", "--config"]);
    command.arg(folder.join(".textlintrc.json"));
    command
}

/// Pages that users read: the documentation, what is new, and how each folder is used.
fn is_for_users(path: &str) -> bool {
    let is_page = path.strip_suffix(".md").is_some();
    let is_read = !path.contains('/')
        || ["docs/", "changelog.d/", "clients/", "python/"]
            .iter()
            .any(|folder| path.starts_with(folder));
    is_page && is_read && !INTERNAL.iter().any(|internal| path.starts_with(internal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_users_are_told_from_those_for_developers() {
        for path in [
            "README.md",
            "docs/reference/http.md",
            "changelog.d/0001-x.md",
        ] {
            assert!(is_for_users(path), "{path}");
        }
        for path in [
            "docs/decisions/0001-lints.md",
            "docs/performance.md",
            "tests/x/README.md",
        ] {
            assert!(!is_for_users(path), "{path}");
        }
    }
}
