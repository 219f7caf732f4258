//! Words as PostgreSQL holds them in an index: what a function of ours, which stands in the schema
//! of a store, makes of each text.
//!
//! The server's own parser of texts, its classes of characters and its lowercase are none of
//! ours, and differ from machine to machine. So the function has the tables of [`crate::search`] in
//! its text, and the server only splits and replaces by them. A row with a word of a search is
//! always among those that the index gives; more may be, and each is tested
//! ([`crate::undecided()`]).

use std::fmt::Write;
use std::ops::Range;
use std::sync::LazyLock;

use crate::names;
use crate::search::{self, Search};

/// So many characters of a word are held, and looked for. A lexeme of a `tsvector` has at most
/// 2,046 bytes.
const WORD_CHARS_MAX: usize = 64;
/// Of a longer text no words are held: a `tsvector` has room for a megabyte.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Stands for all words of such a text, and is none.
const ANY_WORD: &str = "*";
/// Of a text with more different capital letters no words are held either: each letter of a text is
/// compared with all of them, and the author of a text chooses them.
const CAPITALS_MAX: usize = 128;
/// A sigma at the end of a word, which stands for any: what is an end is not looked at.
const LAST_SIGMA: char = 'ς';
const SIGMA: char = 'σ';

/// Names what [`function`] makes of texts: indexes made by another are to be made again.
pub fn rule() -> String {
    format!("lexemes 2, {}", search::rule())
}

/// The statement that makes the function, or replaces it.
pub fn function() -> &'static str {
    static FUNCTION: LazyLock<String> = LazyLock::new(written);
    &FUNCTION
}

fn written() -> String {
    let letters = make_small();
    let words = class('\0'..char::MAX, search::is_of_word);
    format!(
        "CREATE OR REPLACE FUNCTION {name}(content text) RETURNS tsvector LANGUAGE plpgsql \
         IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS $lexemes$\n\
         DECLARE\n  small text COLLATE \"C\";\n  large text COLLATE \"C\";\n\
         BEGIN\n\
         \x20 IF octet_length(content) > {TEXT_BYTES_MAX} THEN\n\
         \x20   RETURN array_to_tsvector(ARRAY['{ANY_WORD}']);\n\
         \x20 END IF;\n\
         \x20 small := lower(content COLLATE \"C\");\n{letters}\
         \x20 RETURN (SELECT\n\
         \x20   coalesce(array_to_tsvector(array_agg(left(word, {WORD_CHARS_MAX}))), '')\n\
         \x20   FROM regexp_split_to_table(small, '[^{words}]+') AS word WHERE word <> '');\n\
         END $lexemes$;",
        name = names::INDEXED_WORDS,
    )
}

/// What a search looks for, as a `tsquery`: each row with what is searched for has it.
pub(crate) fn wanted(search: &Search) -> String {
    let joint = if search.is_phrase() { " & " } else { " | " };
    let mut wanted = String::from("(");
    for (nth, word) in search.words().iter().enumerate() {
        let joint = if nth > 0 { joint } else { "" };
        write!(wanted, "{joint}'{}'", lexeme(word)).expect("a string takes all");
    }
    if search.beginning().is_some() {
        wanted.push_str(":*");
    }
    write!(wanted, ") | '{ANY_WORD}'").expect("a string takes all");
    wanted
}

/// A word as it is held.
fn lexeme(word: &str) -> String {
    let held = word.chars().take(WORD_CHARS_MAX);
    held.map(|c| if c == LAST_SIGMA { SIGMA } else { c })
        .collect()
}

/// The statements that make letters lowercase, as [`str::to_lowercase`] does, behind those of
/// ASCII. The capital letters of the text are gathered, and only they are replaced.
fn make_small() -> String {
    let (mut large, mut small, mut whole) = (String::new(), String::new(), String::new());
    let all = '\u{80}'..char::MAX;
    for c in all.clone() {
        let mut letters = c.to_lowercase();
        match (letters.next(), letters.next()) {
            _ if c == LAST_SIGMA => {
                large.push(c);
                small.push(SIGMA);
            }
            (Some(one), None) if one != c => {
                large.push(c);
                small.push(one);
            }
            (Some(_), Some(_)) => {
                let several = c.to_lowercase();
                writeln!(whole, "    small := replace(small, '{c}', '{several}');")
                    .expect("a string takes all");
            }
            _ => {}
        }
    }
    let any = class(all, |c| c == LAST_SIGMA || !c.to_lowercase().eq([c]));
    format!(
        "  IF small ~ '[{any}]' THEN\n{whole}    \
         large := (SELECT coalesce(string_agg(DISTINCT letter, ''), '') FROM\n      \
         unnest(string_to_array(regexp_replace(small, '[^{any}]+', '', 'g'), NULL)) letter);\n    \
         IF length(large) > {CAPITALS_MAX} THEN\n      \
         RETURN array_to_tsvector(ARRAY['{ANY_WORD}']);\n    \
         END IF;\n    \
         small := translate(small, large, translate(large, '{large}', '{small}'));\n  END IF;\n"
    )
}

/// Characters between the brackets of a regular expression.
fn class(among: Range<char>, is_in: impl Fn(char) -> bool) -> String {
    let mut class = String::new();
    let mut write = |from: char, to: char| {
        class.push(from);
        if from != to {
            class.push('-');
            class.push(to);
        }
    };
    let mut run: Option<(char, char)> = None;
    for c in among.filter(|c| is_in(*c)) {
        match &mut run {
            Some((_, last)) if *last as u32 + 1 == c as u32 => *last = c,
            run => {
                if let Some((from, to)) = run.replace((c, c)) {
                    write(from, to);
                }
            }
        }
    }
    if let Some((from, to)) = run {
        write(from, to);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_for_what_each_row_that_it_finds_holds() {
        let wanted = |text: &str| wanted(&Search::parse(text).unwrap());
        assert_eq!(wanted("Quiet sea"), "('quiet' | 'sea':*) | '*'");
        assert_eq!(wanted("sea a"), "('sea' | 'a') | '*'");
        assert_eq!(wanted("\"quiet sea\""), "('quiet' & 'sea') | '*'");
        assert_eq!(wanted("ΟΔΟΣ it's"), "('οδοσ' | 'it' | 's') | '*'");
        let long = "ab".repeat(40);
        let held = &long[..64];
        assert_eq!(wanted(&long), format!("('{held}':*) | '*'"));
    }

    #[test]
    fn a_class_names_runs_of_characters() {
        let is_in = |c| matches!(c, 'a'..='c' | 'e' | 'é'..='ê');
        assert_eq!(class('\0'..'\u{100}', is_in), "a-ceé-ê");
    }

    /// Neither ends the text of the function, nor means anything in a class.
    #[test]
    fn the_tables_hold_letters_only() {
        let text = function();
        for (sign, count) in [("$lexemes$", 2), ("COLLATE", 3)] {
            assert_eq!(text.matches(sign).count(), count, "{sign}");
        }
        let is_plain = |c: char| !r"'\]^-".contains(c);
        let mut large = ('\0'..=char::MAX).filter(|c| !c.to_lowercase().eq([*c]));
        assert!(large.all(is_plain));
        let of_words = ('\0'..=char::MAX).filter(|c| search::is_of_word(*c));
        let of_words: Vec<char> = of_words.collect();
        assert!(of_words.len() > 100_000 && of_words.into_iter().all(is_plain));
    }
}
