//! Which file of a crate imports which.
//!
//! Imports are `use` items and paths in code. A re-exported name counts for the file that defines
//! it, and what a module takes from the modules below it does not count: it is made of them.

use std::collections::BTreeMap;

use super::mask::is_word;
use super::source::{Source, Tree};

/// A name that is re-exported more often than that is taken to stand where the search ends.
const REEXPORTS_MAX: usize = 8;

/// The crates of the tree, without their tests.
pub fn crates(tree: &Tree) -> Vec<Crate<'_>> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for source in tree.rust().filter(|source| !source.is_test) {
        if let Some((folder, module)) = Module::of(source) {
            crates.entry(folder).or_default().push(module);
        }
    }
    crates.into_values().map(Crate::new).collect()
}

/// One file of a crate.
pub struct Module<'a> {
    pub source: &'a Source,
    /// Names of the modules around it and its own, from the crate's root.
    path: Vec<&'a str>,
}

impl<'a> Module<'a> {
    /// The crate's folder, and the module; `None` for what is not below `src`.
    fn of(source: &'a Source) -> Option<(&'a str, Module<'a>)> {
        let (folder, inside) = source.path.split_once("/src/")?;
        let mut path: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
        match *path.last()? {
            "lib" if path.len() == 1 => path.clear(),
            "mod" => drop(path.pop()),
            _ => {}
        }
        Some((folder, Module { source, path }))
    }
}

/// The files of a crate.
pub struct Crate<'a> {
    pub modules: Vec<Module<'a>>,
    by_path: BTreeMap<Vec<&'a str>, usize>,
}

impl<'a> Crate<'a> {
    fn new(modules: Vec<Module<'a>>) -> Crate<'a> {
        let mut by_path = BTreeMap::new();
        for (file, module) in modules.iter().enumerate() {
            by_path.insert(module.path.clone(), file);
        }
        // A program without a library: its modules hang below `main`.
        if let Some(main) = by_path.get(&vec!["main"]).copied() {
            by_path.entry(Vec::new()).or_insert(main);
        }
        Crate { modules, by_path }
    }

    /// The files that a file imports, each with the line of the first such import.
    pub fn imports(&self, file: usize) -> BTreeMap<usize, usize> {
        let source = self.modules[file].source;
        let mut found = BTreeMap::new();
        let written = written_paths(source);
        let used = source.uses.iter().map(|(line, path)| (*line, path.clone()));
        for (line, path) in used.chain(written) {
            if source.is_test_line(line) {
                continue;
            }
            let target = self.resolve(file, &path, REEXPORTS_MAX);
            if let Some(target) = target.filter(|target| !self.is_below(*target, file)) {
                let first = found.entry(target).or_insert(line);
                *first = line.min(*first);
            }
        }
        found
    }

    /// Whether a file is the other one or a module below it: a module is made of those, and its
    /// name is what they may use of it.
    fn is_below(&self, file: usize, other: usize) -> bool {
        self.modules[file]
            .path
            .starts_with(&self.modules[other].path)
    }

    /// The file that defines what `path`, written in `file`, names; `None` for other crates.
    fn resolve(&self, file: usize, path: &str, reexports: usize) -> Option<usize> {
        let module = &self.modules[file];
        let mut names: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut whole: Vec<&str> = if names[0] == "crate" {
            Vec::new()
        } else if matches!(names[0], "self" | "super") || declares(module.source, names[0]) {
            module.path.clone()
        } else {
            return None;
        };
        names.retain(|name| !matches!(*name, "crate" | "self"));
        for name in names {
            if name == "super" {
                whole.pop();
            } else {
                whole.push(name);
            }
        }
        let depth = (0..=whole.len())
            .rev()
            .find(|depth| self.by_path.contains_key(&whole[..*depth]))?;
        let target = self.by_path[&whole[..depth]];
        let Some(name) = whole.get(depth) else {
            return Some(target);
        };
        let target_source = self.modules[target].source;
        let is_reexport = |used: &&(usize, String)| {
            used.1.rsplit("::").next() == Some(*name) && is_public(target_source, used.0)
        };
        let reexport = target_source.uses.iter().find(is_reexport);
        match reexport.filter(|_| target != file && reexports > 0) {
            Some((_, used)) => self.resolve(target, used, reexports - 1).or(Some(target)),
            None => Some(target),
        }
    }
}

fn is_public(source: &Source, line: usize) -> bool {
    let code = source.code.lines().nth(line - 1);
    code.is_some_and(|code| code.trim_start().starts_with("pub"))
}

fn declares(source: &Source, name: &str) -> bool {
    source.modules.iter().any(|module| module == name)
}

/// Paths that stand in the code outside `use` items and begin inside the crate.
fn written_paths(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut use_end = 0;
    for word in source.words() {
        let begin = word.end - word.text.len();
        if word.text == "use" {
            let rest = &source.code[word.end..];
            use_end = word.end + rest.find(';').unwrap_or(rest.len());
        }
        let before = &source.code[..begin];
        // `pub(in …)` says how far a name is seen, and takes nothing from there.
        let is_begin = !before.ends_with([':', '$', '.']) && !before.ends_with("pub(in ");
        let is_ours =
            matches!(word.text, "crate" | "self" | "super") || declares(source, word.text);
        if begin < use_end || !is_begin || !is_ours || !source.code[word.end..].starts_with("::") {
            continue;
        }
        let rest = &source.code[begin..];
        let end = rest.find(|letter| !is_word(letter) && letter != ':');
        let path = rest[..end.unwrap_or(rest.len())].trim_end_matches(':');
        found.push((word.line, path.to_owned()));
    }
    found
}
