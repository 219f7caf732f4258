//! Rule `link`: relative links in Markdown lead to a file, and to a heading in it.

use super::Finding;
use super::source::{Language, Source, Tree};

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree
        .sources
        .iter()
        .filter(|source| source.language == Language::Markdown)
    {
        for (line, target) in targets(&source.text) {
            if let Some(wrong) = judge(tree, source, &target) {
                let message = format!("`{target}` {wrong}; mend the link or delete it");
                findings.push(Finding::new(&source.path, line, "link", message));
            }
        }
    }
    findings
}

fn judge(tree: &Tree, source: &Source, target: &str) -> Option<&'static str> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(&source.path, file) else {
        return Some("leads out of the project");
    };
    if !tree.holds(&path) {
        return Some("leads to no file of the project");
    }
    let page = tree
        .source(&path)
        .filter(|page| page.language == Language::Markdown);
    let has_heading = |page: &Source| headings(&page.text).any(|slug| slug == heading);
    match page {
        Some(page) if !heading.is_empty() && !has_heading(page) => {
            Some("leads to a heading that is not there")
        }
        _ => None,
    }
}

/// The path in the tree; `None` above its root. An empty file means the page itself.
fn resolve(from: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(from.to_owned());
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside fenced blocks, with code spans blanked out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        if fenced {
            return None;
        }
        let spans = line.split('`').enumerate();
        let kept: Vec<&str> = spans
            .map(|(place, span)| if place % 2 == 0 { span } else { "code" })
            .collect();
        Some((index + 1, kept.join("")))
    })
}

/// The targets of `[text](target)` and of `[text]: target`.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest[..rest.find(')').unwrap_or(rest.len())]
                .split(' ')
                .next();
            found.push((
                number,
                target.unwrap_or("").trim_matches(['<', '>']).to_owned(),
            ));
        }
        let definition = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            found.push((number, target.split(' ').next().unwrap_or("").to_owned()));
        }
    }
    found
}

/// What a heading is called in a link: small letters, hyphens for blanks, no punctuation.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    lines.into_iter().map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.collect::<String>().replace(' ', "-")
    })
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let files = [
            ("docs/guide/a.md", text),
            ("docs/b.md", "# One *two* — `three`\n"),
            ("crates/a/src/lib.rs", ""),
        ];
        snippets::check(super::check, &files, expected);
    }

    #[test]
    fn a_link_leads_to_a_file_or_folder() {
        check("[a](../b.md) [b](../../crates/a/) ![c](<a.md>) [d]()", &[]);
        check("\n[a](b.md)", &["docs/guide/a.md:2: link"]);
        check("[a](../../../b.md)", &["docs/guide/a.md:1: link"]);
        check("see [a].\n\n[a]: ../none.md", &["docs/guide/a.md:3: link"]);
    }

    #[test]
    fn a_link_leads_to_a_heading() {
        check("# Here\n[a](#here) [b](../b.md#one-two--three)", &[]);
        check("[a](#there)", &["docs/guide/a.md:1: link"]);
        check("[b](../b.md#two)", &["docs/guide/a.md:1: link"]);
    }

    #[test]
    fn addresses_and_code_are_left_alone() {
        check("[a](https://example.org/x) [b](mailto:a@example.org)", &[]);
        check("`[a](none.md)`\n```\n[a](none.md)\n```\n", &[]);
    }
}
