//! Whether the links of the built site lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// All chapters in one page, for printing; its links are those of the pages.
const PRINTED: &str = "print.html";

/// One line for each link or anchor that leads nowhere, and for each page that would load
/// something over the network.
///
/// # Errors
/// When the site cannot be read.
pub fn check(site: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    read(site, "", &mut pages, &mut files)?;
    Ok(judge_all(&pages, &files))
}

fn judge_all(pages: &BTreeMap<String, String>, files: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let judged = pages.iter().filter(|(path, _)| !is_generated(path));
    for (path, text) in judged {
        for target in attributes(text, "href") {
            if let Some(reason) = judge(path, &target, pages, files) {
                wrong.push(format!("{path}: `{target}` {reason}"));
            }
        }
        for source in attributes(text, "src") {
            if source.contains("://") {
                wrong.push(format!("{path}: loads `{source}` over the network"));
            } else if let Some(reason) = judge(path, &source, pages, files) {
                wrong.push(format!("{path}: `{source}` {reason}"));
            }
        }
    }
    wrong
}

/// Pages that mdBook writes beside the chapters.
fn is_generated(path: &str) -> bool {
    [PRINTED, "404.html", "toc.html"].contains(&path)
}

fn read(
    folder: &Path,
    prefix: &str,
    pages: &mut BTreeMap<String, String>,
    files: &mut BTreeSet<String>,
) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{path}/"), pages, files)?;
            continue;
        }
        if Path::new(&path)
            .extension()
            .is_some_and(|end| end == "html")
        {
            let text = fs::read_to_string(entry.path()).with_context(|| path.clone())?;
            pages.insert(path.clone(), text);
        }
        files.insert(path);
    }
    Ok(())
}

/// The values of an attribute, wherever it stands in a tag.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let opening = format!(" {name}=\"");
    let values = html.split(&opening).skip(1);
    values
        .filter_map(|rest| rest.split('"').next())
        .map(|value| value.replace("&amp;", "&").replace("&#x27;", "'"))
        .collect()
}

fn judge(
    page: &str,
    target: &str,
    pages: &BTreeMap<String, String>,
    files: &BTreeSet<String>,
) -> Option<&'static str> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere || target.starts_with("data:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        resolve(page, file)
    };
    if !files.contains(&path) {
        return Some("leads to no page");
    }
    let has_anchor = |text: &String| text.contains(&format!("id=\"{anchor}\""));
    match pages.get(&path) {
        Some(text) if !anchor.is_empty() && !has_anchor(text) => {
            Some("leads to an anchor that is not there")
        }
        _ => None,
    }
}

fn resolve(page: &str, file: &str) -> String {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('?').next().unwrap_or_default().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(html: &str) -> Vec<String> {
        let other = "<h2 id=\"here\">x</h2>";
        let pages = [("a/page.html", html), ("other.html", other)];
        let pages: BTreeMap<String, String> = pages
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let files = pages.keys().cloned().collect();
        judge_all(&pages, &files)
    }

    #[test]
    fn links_of_the_site_lead_to_pages_and_anchors() {
        assert_eq!(wrong("<a href=\"../other.html#here\">x</a>"), [""; 0]);
        assert_eq!(
            wrong("<a class=\"b\" href=\"https://example.org\">x</a>"),
            [""; 0]
        );
        assert_eq!(
            wrong("<a href=\"other.html\">x</a>"),
            ["a/page.html: `other.html` leads to no page"]
        );
        assert_eq!(
            wrong("<a href=\"../other.html#there\">x</a>"),
            ["a/page.html: `../other.html#there` leads to an anchor that is not there"]
        );
    }

    #[test]
    fn pages_of_the_site_load_nothing_over_the_network() {
        assert_eq!(
            wrong("<script src=\"https://example.org/x.js\"></script>"),
            ["a/page.html: loads `https://example.org/x.js` over the network"]
        );
    }
}
