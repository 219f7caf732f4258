//! `cargo xtask notices`: the licences of the libraries that users receive inside what we build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;

/// Write the licences of third-party libraries into the files that are shipped.
///
/// Reads which crates the binary, the Python cache and the extension of PHP link, and the licence
/// texts in the sources of these crates. Writes THIRD-PARTY-NOTICES.txt, which `tidemark licenses`
/// prints, python/THIRD-PARTY-NOTICES.txt, which is part of the wheel, and the one of php/ext.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct NoticesArguments {
    /// Write nothing; fail if a file is not what it should be.
    #[arg(long)]
    check: bool,
}

/// One product with the file of its notices.
struct Distributed {
    /// The crate that is built.
    root: &'static str,
    /// The folder of its workspace.
    folder: &'static str,
    /// Texts of what is linked or embedded and is no crate.
    others: &'static [Embedded],
}

struct Embedded {
    name: &'static str,
    license: &'static str,
    /// A text in the checkout, or one in the folder of a crate.
    text: LicenceText,
}

enum LicenceText {
    Checkout(&'static str),
    Crate(&'static str, &'static str),
}

const FILE: &str = "THIRD-PARTY-NOTICES.txt";
const RULE: &str =
    "--------------------------------------------------------------------------------";

const RUST: Embedded = Embedded {
    name: "Rust standard library",
    license: "MIT OR Apache-2.0",
    text: LicenceText::Crate("libc", "LICENSE-MIT"),
};
const FIAT: Embedded = Embedded {
    name: "fiat-crypto (in ring)",
    license: "MIT",
    text: LicenceText::Crate("ring", "third_party/fiat/LICENSE"),
};
const ONCE_CELL: Embedded = Embedded {
    name: "once_cell (in ring)",
    license: "MIT OR Apache-2.0",
    text: LicenceText::Crate("ring", "src/polyfill/once_cell/LICENSE-MIT"),
};
const PRODUCTS: [Distributed; 3] = [
    Distributed {
        root: "tidemark",
        folder: "",
        others: &[
            RUST,
            Embedded {
                name: "mimalloc (C library)",
                license: "MIT",
                text: LicenceText::Crate("libmimalloc-sys", "c_src/mimalloc/v2/LICENSE"),
            },
            FIAT,
            ONCE_CELL,
            Embedded {
                name: "uPlot (charts of benchmark reports)",
                license: "MIT",
                text: LicenceText::Checkout("bench/report/LICENSE-uplot"),
            },
        ],
    },
    Distributed {
        root: "tidemark-cache",
        folder: "python",
        others: &[RUST],
    },
    Distributed {
        root: "tidemark-php",
        folder: "php/ext",
        others: &[RUST, FIAT, ONCE_CELL],
    },
];

/// One library: what it is called, its SPDX expression, its texts.
#[derive(Debug, PartialEq)]
struct ThirdParty {
    name: String,
    license: String,
    texts: Vec<String>,
}

/// # Errors
/// When cargo cannot list the crates, or one of them carries no licence text.
pub fn run(checkout: &Checkout, arguments: &NoticesArguments) -> Result<ExitCode> {
    if arguments.check {
        return Ok(if check(checkout)? {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    for product in &PRODUCTS {
        let path = path(checkout, product);
        fs::write(&path, text(checkout, product)?).with_context(|| checkout.shown(&path))?;
        println!("{}", checkout.shown(&path));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the files are what [`run`] would write.
///
/// # Errors
/// As [`run`].
pub fn check(checkout: &Checkout) -> Result<bool> {
    let mut is_current = true;
    for product in &PRODUCTS {
        let path = path(checkout, product);
        if fs::read_to_string(&path).unwrap_or_default() != text(checkout, product)? {
            let shown = checkout.shown(&path);
            println!("{shown} does not match the crates in use; run `cargo xtask notices`");
            is_current = false;
        }
    }
    Ok(is_current)
}

fn path(checkout: &Checkout, product: &Distributed) -> PathBuf {
    checkout.root.join(product.folder).join(FILE)
}

fn text(checkout: &Checkout, product: &Distributed) -> Result<String> {
    let mut command = checkout.cargo();
    command.current_dir(checkout.root.join(product.folder));
    command.args(["metadata", "--format-version", "1", "--locked"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.output().context("cargo does not start")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`cargo metadata` failed: {}", said.trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = linked(&metadata, product.root)?;
    let apache = fs::read_to_string(checkout.root.join("LICENSE-APACHE"))?;
    let mut libraries = Vec::new();
    for package in &packages {
        libraries.push(library(package, &apache)?);
    }
    for other in product.others {
        let file = match &other.text {
            LicenceText::Checkout(path) => checkout.root.join(path),
            LicenceText::Crate(name, path) => folder(named(&metadata, name)?)?.join(path),
        };
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        libraries.push(ThirdParty {
            name: other.name.to_owned(),
            license: other.license.to_owned(),
            texts: vec![text],
        });
    }
    Ok(render(product.root, &libraries))
}

/// The crates from a registry whose code ends up in what `root` builds, by name.
fn linked<'a>(metadata: &'a Value, root: &str) -> Result<Vec<&'a Value>> {
    let listed = |value: &'a Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
    let packages: BTreeMap<&str, &Value> = listed(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = listed(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let first = named(metadata, root)?["id"].as_str().unwrap_or_default();
    let (mut seen, mut open) = (BTreeSet::new(), vec![first]);
    while let Some(id) = open.pop() {
        let package = packages[id];
        if runs_in_compiler(package) || !seen.insert(id) {
            continue;
        }
        let normal = |dependency: &&Value| {
            let kinds = &dependency["dep_kinds"];
            listed_any(kinds, |kind| kind["kind"].is_null())
        };
        let dependencies = nodes.get(id).map(|node| listed(&node["deps"]));
        let dependencies = dependencies.unwrap_or_default().iter().filter(normal);
        open.extend(dependencies.filter_map(|dependency| dependency["pkg"].as_str()));
    }
    let mut found: Vec<&Value> = seen.into_iter().map(|id| packages[id]).collect();
    found.retain(|package| !package["source"].is_null());
    found.sort_by_key(|package| title(package));
    Ok(found)
}

fn listed_any(list: &Value, is_meant: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|all| all.iter().any(is_meant))
}

/// A procedural macro: nothing of it is in the program.
fn runs_in_compiler(package: &Value) -> bool {
    listed_any(&package["targets"], |target| {
        listed_any(&target["kind"], |kind| kind == "proc-macro")
    })
}

fn named<'a>(metadata: &'a Value, name: &str) -> Result<&'a Value> {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .find(|package| package["name"] == name)
        .with_context(|| format!("no crate is called {name}"))
}

fn title(package: &Value) -> String {
    let member = |key: &str| package[key].as_str().unwrap_or_default();
    format!("{} {}", member("name"), member("version"))
}

fn folder(package: &Value) -> Result<PathBuf> {
    let manifest = package["manifest_path"].as_str().map(Path::new);
    let folder = manifest.and_then(Path::parent);
    Ok(folder.context("a crate without a folder")?.to_owned())
}

fn library(package: &Value, apache: &str) -> Result<ThirdParty> {
    let (name, folder) = (title(package), folder(package)?);
    let license = package["license"].as_str().unwrap_or_default().to_owned();
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    files.sort();
    let mut texts = Vec::new();
    for file in chosen(&license, &files) {
        texts.push(fs::read_to_string(folder.join(file)).with_context(|| name.clone())?);
    }
    if texts.is_empty() && license == "Apache-2.0" {
        // The licence asks for a copy of it, and its text names no holder.
        texts.push(apache.to_owned());
    }
    if texts.is_empty() {
        bail!("{name} ({license}) carries no licence text; name one in xtask/src/notices.rs");
    }
    let text = |text: String| text.replace("\r\n", "\n").trim_end().to_owned();
    Ok(ThirdParty {
        name,
        license,
        texts: texts.into_iter().map(text).collect(),
    })
}

/// The files of a crate that its licence asks to pass on. MIT is taken where it is a choice.
fn chosen<'a>(license: &str, files: &'a [String]) -> Vec<&'a str> {
    const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
    let is_text = |file: &&str| {
        let upper = file.to_uppercase();
        BEGINNINGS.iter().any(|start| upper.starts_with(start))
    };
    let all: Vec<&str> = files.iter().map(String::as_str).filter(is_text).collect();
    let is_choice = license.contains(" OR ") || license.contains('/');
    let has_mit = license
        .split([' ', '/'])
        .any(|word| word.trim_matches(['(', ')']) == "MIT");
    if !is_choice || !has_mit || license.contains(" AND ") {
        return all;
    }
    let wanted = |file: &&str| {
        ["MIT", "COPYRIGHT", "NOTICE", "THIRD"]
            .iter()
            .any(|word| file.to_uppercase().contains(word))
    };
    let mit: Vec<&str> = all.iter().copied().filter(wanted).collect();
    if mit.iter().any(|file| file.contains("MIT")) {
        mit
    } else {
        all
    }
}

/// A list of all libraries, then each text once, below those that it belongs to.
fn render(product: &str, libraries: &[ThirdParty]) -> String {
    let mut out = format!(
        "Third-party software in {product}\n\n\
         {product} is licensed under MIT OR Apache-2.0. It contains the libraries below, each\n\
         under its own licence. SQLite is in the public domain. Where a library offers a choice\n\
         that includes MIT, it is used under MIT. Written by `cargo xtask notices`.\n\n"
    );
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for library in libraries {
        out.extend([&library.name, ": ", &library.license, "\n"]);
        for text in &library.texts {
            owners.entry(text.trim()).or_default().push(&library.name);
        }
    }
    let mut texts: Vec<(&str, Vec<&str>)> = owners.into_iter().collect();
    texts.sort_by(|(_, left), (_, right)| left.cmp(right));
    for (text, names) in texts {
        out.extend(["\n", RULE, "\n", &names.join(", "), "\n\n", text, "\n"]);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_chosen(license: &str, files: &[&str], expected: &[&str]) {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        assert_eq!(chosen(license, &files), expected);
    }

    #[test]
    fn chosen_files_are_those_of_mit_where_it_is_a_choice() {
        let both = ["LICENSE-APACHE", "LICENSE-MIT", "src"];
        check_chosen("MIT OR Apache-2.0", &both, &["LICENSE-MIT"]);
        check_chosen("Unlicense/MIT", &both, &["LICENSE-MIT"]);
        let third = ["LICENSE-APACHE", "LICENSE-MIT", "LICENSE-THIRD-PARTY"];
        let kept = ["LICENSE-MIT", "LICENSE-THIRD-PARTY"];
        check_chosen("Apache-2.0 OR MIT", &third, &kept);
    }

    #[test]
    fn chosen_files_are_all_where_nothing_can_be_chosen() {
        let two = ["LICENSE", "LICENSE-BoringSSL", "README.md"];
        check_chosen("Apache-2.0 AND ISC", &two, &two[..2]);
        check_chosen("MIT AND BSD-3-Clause", &["LICENSE"], &["LICENSE"]);
        check_chosen("MIT OR Apache-2.0", &["LICENSE"], &["LICENSE"]);
        check_chosen("MIT", &["LICENCE.md", "lib.rs"], &["LICENCE.md"]);
    }

    #[test]
    fn linked_crates_leave_out_macros_tests_and_our_own() {
        let package = |name: &str, kind: &str, source: Option<&str>| {
            json!({"id": name, "name": name, "version": "1.0.0", "source": source,
                   "targets": [{"kind": [kind]}]})
        };
        let needs =
            |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let registry = Some("registry");
        let metadata = json!({
            "packages": [
                package("app", "bin", None),
                package("ours", "lib", None),
                package("linked", "lib", registry),
                package("derive", "proc-macro", registry),
                package("inside-derive", "lib", registry),
                package("for-tests", "lib", registry),
                package("for-build", "lib", registry),
            ],
            "resolve": {"nodes": [
                {"id": "app", "deps": [needs("ours", None), needs("for-tests", Some("dev"))]},
                {"id": "ours", "deps": [needs("linked", None), needs("derive", None),
                                        needs("for-build", Some("build"))]},
                {"id": "derive", "deps": [needs("inside-derive", None)]},
                {"id": "linked", "deps": []},
            ]},
        });
        let found = linked(&metadata, "app").unwrap();
        let titles: Vec<String> = found.into_iter().map(title).collect();
        assert_eq!(titles, ["linked 1.0.0"]);
    }

    #[test]
    fn render_prints_each_text_once_with_its_owners() {
        let library = |name: &str, text: &str| ThirdParty {
            name: name.to_owned(),
            license: "MIT".to_owned(),
            texts: vec![text.to_owned()],
        };
        let both = [
            library("a 1", "same\n"),
            library("b 2", "same"),
            library("c 3", "own"),
        ];
        let text = render("app", &both);
        assert_eq!(text.matches("same").count(), 1, "{text}");
        assert!(text.contains("a 1: MIT\nb 2: MIT\nc 3: MIT\n"), "{text}");
        assert!(text.contains("\na 1, b 2\n\nsame\n"), "{text}");
    }
}
