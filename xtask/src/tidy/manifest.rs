//! Reads what the manifests name: crates, npm packages and PyPI packages.

use super::source::{Source, Tree};

/// One thing a manifest names.
#[derive(Debug, PartialEq)]
pub struct Dependency {
    /// As its registry calls it.
    pub name: String,
    /// As the code calls it.
    pub alias: String,
    /// Only tests use it.
    pub in_tests: bool,
    /// Where the manifest names it, counted from 1.
    pub line: usize,
}

/// A crate of the workspace, or a folder with packages of another language.
pub struct Manifest<'a> {
    pub source: &'a Source,
    /// The crate's name, or the folder.
    pub owner: String,
    pub is_crate: bool,
    pub dependencies: Vec<Dependency>,
}

impl Manifest<'_> {
    /// The folder the manifest stands in, with a `/` at its end.
    pub fn folder(&self) -> &str {
        self.source
            .path
            .rfind('/')
            .map_or("", |at| &self.source.path[..=at])
    }
}

/// All manifests of the tree.
pub fn all(tree: &Tree) -> Vec<Manifest<'_>> {
    let mut manifests = Vec::new();
    for source in &tree.sources {
        let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
        let owner = folder.to_owned();
        match file {
            "Cargo.toml" => manifests.extend(read_cargo(source)),
            "package.json" => {
                let dependencies = read_npm(source);
                manifests.push(Manifest {
                    source,
                    owner,
                    is_crate: false,
                    dependencies,
                });
            }
            "requirements.txt" => {
                let dependencies = read_pypi(source);
                manifests.push(Manifest {
                    source,
                    owner,
                    is_crate: false,
                    dependencies,
                });
            }
            _ => {}
        }
    }
    manifests
}

/// The names under `[workspace.dependencies]`, with their lines.
pub fn workspace_dependencies(root: &Source) -> Vec<(String, usize)> {
    let parsed: toml::Table = root.text.parse().unwrap_or_default();
    let found = parsed
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let names = found
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(toml::Table::keys);
    names
        .map(|name| (name.clone(), line_of_key(&root.text, name)))
        .collect()
}

/// `None` for a manifest without a package, as the workspace's own.
fn read_cargo(source: &Source) -> Option<Manifest<'_>> {
    let parsed: toml::Table = source.text.parse().ok()?;
    let owner = parsed.get("package")?.get("name")?.as_str()?.to_owned();
    let mut dependencies = Vec::new();
    // A dependency for one platform only is a dependency all the same.
    let platforms = parsed.get("target").and_then(toml::Value::as_table);
    let tables = platforms
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(|v| v.as_table());
    for table in tables.chain([&parsed]) {
        for (key, in_tests) in [
            ("dependencies", false),
            ("build-dependencies", false),
            ("dev-dependencies", true),
        ] {
            let named = table
                .get(key)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flatten();
            for (alias, value) in named {
                let name = value
                    .get("package")
                    .and_then(toml::Value::as_str)
                    .unwrap_or(alias);
                let line = line_of_key(&source.text, alias);
                let (name, alias) = (name.to_owned(), alias.replace('-', "_"));
                dependencies.push(Dependency {
                    name,
                    alias,
                    in_tests,
                    line,
                });
            }
        }
    }
    Some(Manifest {
        source,
        owner,
        is_crate: true,
        dependencies,
    })
}

fn read_npm(source: &Source) -> Vec<Dependency> {
    let parsed: serde_json::Value = serde_json::from_str(&source.text).unwrap_or_default();
    let mut dependencies = Vec::new();
    for (key, in_tests) in [("dependencies", false), ("devDependencies", true)] {
        let named = parsed
            .get(key)
            .and_then(serde_json::Value::as_object)
            .into_iter()
            .flatten();
        for (name, _) in named {
            let line = line_of_key(&source.text, &format!("\"{name}\""));
            dependencies.push(Dependency {
                name: name.clone(),
                alias: name.clone(),
                in_tests,
                line,
            });
        }
    }
    dependencies
}

/// Lines that say `# via` pin what a direct dependency brings (pip-compile's own notation).
fn read_pypi(source: &Source) -> Vec<Dependency> {
    let lines = source.text.lines().enumerate();
    let named = lines.filter_map(|(index, line)| {
        let stated = line.split(['#', ';']).next().unwrap_or("").trim();
        let end = stated
            .find(['=', '<', '>', '~', '!', '[', ' '])
            .unwrap_or(stated.len());
        let name = stated[..end].to_owned();
        let is_name = name.starts_with(char::is_alphanumeric) && !line.contains("# via ");
        is_name.then(|| Dependency {
            alias: name.clone(),
            name,
            in_tests: true,
            line: index + 1,
        })
    });
    named.collect()
}

/// The line whose first word is `key`, counted from 1; 1 when there is none.
fn line_of_key(text: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let rest = line
            .trim_start()
            .trim_start_matches("\"dependencies\": {")
            .trim_start();
        rest.strip_prefix(key)
            .is_some_and(|rest| rest.starts_with([' ', '.', '=', ':']))
    };
    text.lines().position(starts).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, owner: &str, expected: &[(&str, &str, bool, usize)]) {
        let tree = Tree::new(vec![(path.to_owned(), text.to_owned())]);
        let manifests = all(&tree);
        assert_eq!(manifests[0].owner, owner);
        let found: Vec<_> = manifests[0]
            .dependencies
            .iter()
            .map(|one| {
                (
                    one.name.as_str(),
                    one.alias.as_str(),
                    one.in_tests,
                    one.line,
                )
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn cargo_manifests_name_crates_under_several_headings() {
        let text = "\
[package]
name = \"a\"
[dependencies]
list-cache.workspace = true
pg = { package = \"tokio-postgres\", version = \"1\" }
[dev-dependencies]
tempfile = \"3\"
[target.'cfg(unix)'.dependencies]
libc = \"0.2\"";
        let expected = [
            ("libc", "libc", false, 9),
            ("list-cache", "list_cache", false, 4),
            ("tokio-postgres", "pg", false, 5),
            ("tempfile", "tempfile", true, 7),
        ];
        check("crates/a/Cargo.toml", text, "a", &expected);
    }

    #[test]
    fn npm_and_pypi_manifests_belong_to_their_folder() {
        let text = "{\n  \"dependencies\": { \"node-appwrite\": \"27.1.0\" }\n}";
        let expected = [("node-appwrite", "node-appwrite", false, 2)];
        check("bench/ttl/package.json", text, "bench/ttl", &expected);
        let text = "# the client\nappwrite==27.0.0\npytest>=8  # runner\nidna==3  # via requests\n-r more.txt\n";
        let expected = [
            ("appwrite", "appwrite", true, 2),
            ("pytest", "pytest", true, 3),
        ];
        check(
            "tests/sdk/python/requirements.txt",
            text,
            "tests/sdk/python",
            &expected,
        );
    }
}
