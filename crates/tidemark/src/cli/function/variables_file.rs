//! Files of variables, such as `.env`: a name, `=` and a value on each line.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// A file that is larger is none of variables: 100 of 8,192 letters fit.
const BYTES_MAX: u64 = 4 << 20;

/// The variables of a file, in its order; of a name that stands twice the last one.
///
/// # Errors
/// When the file cannot be read, or a line of it; the text names the line and never its value.
pub fn read(path: &Path) -> Result<Vec<(String, String)>> {
    let shown = || format!("cannot read {}", path.display());
    let status = fs::metadata(path).with_context(shown)?;
    ensure!(
        status.is_file() && status.len() <= BYTES_MAX,
        "{} is no file of at most {BYTES_MAX} bytes",
        path.display()
    );
    let text = fs::read_to_string(path).with_context(shown)?;
    parse(&text).with_context(|| path.display().to_string())
}

/// Values are taken as they stand: no `$NAME` is filled in, and only quotes at both ends are
/// taken off. In double quotes `\n`, `\"` and `\\` have their meaning.
fn parse(text: &str) -> Result<Vec<(String, String)>> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = nth + 1;
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            bail!("line {number} is not of the form NAME=VALUE");
        };
        let name = name.trim();
        ensure!(is_name(name), "line {number} has a name that is none");
        let value = unquoted(value.trim());
        let Some(value) = value else {
            bail!("line {number} has a quote that does not end; a value stands on one line");
        };
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

/// Whether a shell could hold a variable of this name.
pub fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(is_letter) && name.starts_with(|first: char| !first.is_ascii_digit())
}

fn unquoted(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.strip_suffix('\'').map(str::to_owned);
    }
    let Some(rest) = value.strip_prefix('"') else {
        // A comment begins behind a space.
        let end = value.find(" #").unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let mut letters = rest.chars();
    let mut inside = String::new();
    loop {
        match letters.next()? {
            '"' => break,
            '\\' => match letters.next()? {
                'n' => inside.push('\n'),
                'r' => inside.push('\r'),
                't' => inside.push('\t'),
                '"' => inside.push('"'),
                '\\' => inside.push('\\'),
                other => inside.extend(['\\', other]),
            },
            other => inside.push(other),
        }
    }
    let rest = letters.as_str().trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_they_stand() {
        let text = "# a comment\n\nA=1\nexport B = two words # why\nC='$A # \"x\"'\n\
            D=\"a\\nb\\\"\\\\ \\d $A\" # why\nE=\nF=a=b#c\nA=2\r\n";
        let wanted = [
            ("B", "two words"),
            ("C", "$A # \"x\""),
            ("D", "a\nb\"\\ \\d $A"),
            ("E", ""),
            ("F", "a=b#c"),
            ("A", "2"),
        ];
        let found = parse(text).unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_without_its_value() {
        for line in [
            "secret",
            "1A=secret",
            "=secret",
            "A B=secret",
            "A=\"secret",
            "A='secret",
            "A=\"secret\" more",
            "A=\"secret\\",
        ] {
            let error = format!("{:#}", parse(&format!("OK=1\n{line}")).unwrap_err());
            assert!(error.contains("line 2"), "{line}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
