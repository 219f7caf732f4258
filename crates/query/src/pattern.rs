//! Regular expressions, matched in time linear in the text: no pattern can stall a read.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

/// Most bytes of memory one compiled expression may take; repetitions of repetitions take most.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression and its text. The language is that of the `regex` crate, close to Perl's
/// without look-around and back-references; letter case counts unless `(?i)` says otherwise.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
    compiled: Regex,
}

impl Pattern {
    /// # Errors
    /// Why `text` is none, in one line.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let compiled = RegexBuilder::new(text)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(bytes) => {
                    format!("compiled it would take more than {bytes} bytes")
                }
                // The crate draws the place over several lines; the last one says what is wrong.
                other => {
                    let drawn = other.to_string();
                    let last = drawn.lines().last().unwrap_or_default();
                    last.trim_start_matches("error: ").to_owned()
                }
            })?;
        Ok(Pattern {
            text: text.into(),
            compiled,
        })
    }

    /// The expression as sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some part of `text` matches.
    pub fn finds(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }
}

/// By what was sent: the language knows other expressions that match the same.
impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_text_is_enough() {
        let pattern = Pattern::parse("b+c$").unwrap();
        assert!(pattern.finds("abbc"));
        assert!(!pattern.finds("abbcd"));
        assert!(!pattern.finds("ABBC"));
        assert!(Pattern::parse("(?i)b+c$").unwrap().finds("ABBC"));
    }

    #[test]
    fn what_is_no_expression_is_refused_in_one_line() {
        for (text, part) in [
            ("(", "unclosed group"),
            ("a**(?=b)", "look-around"),
            ("(\\w{1000}){1000}", "more than 1048576 bytes"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
