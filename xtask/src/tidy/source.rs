//! The tree as the rules see it: paths, and texts split into code, literals and test code.

use std::collections::BTreeSet;

use super::mask::{self, Literal, is_word};

/// What a file is written in, as far as a rule needs to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Language {
    Rust,
    /// TypeScript too.
    JavaScript,
    Python,
    Markdown,
    /// Configuration, scripts, data.
    Other,
}

/// One file.
pub struct Source {
    /// Relative to the root, with `/`.
    pub path: String,
    pub language: Language,
    /// As it stands in the file; empty when that is not UTF-8.
    pub text: String,
    /// The text with comments and the insides of literals blanked out; line by line the same.
    pub code: String,
    pub literals: Vec<Literal>,
    /// The whole file is test code.
    pub is_test: bool,
    /// What the `use` items import, each path written out, with the line of its item.
    pub uses: Vec<(usize, String)>,
    /// The modules that the file declares.
    pub modules: Vec<String>,
    /// For each line, counted from 0: it belongs to a test inside a file that is not one.
    test_lines: Vec<bool>,
}

/// One word of the code.
pub struct Word<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
    /// Byte position in the code just behind the word.
    pub end: usize,
}

/// The files of the project.
pub struct Tree {
    /// Every path, also of files that are not text.
    pub paths: BTreeSet<String>,
    pub sources: Vec<Source>,
}

impl Tree {
    /// Takes (path, text) pairs, with paths relative to the root.
    pub fn new(texts: Vec<(String, String)>) -> Tree {
        let paths = texts.iter().map(|(path, _)| path.clone()).collect();
        let mut sources: Vec<Source> = texts
            .into_iter()
            .map(|(path, text)| Source::new(path, text))
            .collect();
        let declared: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
        for source in &mut sources {
            let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
            let below = |module: &String| {
                stem.strip_prefix(module.as_str())
                    .is_some_and(|s| s.is_empty() || s.starts_with('/'))
            };
            source.is_test |= declared.iter().any(below);
        }
        Tree { paths, sources }
    }

    /// The file at exactly this path.
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// True for a file, and for a folder that holds one.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let mut after = self.paths.range(folder.clone()..);
        path.is_empty()
            || self.paths.contains(path)
            || after.next().is_some_and(|next| next.starts_with(&folder))
    }

    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(|source| source.language == Language::Rust)
    }
}

impl Source {
    pub fn new(path: String, text: String) -> Source {
        let language = language_of(&path);
        let masked = match language {
            Language::Rust => mask::rust(&text),
            Language::JavaScript => mask::javascript(&text),
            Language::Python => mask::python(&text),
            Language::Markdown | Language::Other => mask::Masked {
                code: text.clone(),
                literals: Vec::new(),
            },
        };
        let is_test = is_test_path(&path);
        let (code, literals) = (masked.code, masked.literals);
        let mut source = Source {
            path,
            language,
            text,
            code,
            literals,
            is_test,
            uses: Vec::new(),
            modules: Vec::new(),
            test_lines: Vec::new(),
        };
        if language == Language::Rust {
            source.uses = source.find_uses();
            source.modules = source.find_modules();
        }
        source.test_lines = source.find_test_lines();
        source
    }

