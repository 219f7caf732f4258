//! What a search looks for: words, whatever their case.
//!
//! A word is a run of letters and digits of any script, with the marks that belong to them. The
//! store indexes exactly these words, so it finds what [`Search::finds`] says, and a row that
//! stands in no index (an older version, a row in memory) is judged alike.

use std::fmt;

/// Most words of one search.
pub const WORDS_MAX: usize = 64;

/// From here on (CJK Radicals Supplement) one character can be a word of its own, and texts without
/// spaces are one long word: there a single character still finds what begins with it.
const IDEOGRAPHS_FROM: char = '\u{2e80}';

/// A search as sent, taken apart: several words of which any one will do, the last perhaps being
/// the beginning of one; or, between quotation marks, words that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    words: Vec<String>,
    is_phrase: bool,
}

/// The words of `text`, in small letters.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|c: char| !is_of_word(c));
    let runs = runs.filter(|run| !run.is_empty());
    runs.map(str::to_lowercase)
}

/// The words of `text` with one space between them: what the store's index is made of.
pub fn indexed(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for word in words(text) {
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(&word);
    }
    all
}

/// Names the rule by which texts are split into words: what the store keeps beside its indexes, to
/// rebuild them when another rule would look for other words.
pub fn rule() -> String {
    let (major, minor, update) = char::UNICODE_VERSION;
    format!("1, Unicode {major}.{minor}.{update}")
}

/// Whether a character belongs to a word.
pub(crate) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || is_mark(c)
}

/// Accents that stand after their letter as characters of their own (Unicode block "Combining
/// Diacritical Marks").
fn is_mark(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

impl Search {
    /// Takes `text` apart. `None` when it has more than [`WORDS_MAX`] words.
    pub fn parse(text: &str) -> Option<Search> {
        let text = text.trim();
        let inner = text
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let words: Vec<String> = words(inner.unwrap_or(text)).take(WORDS_MAX + 1).collect();
        (words.len() <= WORDS_MAX).then_some(Search {
            words,
            is_phrase: inner.is_some(),
        })
    }

    /// What is searched for, in small letters.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the words must follow each other.
    pub(crate) fn is_phrase(&self) -> bool {
        self.is_phrase
    }

    /// Whether nothing can be found, because there is no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word whose beginning will do: the last one outside quotation marks, unless it is a
    /// single letter or digit. All words that begin with one letter are gathered in one step of the
    /// index, of 25 to 360 ms at 200,000 rows of 20 words; with two letters it is up to three.
    pub(crate) fn beginning(&self) -> Option<&str> {
        let last = self.words.last().filter(|_| !self.is_phrase)?;
        let mut characters = last.chars();
        let first = characters.next()?;
        let is_short = first < IDEOGRAPHS_FROM && characters.next().is_none();
        (!is_short).then_some(last)
    }

    /// Whether `text` has what is searched for.
    pub fn finds(&self, text: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        if self.is_phrase {
            let all: Vec<String> = words(text).collect();
            return all
                .windows(self.words.len())
                .any(|run| run == self.words.as_slice());
        }
        let beginning = self.beginning();
        words(text).any(|word| {
            beginning.is_some_and(|beginning| word.starts_with(beginning))
                || self.words.contains(&word)
        })
    }

    /// The search as SQLite's FTS5 reads it. Words hold neither quotation marks nor spaces.
    pub(crate) fn to_fts5(&self) -> String {
        if self.is_phrase {
            return format!("\"{}\"", self.words.join(" "));
        }
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| format!("\"{word}\""))
            .collect();
        let mark = if self.beginning().is_some() { " *" } else { "" };
        format!("{}{mark}", words.join(" OR "))
    }

    /// Equal bytes for searches that find the same.
    pub(crate) fn write_normal_form(&self, mut write: impl FnMut(&[u8])) {
        write(&[u8::from(self.is_phrase)]);
        for word in &self.words {
            write(word.as_bytes());
        }
    }
}

/// The search as it might have been sent.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words.join(" ");
        if self.is_phrase {
            write!(f, "\"{words}\"")
        } else {
            f.write_str(&words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(search: &str, text: &str, expected: bool) {
        let search = Search::parse(search).unwrap();
        assert_eq!(search.finds(text), expected, "{search:?} in {text:?}");
    }

    #[test]
    fn any_word_will_do_and_the_last_may_be_a_beginning() {
        check("captain", "Captain America", true);
        check("AMER", "Captain America", true);
        check("amer captain", "Captain America", true);
        check("cap america", "Captain Marvel", false);
        check("cap", "escape", false);
        check("über", "Die ÜBERRASCHUNG", true);
        check("e\u{301}te", "l'e\u{301}te", true);
        check("42", "Room 42b", true);
    }

    #[test]
    fn one_letter_at_the_end_is_a_whole_word_in_all_forms() {
        check("a", "Captain America", false);
        check("a", "Plan A", true);
        check("A", "plan a", true);
        check("4", "Room 42b", false);
        check("é", "été", false);
        check("captain a", "Captain Marvel", true);
        check("marvel a", "Captain America", false);
        check("am", "Captain America", true);
        check("文", "文字列", true);
        for (search, fts5) in [
            ("a", r#""a""#),
            ("b a", r#""b" OR "a""#),
            ("b am", r#""b" OR "am" *"#),
            ("文", r#""文" *"#),
        ] {
            let parsed = Search::parse(search).unwrap();
            assert_eq!(parsed.to_fts5(), fts5, "{search}");
        }
    }

    #[test]
    fn between_quotation_marks_words_follow_each_other() {
        check("\"captain america\"", "The Captain, America", true);
        check("\"america captain\"", "Captain America", false);
        check("\"captain amer\"", "Captain America", false);
    }

    #[test]
    fn without_words_nothing_is_found() {
        for nothing in ["", "  ", "\"\"", "\"", "--", "* OR"] {
            let search = Search::parse(nothing).unwrap();
            assert_eq!(search.is_empty(), nothing != "* OR", "{nothing:?}");
        }
        check("!", "!", false);
    }

    #[test]
    fn search_texts_for_the_index_hold_words_only() {
        let search = Search::parse("a\" OR \"b* NEAR(c'd").unwrap();
        assert_eq!(
            search.to_fts5(),
            r#""a" OR "or" OR "b" OR "near" OR "c" OR "d""#
        );
        let phrase = Search::parse("\"a b\"").unwrap();
        assert_eq!(phrase.to_fts5(), "\"a b\"");
    }

    #[test]
    fn the_number_of_words_is_bounded() {
        assert!(Search::parse(&"w ".repeat(WORDS_MAX)).is_some());
        assert!(Search::parse(&"w ".repeat(WORDS_MAX + 1)).is_none());
    }
}
