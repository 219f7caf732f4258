//! `cargo xtask docs`: the documentation as a searchable site.
//!
//! The pages of docs/ are also read where the repository is shown, so their links lead to files of
//! the repository. On the site, links that leave docs/ become the path they lead to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::lane::{LANE_VARIABLE, Lane};
use crate::prerequisite::{self, Missing};
use crate::tally::Runner;

mod page;
mod site;

/// Build the documentation into target/docs, and check it.
///
/// The site needs no network and no server: open target/docs/index.html. Every link and anchor of
/// the built pages is checked. Every page of docs/ must have its place in docs/SUMMARY.md; those of
/// docs/decisions get one by themselves.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct DocsArguments {
    /// Install what is missing: mdBook into target/venv.
    #[arg(long)]
    install: bool,
}

/// The folder that pins mdBook.
pub const PACKAGES: Packages = Packages::PyPi("xtask");
/// The folder that pins what drives a browser, and looks at the pages with it.
const BROWSER: Packages = Packages::Npm("bench/report");
const SUMMARY: &str = "docs/SUMMARY.md";
/// Its pages need no line in the navigation: they follow the last one, in their order.
const DECISIONS: &str = "decisions/";
const SEARCH: &str = "xtask/search.mjs";

/// # Errors
/// When the pages cannot be read or the site cannot be written.
pub fn run(checkout: &Checkout, arguments: &DocsArguments) -> Result<ExitCode> {
    let missing = missing(checkout)?;
    if !missing.is_empty() && !arguments.install {
        let advice = "`cargo xtask docs --install` installs these";
        return Ok(prerequisite::refuse(&missing, advice));
    }
    if !missing.is_empty() && !install::run_all(PACKAGES.install(checkout)?)? {
        bail!("mdBook cannot be installed");
    }
    let is_whole = build(checkout)?;
    println!("{}", checkout.shown(&built(checkout)?.join("index.html")));
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn missing(checkout: &Checkout) -> Result<Vec<Missing>> {
    let mut missing = prerequisite::for_python();
    if missing.is_empty() && !PACKAGES.are_present(checkout)? {
        missing.push(PACKAGES.missing());
    }
    Ok(missing)
}

/// The site, whether its search finds what people look for, and whether its pages are whole and
/// accessible in a browser; every page at each width if `is_night`.
///
/// # Errors
/// When cargo cannot say where its target folder is.
pub fn steps(checkout: &Checkout, lane: &mut Lane, is_night: bool) -> Result<()> {
    let (name, browser) = ("search of the documentation", "pages of the documentation");
    let is_there = install::provide(checkout, lane, PACKAGES)?;
    if !is_there || !lane.step("documentation", |_| build(checkout)) {
        lane.not_run(name);
        lane.not_run(browser);
        return Ok(());
    }
    let mut search = checkout.command("node");
    search.args(["--test", SEARCH]);
    search.env("TIDEMARK_DOCS", built(checkout)?);
    lane.run(name, Runner::Node, &mut search);
    if !install::provide(checkout, lane, BROWSER)? {
        lane.not_run(browser);
        return Ok(());
    }
    let mut pages = checkout.command("node");
    pages.current_dir(checkout.root.join(BROWSER.folder()));
    pages.args(["--test", "docs-pages.js"]);
    pages.env("TIDEMARK_DOCS", built(checkout)?);
    if is_night {
        pages.env(LANE_VARIABLE, "night");
    }
    lane.run(browser, Runner::Node, &mut pages);
    Ok(())
}

fn built(checkout: &Checkout) -> Result<PathBuf> {
    Ok(checkout.target()?.join("docs"))
}

/// Builds and checks; prints what is wrong. True when nothing is.
fn build(checkout: &Checkout) -> Result<bool> {
    let staged = checkout.target()?.join("docs-source");
    let out = built(checkout)?;
    for folder in [&staged, &out] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| checkout.shown(folder))?;
        }
    }
    let wrong = stage(checkout, &staged)?;
    let mut command = checkout.command(install::program(checkout, "mdbook")?);
    command.env("RUST_LOG", "warn").arg("build").arg(&staged);
    command.arg("--dest-dir").arg(&out);
    let status = command.status().context("mdbook does not start")?;
    if !status.success() {
        return Ok(false);
    }
    let wrong = [wrong, site::check(&out)?].concat();
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Copies docs/ as mdBook is to read it. Answers which pages are in no navigation.
fn stage(checkout: &Checkout, staged: &Path) -> Result<Vec<String>> {
    let mut summary = fs::read_to_string(checkout.root.join(SUMMARY)).context(SUMMARY)?;
    let mut unlisted = Vec::new();
    for path in checkout.files()? {
        let Some(inside) = path.strip_prefix("docs/") else {
            continue;
        };
        let to = staged.join(inside);
        let folder = to.parent().context("a file has a folder")?;
        fs::create_dir_all(folder).with_context(|| checkout.shown(folder))?;
        let from = checkout.root.join(&path);
        if to.extension().is_none_or(|end| end != "md") {
            fs::copy(&from, &to).with_context(|| path.clone())?;
            continue;
        }
        let text = fs::read_to_string(&from).with_context(|| path.clone())?;
        if inside.starts_with(DECISIONS) && !inside.ends_with("README.md") {
            summary += &page::entry(inside, &text);
        }
        fs::write(&to, page::for_site(&path, &text)).with_context(|| checkout.shown(&to))?;
        let is_listed = inside == "SUMMARY.md" || summary.contains(&format!("({inside})"));
        if !is_listed {
            unlisted.push(format!("{path}: has no place in {SUMMARY}"));
        }
    }
    fs::write(staged.join("SUMMARY.md"), summary).context(SUMMARY)?;
    Ok(unlisted)
}
