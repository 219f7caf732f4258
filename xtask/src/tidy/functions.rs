//! Rule `function`: how long a function may be, in three languages.

use super::Finding;
use super::source::{Language, Source, Tree};

/// A page; the models' 90th percentile is below half of it.
const LINES_MAX: usize = 70;

/// A function by its first and last line, counted from 1.
struct FoundFunction {
    name: String,
    first: usize,
    last: usize,
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let functions = match source.language {
            Language::Rust => in_rust(source),
            // In a test file the outermost functions are lists of cases.
            Language::JavaScript if !source.is_test => in_javascript(source),
            Language::Python => in_python(source),
            _ => Vec::new(),
        };
        for function in functions {
            let lines = function.last - function.first + 1;
            if lines > LINES_MAX {
                let message = format!(
                    "`{}` has {lines} lines; name its parts and split it, {LINES_MAX} at most",
                    function.name
                );
                findings.push(Finding::new(
                    &source.path,
                    function.first,
                    "function",
                    message,
                ));
            }
        }
    }
    findings
}

fn in_rust(source: &Source) -> Vec<FoundFunction> {
    let words = source.words();
    let named = words.windows(2).filter(|pair| {
        let between = &source.code[pair[0].end..pair[1].end - pair[1].text.len()];
        pair[0].text == "fn" && between.trim().is_empty()
    });
    named
        .filter_map(|pair| {
            let open = body_start(&source.code, pair[1].end)?;
            let close = source.closing_brace(open)?;
            let (name, last) = (pair[1].text.to_owned(), source.line_of(close));
            Some(FoundFunction {
                name,
                first: pair[0].line,
                last,
            })
        })
        .collect()
}

/// The brace that opens the body; `None` for a declaration that ends in `;`.
fn body_start(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, letter) in code[from..].char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(from + at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// `function name(…) {`, `name = (…) => {` and methods, told by the `{` behind the parameters.
fn in_javascript(source: &Source) -> Vec<FoundFunction> {
    let mut functions = Vec::new();
    let code = &source.code;
    for (open, _) in code.match_indices('{') {
        let before = code[..open].trim_end();
        let head = before.strip_suffix("=>").unwrap_or(before).trim_end();
        let Some(parameters) = opening_parenthesis(head) else {
            continue;
        };
        let name = head[..parameters].trim_end();
        let start = name
            .rfind(|letter: char| !super::mask::is_word(letter))
            .map_or(0, |at| at + 1);
        let name = &name[start..];
        if matches!(
            name,
            "if" | "for" | "while" | "switch" | "catch" | "with" | "await"
        ) {
            continue;
        }
        if let Some(close) = source.closing_brace(open) {
            let (first, last) = (source.line_of(parameters), source.line_of(close));
            functions.push(FoundFunction {
                name: name.to_owned(),
                first,
                last,
            });
        }
    }
    functions
}

/// The partner of the `)` that `head` ends with.
fn opening_parenthesis(head: &str) -> Option<usize> {
    let mut depth = 0_u32;
    if !head.ends_with(')') {
        return None;
    }
    for (at, letter) in head.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth == 1 => return Some(at),
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A function ends with its last line that is indented deeper than its `def`.
fn in_python(source: &Source) -> Vec<FoundFunction> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = source.code.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let head = line.trim_start().trim_start_matches("async ");
        let Some(rest) = head.strip_prefix("def ") else {
            continue;
        };
        let name = rest.split('(').next().unwrap_or(rest).trim().to_owned();
        let mut last = index;
        // Blanked lines (comments, long strings) say nothing about where the body ends.
        for (below, line) in lines.iter().enumerate().skip(index + 1) {
            let text = line.trim();
            if text.is_empty() || text.starts_with(')') {
                continue;
            }
            if indent(line) <= indent(lines[index]) {
                break;
            }
            last = below;
        }
        functions.push(FoundFunction {
            name,
            first: index + 1,
            last: last + 1,
        });
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(path: &str, head: &str, foot: &str) {
        let body = |lines: usize| format!("{head}\n{}{foot}\n", "    x();\n".repeat(lines));
        // Head and foot are lines of the function too; Python has no foot.
        let fits = if foot.is_empty() { 69 } else { 68 };
        snippets::check(super::check, &[(path, &body(fits))], &[]);
        let expected = format!("{path}:1: function");
        snippets::check(
            super::check,
            &[(path, &body(fits + 1))],
            &[expected.as_str()],
        );
    }

    #[test]
    fn seventy_lines_pass_and_one_more_does_not() {
        check(
            "a.rs",
            "pub async fn f<T>(a: [u8; 3]) -> T where T: Sized {",
            "}",
        );
        check("tests/a.rs", "fn f() { let a = '}'; let b = \"}\";", "}");
        check(
            "a.js",
            "export async function f(a = {}, b = () => 1) {",
            "}",
        );
        check("a.js", "const f = async ({ a, b }) => {", "};");
        check("a.py", "def f(a, b):", "");
    }

    #[test]
    fn function_lookalikes_pass() {
        let lines = "    x();\n".repeat(80);
        let rust = format!("type A = fn(u8) -> u8;\ntrait B {{ fn c(); }}\nmod d {{\n{lines}}}\n");
        let javascript = format!("if (a(b)) {{\n{lines}}}\nclass A {{\n{lines}}}\n");
        let cases = format!("describe('a', () => {{\n{lines}}});\n");
        let python = format!("class A:\n{lines}\ndef f():\n    x()\n\n{lines}");
        let files = [
            ("a.rs", rust.as_str()),
            ("b.js", javascript.as_str()),
            ("c.test.js", cases.as_str()),
        ];
        snippets::check(super::check, &files, &[]);
        snippets::check(super::check, &[("d.py", &python)], &["d.py:83: function"]);
    }
}
