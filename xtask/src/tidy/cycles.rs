//! Rule `cycle`: files of a crate import one another in one direction only.
//!
//! A file that imports itself through others cannot be read, tested or moved without them. Imports
//! are `use` items and paths in code. A re-exported name counts for the file that defines it, and
//! what a module takes from the modules below it does not count: it is made of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::mask::is_word;
use super::source::{Source, Tree};

const RULE: &str = "cycle";
/// A name that is re-exported more often than that is taken to stand where the search ends.
const REEXPORTS_MAX: usize = 8;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for source in tree.rust().filter(|source| !source.is_test) {
        if let Some((folder, module)) = Module::of(source) {
            crates.entry(folder).or_default().push(module);
        }
    }
    crates
        .values()
        .flat_map(|modules| check_crate(modules))
        .collect()
}

/// One file of a crate.
struct Module<'a> {
    source: &'a Source,
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

/// For each file, the files it imports with the line of the first such import.
type Imports = Vec<BTreeMap<usize, usize>>;

fn check_crate(modules: &[Module<'_>]) -> Vec<Finding> {
    let own = Crate::new(modules);
    let imports: Imports = (0..modules.len()).map(|file| own.imports(file)).collect();
    let reached: Vec<BTreeSet<usize>> = (0..modules.len()).map(|f| reach(&imports, f)).collect();
    let mut findings = Vec::new();
    for (file, module) in modules.iter().enumerate() {
        let is_mutual = |other: &usize| reached[*other].contains(&file);
        let circle = reached[file]
            .iter()
            .filter(|other| is_mutual(other))
            .count();
        let first = imports[file].iter().filter(|(other, _)| is_mutual(other));
        let Some((other, line)) = first.min_by_key(|(_, line)| **line) else {
            continue;
        };
        let message = format!(
            "imports {}, which imports this file again, in a circle of {circle} files; move what \
             both need into a file below them",
            modules[*other].source.path
        );
        findings.push(Finding::new(&module.source.path, *line, RULE, message));
    }
    findings
}

/// The files that a file imports, directly or through others.
fn reach(imports: &Imports, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(file) = waiting.pop() {
        waiting.extend(imports[file].keys().filter(|other| reached.insert(**other)));
    }
    reached
}

struct Crate<'a> {
    modules: &'a [Module<'a>],
    by_path: BTreeMap<Vec<&'a str>, usize>,
}

impl<'a> Crate<'a> {
    fn new(modules: &'a [Module<'a>]) -> Crate<'a> {
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

    fn imports(&self, file: usize) -> BTreeMap<usize, usize> {
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
        let before = source.code[..begin].chars().next_back();
        let is_begin = !matches!(before, Some(':' | '$' | '.'));
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

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn circle_is_found_over_several_files() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
            ("crates/a/src/b.rs", "\nuse crate::c::C;"),
            ("crates/a/src/c.rs", "fn f() { crate::d::g() }"),
            ("crates/a/src/d.rs", "use super::b::{B, D};"),
        ];
        let circle = [
            "crates/a/src/b.rs:2: cycle",
            "crates/a/src/c.rs:1: cycle",
            "crates/a/src/d.rs:1: cycle",
        ];
        check(&files, &circle);
        check(&files[..3], &[]);
    }

    #[test]
    fn module_is_made_of_what_is_below_it() {
        let parent = ("crates/a/src/b.rs", "mod c;\nmod d;\nuse c::C;");
        let child = ("crates/a/src/b/c.rs", "use super::B;");
        check(&[parent, child], &[]);
        // Beside it there is a direction.
        let other = ("crates/a/src/b/d.rs", "use super::c::C;");
        let back = ("crates/a/src/b/c.rs", "fn f() { super::d::g() }");
        let both = [
            "crates/a/src/b/c.rs:1: cycle",
            "crates/a/src/b/d.rs:1: cycle",
        ];
        check(&[parent, back, other], &both);
    }

    #[test]
    fn reexported_name_counts_for_the_file_that_defines_it() {
        let reexports = "mod b; mod c;\npub use crate::b::B;\npub use c::C;";
        let library = ("crates/a/src/lib.rs", reexports);
        let b = ("crates/a/src/b.rs", "use crate::C;");
        check(&[library, b, ("crates/a/src/c.rs", "struct C;")], &[]);
        let c = ("crates/a/src/c.rs", "use crate::{B, C};");
        let both = ["crates/a/src/b.rs:1: cycle", "crates/a/src/c.rs:1: cycle"];
        check(&[library, b, c], &both);
    }

    #[test]
    fn tests_and_other_crates_make_no_circle() {
        let b = ("crates/a/src/b.rs", "use crate::c::C;");
        let test = "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}";
        check(&[b, ("crates/a/src/c.rs", test)], &[]);
        check(&[b, ("crates/a/src/c.rs", "use b::B; // crate::b")], &[]);
        check(
            &[
                b,
                ("crates/a/src/c.rs", "use d::crate_b; macro!($crate::b::B)"),
            ],
            &[],
        );
        check(&[b, ("crates/d/src/c.rs", "use crate::b::B;")], &[]);
    }
}
