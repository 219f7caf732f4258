//! The list of what is excused. It may only shrink: what it no longer matches must leave it.

use anyhow::{Context, Result, bail};

use super::Finding;

/// Where the list stands.
pub const PATH: &str = "xtask/tidy-allow.toml";
const RULE: &str = "allow";

/// One excused rule in one file or folder.
#[derive(Debug, PartialEq)]
pub struct Exception {
    /// A folder, with all that is below it, ends in `/`.
    path: String,
    rule: String,
    /// How many findings of this rule there are; exactly so many are excused.
    count: usize,
    /// Where the list names the path, counted from 1.
    line: usize,
}

/// # Errors
/// When an entry lacks its path, its rule or its reason, or has a key nobody reads.
pub fn parse(text: &str) -> Result<Vec<Exception>> {
    let list: toml::Table = text.parse()?;
    if let Some(key) = list.keys().find(|key| *key != "allow") {
        bail!("nobody reads `{key}`; entries begin with [[allow]]");
    }
    let entries = list
        .get("allow")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten();
    entries.map(|entry| parse_entry(entry, text)).collect()
}

fn parse_entry(entry: &toml::Value, text: &str) -> Result<Exception> {
    let word = |key: &str| {
        let value = entry
            .get(key)
            .and_then(toml::Value::as_str)
            .filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .with_context(|| format!("an entry without `{key}`:\n{entry}"))
    };
    word("reason")?;
    let known = ["path", "rule", "reason", "count"];
    let mut keys = entry.as_table().into_iter().flat_map(toml::Table::keys);
    if let Some(key) = keys.find(|key| !known.contains(&key.as_str())) {
        bail!("nobody reads `{key}`; known are {}", known.join(", "));
    }
    let (path, rule) = (word("path")?, word("rule")?);
    let count = match entry.get("count") {
        None => 1,
        Some(count) => {
            let count = count
                .as_integer()
                .and_then(|count| usize::try_from(count).ok());
            count
                .filter(|count| *count > 0)
                .with_context(|| format!("{path}: `count` from 1"))?
        }
    };
    let quoted = format!("\"{path}\"");
    let line = text
        .lines()
        .position(|line| line.contains(&quoted))
        .map_or(1, |index| index + 1);
    Ok(Exception {
        path,
        rule,
        count,
        line,
    })
}

/// What is left when the excused findings are taken out. An entry that excuses more than there
/// is becomes a finding itself; one that excuses less excuses nothing.
pub fn apply(exceptions: &[Exception], mut findings: Vec<Finding>) -> Vec<Finding> {
    for exception in exceptions {
        let matches = |finding: &Finding| {
            let is_below =
                exception.path.ends_with('/') && finding.path.starts_with(&exception.path);
            (is_below || finding.path == exception.path) && finding.rule == exception.rule
        };
        let found = findings.iter().filter(|finding| matches(finding)).count();
        let Exception {
            path,
            rule,
            count,
            line,
        } = exception;
        if found <= *count {
            findings.retain(|finding| !matches(finding));
        }
        if found < *count {
            let message = format!(
                "{path} breaks `{rule}` {found} times, {count} are excused; lower the count, or \
                 delete the entry when it is none"
            );
            findings.push(Finding::new(PATH, *line, RULE, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: usize) -> Finding {
        Finding::new("a.rs", line, "line", "too long")
    }

    fn exceptions(count: usize) -> Vec<Exception> {
        let text = format!(
            "\n[[allow]]\npath = \"a.rs\"\nrule = \"line\"\nreason = \"a table\"\ncount = {count}\n"
        );
        parse(&text).unwrap()
    }

    #[test]
    fn exactly_what_is_listed_is_excused() {
        let left = apply(&exceptions(2), vec![finding(1), finding(2)]);
        assert_eq!(left, []);
        let other = Finding::new("b.rs", 1, "line", "too long");
        assert_eq!(
            apply(&exceptions(1), vec![finding(1), other.clone()]),
            [other]
        );
    }

    #[test]
    fn a_new_offence_beside_an_old_one_is_seen() {
        let left = apply(&exceptions(1), vec![finding(1), finding(2)]);
        assert_eq!(left, [finding(1), finding(2)]);
    }

    #[test]
    fn an_entry_that_excuses_too_much_is_a_finding() {
        for (count, found) in [(1, vec![]), (2, vec![finding(1)])] {
            let left = apply(&exceptions(count), found);
            assert_eq!((left.len(), left[0].rule, left[0].line), (1, RULE, 3));
        }
    }

    #[test]
    fn folder_excuses_so_many_in_all_files_below_it() {
        let text = "[[allow]]\npath = \"a/\"\nrule = \"line\"\nreason = \"old\"\ncount = 2\n";
        let folder = parse(text).unwrap();
        let in_file = |path| Finding::new(path, 1, "line", "too long");
        let (own, other) = (["a/b.rs", "a/c/d.rs"].map(in_file), in_file("ab.rs"));
        let left = apply(
            &folder,
            own.iter().cloned().chain([other.clone()]).collect(),
        );
        assert_eq!(left, [other]);
        let more = [own.to_vec(), vec![in_file("a/e.rs")]].concat();
        assert_eq!(apply(&folder, more.clone()), more);
    }

    #[test]
    fn an_entry_has_path_rule_and_reason() {
        assert_eq!(parse("").unwrap(), []);
        let whole = "[[allow]]\npath = \"a\"\nrule = \"b\"\nreason = \"c\"\n";
        assert_eq!(parse(whole).unwrap()[0].count, 1);
        for key in ["path", "rule", "reason"] {
            let lacking: String = whole
                .lines()
                .filter(|line| !line.starts_with(key))
                .collect::<Vec<_>>()
                .join("\n");
            assert!(
                parse(&lacking)
                    .unwrap_err()
                    .to_string()
                    .contains(&format!("`{key}`"))
            );
        }
        assert!(parse(&format!("{whole}count = 0")).is_err());
        assert!(parse(&format!("{whole}until = \"never\"")).is_err());
        assert!(parse("[[except]]\npath = \"a\"").is_err());
    }
}