    /// Whether this line, counted from 1, is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// The words of the code in order; numbers are words too.
    pub fn words(&self) -> Vec<Word<'_>> {
        let (mut words, mut start, mut line) = (Vec::new(), None, 1);
        for (at, letter) in self.code.char_indices().chain([(self.code.len(), ' ')]) {
            match (is_word(letter), start) {
                (true, None) => start = Some(at),
                (false, Some(from)) => {
                    words.push(Word {
                        text: &self.code[from..at],
                        line,
                        end: at,
                    });
                    start = None;
                }
                _ => {}
            }
            if letter == '\n' {
                line += 1;
            }
        }
        words
    }

    fn find_modules(&self) -> Vec<String> {
        let words = self.words();
        let pairs = words.windows(2).filter(|pair| pair[0].text == "mod");
        pairs.map(|pair| pair[1].text.to_owned()).collect()
    }

    fn find_uses(&self) -> Vec<(usize, String)> {
        let mut uses = Vec::new();
        for word in self.words().iter().filter(|word| word.text == "use") {
            let rest = &self.code[word.end..];
            // `use<'a>` in a type is no item.
            if rest.starts_with(char::is_whitespace) {
                let item = &rest[..rest.find(';').unwrap_or(rest.len())];
                let item: String = item.split_whitespace().collect::<Vec<_>>().join(" ");
                let mut paths = Vec::new();
                write_out("", &item, &mut paths);
                uses.extend(paths.into_iter().map(|path| (word.line, path)));
            }
        }
        uses
    }

    /// Lines, counted from 1, on which the code names `path`: written there, or imported there.
    /// A longer path that begins or ends with it counts.
    pub fn lines_naming(&self, path: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        for (at, _) in self.code.match_indices(path) {
            let before = self.code[..at]
                .chars()
                .next_back()
                .is_none_or(|l| !is_word(l));
            let after = self.code[at + path.len()..]
                .chars()
                .next()
                .is_none_or(|l| !is_word(l));
            if before && (after || path.ends_with("::")) {
                lines.push(self.line_of(at));
            }
        }
        let wanted = format!("::{}::", path.trim_end_matches("::"));
        let within = |used: &str| format!("::{used}::").contains(&wanted);
        let uses = self.uses.iter().filter(|(_, used)| within(used));
        lines.extend(uses.map(|(line, _)| line));
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// The position of the brace that closes the one at `open`.
    pub fn closing_brace(&self, open: usize) -> Option<usize> {
        let mut depth = 0_u32;
        for (at, letter) in self.code[open..].char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 1 => return Some(open + at),
                '}' => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// The line, counted from 1, on which a byte of the code stands.
    pub fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Modules declared as `#[cfg(test)] mod name;`: their paths without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        if self.language != Language::Rust {
            return Vec::new();
        }
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = file.trim_end_matches(".rs");
        let within = match stem {
            "lib" | "main" | "mod" => folder.to_owned(),
            _ => format!("{folder}/{stem}"),
        };
        let items = self.test_items();
        let names = items.filter_map(|item| item.strip_suffix(';')?.rsplit(' ').next());
        names.map(|name| format!("{within}/{name}")).collect()
    }

    /// What follows each `#[cfg(test)]` up to its first `{` or `;`, that one included.
    fn test_items(&self) -> impl Iterator<Item = &str> {
        self.test_attributes().map(|at| {
            let rest = &self.code[at..];
            let end = rest.find(['{', ';']).map_or(rest.len(), |end| end + 1);
            &rest[..end]
        })
    }

    /// The byte behind each attribute that makes the next item test code.
    fn test_attributes(&self) -> impl Iterator<Item = usize> {
        self.code.match_indices("#[").filter_map(|(at, _)| {
            let end = at + self.code[at..].find(']')? + 1;
            let inside = self.code[at + 2..end - 1].trim();
            let is_test = matches!(inside, "test" | "cfg(test)")
                || inside.starts_with("cfg(all(test")
                || inside.ends_with("::test");
            is_test.then_some(end)
        })
    }

    fn find_test_lines(&self) -> Vec<bool> {
        let mut lines = vec![false; self.text.lines().count()];
        if self.language != Language::Rust {
            return lines;
        }
        for at in self.test_attributes() {
            let Some(open) = self.code[at..].find(['{', ';']).map(|found| at + found) else {
                continue;
            };
            let is_block = self.code[open..].starts_with('{');
            let end = if is_block {
                self.closing_brace(open)
            } else {
                Some(open)
            };
            let (first, last) = (self.line_of(at), self.line_of(end.unwrap_or(open)));
            lines[first - 1..last].fill(true);
        }
        lines
    }
}

