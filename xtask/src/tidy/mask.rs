//! Tells code from comments and string literals, without a parser.
//!
//! The rules ask "does the code say X"; a comment or a message that says X is another matter.
//! Masking keeps every line and column in its place, so a finding still points at the text.

/// A text split in two: what the program does, and what it says.
pub struct Masked {
    /// The text with comments and the insides of literals blanked out.
    pub code: String,
    /// The insides of the string literals, in order, escapes left as they are.
    pub literals: Vec<Literal>,
}

/// One string literal.
pub struct Literal {
    /// Where it begins, counted from 1.
    pub line: usize,
    /// What stands between the quotes.
    pub text: String,
}

/// Masks Rust: nested comments, raw strings, and `'a'` against `'a`.
pub fn rust(text: &str) -> Masked {
    let mut mask = Mask::new(text);
    while let Some(letter) = mask.peek(0) {
        match letter {
            '/' if mask.peek(1) == Some('/') => mask.blank_while(|letter| letter != '\n'),
            '/' if mask.peek(1) == Some('*') => mask.blank_comment(true),
            '"' => mask.string('"'),
            '\'' => mask.quote_or_lifetime(),
            _ if is_word(letter) => {
                let word = mask.keep_word();
                if matches!(word.as_str(), "r" | "br" | "cr") {
                    mask.raw_string();
                }
            }
            _ => mask.keep(),
        }
    }
    mask.finish()
}

/// Masks JavaScript and TypeScript; a template counts as one literal, code inside it too.
pub fn javascript(text: &str) -> Masked {
    let mut mask = Mask::new(text);
    // Decides whether a `/` divides or begins a regular expression.
    let mut before = '(';
    while let Some(letter) = mask.peek(0) {
        match letter {
            '/' if mask.peek(1) == Some('/') => mask.blank_while(|letter| letter != '\n'),
            '/' if mask.peek(1) == Some('*') => mask.blank_comment(false),
            '/' if "(,=:[!&|?{};>".contains(before) => mask.regular_expression(),
            '"' | '\'' | '`' => mask.string(letter),
            _ if is_word(letter) => {
                let word = mask.keep_word();
                before = if word == "return" { '(' } else { 'a' };
                continue;
            }
            _ => mask.keep(),
        }
        if !letter.is_whitespace() && letter != '/' {
            before = letter;
        }
    }
    mask.finish()
}

/// Masks Python: comments, and strings with one or three quotes.
pub fn python(text: &str) -> Masked {
    let mut mask = Mask::new(text);
    while let Some(letter) = mask.peek(0) {
        match letter {
            '#' => mask.blank_while(|letter| letter != '\n'),
            '"' | '\'' if mask.peek(1) == Some(letter) && mask.peek(2) == Some(letter) => {
                mask.triple_string(letter);
            }
            '"' | '\'' => mask.string(letter),
            _ => mask.keep(),
        }
    }
    mask.finish()
}

/// A letter that can stand in a name.
pub fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

struct Mask {
    letters: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    literals: Vec<Literal>,
}

impl Mask {
    fn new(text: &str) -> Mask {
        let letters: Vec<char> = text.chars().collect();
        Mask {
            letters,
            at: 0,
            line: 1,
            code: String::with_capacity(text.len()),
            literals: vec![],
        }
    }

    fn finish(self) -> Masked {
        Masked {
            code: self.code,
            literals: self.literals,
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    /// Moves on by one letter and writes it, or a blank in its place.
    fn step(&mut self, kept: bool) {
        let Some(letter) = self.peek(0) else { return };
        self.at += 1;
        if letter == '\n' {
            self.line += 1;
        }
        self.code
            .push(if kept || letter == '\n' { letter } else { ' ' });
    }

    fn keep(&mut self) {
        self.step(true);
    }

    fn blank(&mut self) {
        self.step(false);
    }

    fn keep_word(&mut self) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.keep();
        }
        self.letters[start..self.at].iter().collect()
    }

