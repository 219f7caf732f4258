//! Rule `licence`: every manifest names the licence, and every package carries its texts.

use super::Finding;
use super::source::{Source, Tree};

const RULE: &str = "licence";
const EXPRESSION: &str = "MIT OR Apache-2.0";
const TEXTS: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// Packages that are published from their own folder, where the texts must lie once more.
const PACKAGES: [&str; 4] = ["clients/go/", "clients/js/", "clients/python/", "python/"];
/// WordPress takes drop-ins under its own licence only.
const DROP_IN: &str = "php/wordpress/src/header.php";
const DROP_IN_LICENCE: &str = "php/wordpress/LICENSE";
const DROP_IN_EXPRESSION: &str = "License: GPL-2.0-or-later";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        if names_licence(source) == Some(false) {
            let message = format!("names no licence; add \"{EXPRESSION}\"");
            findings.push(Finding::new(&source.path, 1, RULE, message));
        }
    }
    for folder in PACKAGES {
        check_texts(tree, folder, &mut findings);
    }
    let header = tree.source(DROP_IN);
    if header.is_some_and(|header| !header.text.contains(DROP_IN_EXPRESSION)) {
        let message = format!("the drop-in's header must say `{DROP_IN_EXPRESSION}`");
        findings.push(Finding::new(DROP_IN, 1, RULE, message));
    }
    if header.is_some() && tree.source(DROP_IN_LICENCE).is_none() {
        let message = format!("the text of its licence is missing; put it into {DROP_IN_LICENCE}");
        findings.push(Finding::new(DROP_IN, 1, RULE, message));
    }
    findings
}

fn check_texts(tree: &Tree, folder: &str, findings: &mut Vec<Finding>) {
    if !tree.holds(folder) {
        return;
    }
    for text in TEXTS {
        let copy = format!("{folder}{text}");
        let read = |path: &str| tree.source(path).map(|source| source.text.as_str());
        if read(&copy).is_none() || read(&copy) != read(text) {
            let message = format!("must be the text of {text} in the root; copy that");
            findings.push(Finding::new(&copy, 1, RULE, message));
        }
    }
}

/// `None` for a file that is no manifest of a package.
fn names_licence(source: &Source) -> Option<bool> {
    let file = source.path.rsplit('/').next().unwrap_or_default();
    match file {
        "Cargo.toml" => {
            let parsed: toml::Table = source.text.parse().ok()?;
            let package = parsed.get("package").or_else(|| {
                let workspace = parsed.get("workspace")?;
                workspace.get("package")
            })?;
            let license = package.get("license");
            let is_inherited = |value: &toml::Value| {
                let inherited = value.get("workspace").and_then(toml::Value::as_bool);
                inherited == Some(true)
            };
            Some(license.is_some_and(|value| is_inherited(value) || is_ours(value.as_str())))
        }
        "pyproject.toml" => {
            let parsed: toml::Table = source.text.parse().ok()?;
            let license = parsed.get("project")?.get("license");
            Some(is_ours(license.and_then(toml::Value::as_str)))
        }
        "package.json" => {
            let parsed: serde_json::Value = serde_json::from_str(&source.text).ok()?;
            Some(is_ours(parsed["license"].as_str()))
        }
        _ => None,
    }
}

fn is_ours(license: Option<&str>) -> bool {
    license == Some(EXPRESSION)
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn a_manifest_names_the_licence() {
        let good = [
            (
                "Cargo.toml",
                "[workspace.package]\nlicense = \"MIT OR Apache-2.0\"",
            ),
            ("a/Cargo.toml", "[package]\nlicense.workspace = true"),
            ("b/package.json", "{\"license\": \"MIT OR Apache-2.0\"}"),
            (
                "c/pyproject.toml",
                "[project]\nlicense = \"MIT OR Apache-2.0\"",
            ),
            ("d/pyproject.toml", "[tool.pytest]"),
        ];
        check(&good, &[]);
        let bad = [
            ("Cargo.toml", "[workspace.package]\nedition = \"2024\""),
            ("a/Cargo.toml", "[package]\nlicense = \"MIT\""),
            ("b/package.json", "{\"name\": \"b\"}"),
            ("c/pyproject.toml", "[project]\nname = \"c\""),
        ];
        let expected = [
            "Cargo.toml:1: licence",
            "a/Cargo.toml:1: licence",
            "b/package.json:1: licence",
            "c/pyproject.toml:1: licence",
        ];
        check(&bad, &expected);
    }

    #[test]
    fn a_package_carries_the_texts() {
        let files = [
            ("LICENSE-MIT", "mit"),
            ("LICENSE-APACHE", "apache"),
            ("clients/go/LICENSE-MIT", "mit"),
            ("clients/go/LICENSE-APACHE", "another"),
        ];
        check(&files, &["clients/go/LICENSE-APACHE:1: licence"]);
    }

    #[test]
    fn a_drop_in_is_under_the_licence_of_wordpress() {
        let header = "<?php\n/* License: GPL-2.0-or-later */";
        let licence = ("php/wordpress/LICENSE", "GPL");
        check(&[("php/wordpress/src/header.php", header), licence], &[]);
        let expected = ["php/wordpress/src/header.php:1: licence"];
        check(&[("php/wordpress/src/header.php", header)], &expected);
        check(
            &[("php/wordpress/src/header.php", "<?php\n"), licence],
            &expected,
        );
    }
}