/// Writes out a tree such as `a::{b, c::{self, d as e}}`: `a::b`, `a::c::self`, `a::c::d`.
fn write_out(prefix: &str, item: &str, paths: &mut Vec<String>) {
    let item = item.trim().trim_start_matches("::");
    let Some(open) = item.find('{') else {
        let path = item.split(" as ").next().unwrap_or(item).trim();
        if !path.is_empty() {
            paths.push(format!("{prefix}{path}"));
        }
        return;
    };
    let prefix = format!("{prefix}{}", &item[..open]);
    let inside = item[open + 1..].trim_end();
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                write_out(&prefix, &inside[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    write_out(&prefix, &inside[start..], paths);
}

fn language_of(path: &str) -> Language {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" => Language::Rust,
        "js" | "mjs" | "cjs" | "ts" | "tsx" => Language::JavaScript,
        "py" | "pyi" => Language::Python,
        "md" => Language::Markdown,
        _ => Language::Other,
    }
}

/// Test code by its place: a `tests` folder, or a name that the language's runner looks for.
fn is_test_path(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.split('.').next().unwrap_or(file);
    folders
        .split('/')
        .any(|folder| matches!(folder, "tests" | "fuzz"))
        || matches!(stem, "tests" | "conftest")
        || stem.starts_with("test_")
        || file.contains(".test.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path.to_owned(), text.to_owned())
    }

    #[test]
    fn test_code_is_told_by_its_place() {
        for path in [
            "tests/src/lib.rs",
            "crates/a/src/b/tests.rs",
            "a/x.test.js",
            "a/test_b.py",
        ] {
            assert!(source(path, "").is_test, "{path}");
        }
        for path in [
            "crates/a/src/testing.rs",
            "bench/latest.js",
            "xtask/src/tidy.rs",
        ] {
            assert!(!source(path, "").is_test, "{path}");
        }
    }

    #[test]
    fn test_code_is_told_by_its_attribute() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { if x { } }\n}\nfn c() {}";
        let found: Vec<bool> = (1..=6)
            .map(|line| source("a.rs", text).is_test_line(line))
            .collect();
        assert_eq!(found, [false, true, true, true, true, false]);
    }

    #[test]
    fn a_module_declared_for_tests_is_test_code_with_all_below_it() {
        let texts = [
            (
                "crates/a/src/lib.rs",
                "mod real;\n#[cfg(test)]\nmod oracle;\n",
            ),
            ("crates/a/src/real.rs", "#[cfg(test)]\nmod cases;"),
            ("crates/a/src/oracle.rs", ""),
            ("crates/a/src/oracle/slow.rs", ""),
            ("crates/a/src/real/cases.rs", ""),
            ("crates/a/src/cases.rs", ""),
        ];
        let owned = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let tree = Tree::new(owned.into());
        let found: Vec<bool> = tree.sources.iter().map(|source| source.is_test).collect();
        assert_eq!(found, [false, false, true, true, true, false]);
    }

    #[test]
    fn words_know_their_line() {
        let source = source("a.rs", "let a1 =\n  b_2::c; // d");
        let words: Vec<_> = source
            .words()
            .iter()
            .map(|word| (word.text, word.line))
            .collect();
        assert_eq!(words, [("let", 1), ("a1", 1), ("b_2", 2), ("c", 2)]);
    }

    #[test]
    fn use_trees_are_written_out() {
        let text = "pub use a::{b, c::{self, d as e}};\nuse ::f::g;\nuse h::{i::{j,\n k}, l};";
        let uses = source("a.rs", text).uses;
        let found: Vec<_> = uses
            .iter()
            .map(|(line, path)| (*line, path.as_str()))
            .collect();
        let expected = [
            (1, "a::b"),
            (1, "a::c::self"),
            (1, "a::c::d"),
            (2, "f::g"),
            (3, "h::i::j"),
            (3, "h::i::k"),
            (3, "h::l"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_is_found_where_it_is_written_or_imported() {
        let text = "use std::{fs, io};\nlet a = std::fs::read(b);\nmystd::fs(); std::fsx();";
        assert_eq!(source("a.rs", text).lines_naming("std::fs"), [1, 2]);
        assert_eq!(
            source("a.rs", "// std::fs\n\"std::fs\"").lines_naming("std::fs"),
            [0; 0]
        );
    }

    #[test]
    fn a_tree_holds_files_and_their_folders() {
        let tree = Tree::new(vec![("docs/a/b.md".to_owned(), String::new())]);
        assert!(
            ["docs", "docs/a", "docs/a/", "docs/a/b.md", ""]
                .iter()
                .all(|p| tree.holds(p))
        );
        assert!(
            ["doc", "docs/a/b", "docs/a/b.md/c"]
                .iter()
                .all(|path| !tree.holds(path))
        );
    }
}
