//! A page of docs/ as the site shows it.

/// The folder whose pages are on the site.
const ROOT: &str = "docs";

/// The text of the page at `path`, with links that leave docs/ replaced by the path they lead to.
pub fn for_site(path: &str, text: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (mut out, mut prose, mut fenced) = (String::new(), String::new(), false);
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            // A link may begin on one line and end on the next, but not go over code.
            out += &without_links_outside(folder, &std::mem::take(&mut prose));
            out.extend([line, "\n"]);
        } else {
            prose.extend([line, "\n"]);
        }
    }
    out + &without_links_outside(folder, &prose)
}

/// The line of the navigation for a page below the last chapter.
pub fn entry(path: &str, text: &str) -> String {
    let heading = text.lines().next().unwrap_or_default();
    format!("  - [{}]({path})\n", heading.trim_start_matches("# "))
}

fn without_links_outside(folder: &str, prose: &str) -> String {
    let mut out = String::new();
    let mut rest = prose;
    while let Some(middle) = rest.find("](") {
        let Some(length) = rest[middle + 2..].find(')') else {
            break;
        };
        let target = &rest[middle + 2..middle + 2 + length];
        let start = opening(&rest[..middle]);
        match (start, outside(folder, target)) {
            (Some(start), Some(path)) => {
                let label = &rest[start + 1..middle];
                out += &rest[..start];
                let names_itself = path.ends_with(label.trim_matches('`'));
                if names_itself {
                    out.extend(["`", &path, "`"]);
                } else {
                    out.extend([label, " (`", &path, "`)"]);
                }
            }
            _ => out += &rest[..middle + 3 + length],
        }
        rest = &rest[middle + 3 + length..];
    }
    out + rest
}

/// Where the label of a link begins that ends at the end of `text`.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The path in the repository that a link leads to, if that is not below docs/.
fn outside(folder: &str, target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.first() != Some(&ROOT)).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, line: &str, expected: &str) {
        assert_eq!(for_site(path, line), format!("{expected}\n"));
    }

    #[test]
    fn links_inside_stay() {
        check(
            "docs/a/b.md",
            "see [x](../c.md#d), [y](#here)",
            "see [x](../c.md#d), [y](#here)",
        );
        check(
            "docs/b.md",
            "[x](https://example.org)",
            "[x](https://example.org)",
        );
    }

    #[test]
    fn links_outside_become_their_path() {
        let line = "| [`model`](../crates/model/src/lib.rs) | [the tests](../tests) |";
        let expected = "| model (`crates/model/src/lib.rs`) | the tests (`tests`) |";
        check("docs/b.md", line, &expected.replace("model (", "`model` ("));
        let line = "[`error.rs`](../../crates/store/error.rs) and [x](c.md)";
        check("docs/a/b.md", line, "`crates/store/error.rs` and [x](c.md)");
        let lines = "a [link of\ntwo lines](../x.md) here";
        check("docs/b.md", lines, "a link of\ntwo lines (`x.md`) here");
    }

    #[test]
    fn an_entry_is_named_by_the_heading_of_its_page() {
        let entry = entry("decisions/0001-x.md", "# 0001 Lints: a set\n\ntext");
        assert_eq!(entry, "  - [0001 Lints: a set](decisions/0001-x.md)\n");
    }

    #[test]
    fn code_is_left_alone() {
        let text = "```\n[x](../../y)\n```\n";
        assert_eq!(for_site("docs/a.md", text), text);
    }
}