    fn blank_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.blank();
        }
    }

    fn blank_comment(&mut self, nests: bool) {
        let mut depth = 0_u32;
        while let Some(letter) = self.peek(0) {
            match (letter, self.peek(1)) {
                ('/', Some('*')) if nests || depth == 0 => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    /// A literal up to the closing quote that no backslash stands before.
    fn string(&mut self, quote: char) {
        self.literal(|mask| {
            if mask.peek(0) == Some('\\') {
                mask.blank();
                mask.blank();
                return false;
            }
            mask.peek(0) == Some(quote)
        });
    }

    fn triple_string(&mut self, quote: char) {
        self.blank();
        self.blank();
        self.literal(|mask| (0..3).all(|ahead| mask.peek(ahead) == Some(quote)));
        self.blank();
        self.blank();
    }

    /// `#"…"#` after an `r`; `r#type` is a name and left alone.
    fn raw_string(&mut self) {
        let mut hashes = 0;
        while self.peek(hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(hashes) != Some('"') {
            return;
        }
        for _ in 0..hashes {
            self.blank();
        }
        self.literal(|mask| {
            let closes = (1..=hashes).all(|ahead| mask.peek(ahead) == Some('#'));
            mask.peek(0) == Some('"') && closes
        });
        for _ in 0..hashes {
            self.blank();
        }
    }

    /// Keeps the quotes, blanks what is between them. `at_end` may blank escapes by itself.
    fn literal(&mut self, at_end: impl Fn(&mut Mask) -> bool) {
        self.keep();
        let (start, line) = (self.at, self.line);
        while self.at < self.letters.len() {
            let before = self.at;
            if at_end(self) {
                break;
            }
            if self.at == before {
                self.blank();
            }
        }
        let end = self.at.min(self.letters.len());
        self.literals.push(Literal {
            line,
            text: self.letters[start..end].iter().collect(),
        });
        self.keep();
    }

    fn quote_or_lifetime(&mut self) {
        let is_letter = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        if !is_letter {
            self.keep();
            return;
        }
        self.keep();
        self.blank();
        if self.peek(0) != Some('\'') || self.letters[self.at - 1] == '\\' {
            // An escape: what follows the backslash is never the end.
            self.blank();
        }
        self.blank_while(|letter| letter != '\'' && letter != '\n');
        self.keep();
    }

    fn regular_expression(&mut self) {
        self.keep();
        let mut in_class = false;
        while let Some(letter) = self.peek(0) {
            match letter {
                '\n' => return,
                '\\' => self.blank(),
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => break,
                _ => {}
            }
            self.blank();
        }
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(masked: &Masked, code: &str, literals: &[&str]) {
        let found: Vec<&str> = masked
            .literals
            .iter()
            .map(|literal| literal.text.as_str())
            .collect();
        let squeezed: Vec<&str> = masked.code.split_whitespace().collect();
        assert_eq!(squeezed.join(" "), code);
        assert_eq!(found, literals);
    }

    #[test]
    fn rust_comments_and_literals_are_blanked() {
        check(&rust("a // b \"c\"\nd"), "a d", &[]);
        check(&rust("a /* b /* c */ d */ e"), "a e", &[]);
        check(
            &rust(r#"f("x // y", "\"z")"#),
            r#"f(" ", " ")"#,
            &["x // y", "\\\"z"],
        );
        check(&rust("r\"a\\\" b"), "r\" \" b", &["a\\"]);
        check(&rust("br##\"a\"# b\"## c"), "br \" \" c", &["a\"# b"]);
        check(&rust("let r#type = \"t\";"), "let r#type = \" \";", &["t"]);
    }

    #[test]
    fn rust_letters_and_lifetimes_differ() {
        check(
            &rust("fn f<'a>(x: &'a str) {}"),
            "fn f<'a>(x: &'a str) {}",
            &[],
        );
        check(
            &rust(r"('{', '\'', '\\', '\u{7d}') {"),
            "(' ', ' ', ' ', ' ') {",
            &[],
        );
        check(&rust("(b'\"', '/') // x"), "(b' ', ' ')", &[]);
    }

    #[test]
    fn javascript_tells_division_from_patterns() {
        check(&javascript("a / b / c"), "a / b / c", &[]);
        check(&javascript("x = /a[/\"]b/.test(y)"), "x = / /.test(y)", &[]);
        check(&javascript("return /\"/; // x"), "return / /;", &[]);
        check(
            &javascript("`a ${b} \\` c` 'd'"),
            "` ` ' '",
            &["a ${b} \\` c", "d"],
        );
    }

    #[test]
    fn python_has_long_strings() {
        check(
            &python("\"\"\"a\n\"b\" # c\"\"\"\nd # e"),
            "\" \" d",
            &["a\n\"b\" # c"],
        );
        check(&python("f'x' '#'"), "f' ' ' '", &["x", "#"]);
    }

    #[test]
    fn lines_and_columns_stay_where_they_were() {
        let text = "a /* b\nc */ \"d\ne\" f";
        let masked = rust(text);
        assert_eq!(masked.code.lines().count(), text.lines().count());
        assert_eq!(masked.code.find('f'), text.find('f'));
        assert_eq!(masked.literals[0].line, 2);
    }

    #[test]
    fn a_text_that_ends_too_early_is_masked_to_its_end() {
        for text in ["\"abc", "r#\"abc", "/* abc", "'\\", "\"\\", "'"] {
            assert_eq!(
                rust(text).code.chars().count(),
                text.chars().count(),
                "{text}"
            );
        }
        assert_eq!(python("\"\"\"abc").code.chars().count(), 6);
        assert_eq!(javascript("x = /abc").code.chars().count(), 8);
    }
}
