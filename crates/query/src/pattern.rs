//! Regular expressions, each bounded in what it takes to compile and to match.
//!
//! Matching takes time in proportion to the text times the compiled expression in the worst case.
//! So an expression compiles to little, its automaton is built as a text needs it and within a
//! bound of bytes, and the caller is asked every few kilobytes whether to go on.

use std::sync::Arc;

mod literals;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{Compiler, Config, NFA, WhichCaptures};
use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::Translator;

/// Most bytes that one compiled expression may take; repetitions of repetitions take most. Of
/// Unicode's letters (`\w`, `\pL`) there is room for one set: they are some 700 ranges.
const COMPILED_BYTES_MAX: usize = 32 << 10;
/// Most that the classes of one expression may take to write out, in units of some 10
/// microseconds. A bound on what comes out of it does not bound that: `(?i)[\x00-\x{10ffff}]`
/// takes 8 ms and 800 bytes.
const CLASSES_COST_MAX: usize = 64;
/// What a class by name of a Unicode property takes, and one of Perl's or POSIX's.
const UNICODE_CLASS_COST: usize = 8;
const SMALL_CLASS_COST: usize = 1;
/// So many characters of ranges take one unit where letter case is ignored.
const RANGED_PER_COST: usize = 1_024;
/// Most bytes of the automaton of a match in progress.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;
/// When the automaton has been thrown away so often, and a state of it has not served so many
/// bytes of text, it is no help.
const AUTOMATON_RENEWALS_MIN: usize = 3;
const BYTES_PER_STATE_MIN: usize = 10;
/// Bytes of text between two questions whether to go on: microseconds, and 40 ms at worst.
const BYTES_PER_LOOK: usize = 4_096;
/// What a call counts for beside its text.
const CALL_BYTES: usize = 16;
/// Most work on one text without an automaton, in bytes of it times states of the expression: a
/// tenth of a second.
const UNAIDED_WORK_MAX: usize = 16 << 20;

/// A regular expression: its text, which has been compiled to see that it can be. The language is
/// that of the `regex` crate, close to Perl's without look-around and back-references; letter case
/// counts unless `(?i)` says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// # Errors
    /// Why `text` is none, in one line.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        compile(text).map(|_| Pattern(text.into()))
    }

    /// The expression as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Texts that stand in whatever matches, some of them: what a database can look for without
    /// knowing the language.
    pub(crate) fn literals(&self) -> Vec<String> {
        meant(&self.0).map_or(Vec::new(), |meant| literals::literals(&meant))
    }

    /// Whether some part of `text` matches; false, too, where that is too hard to say. Compiles
    /// each time: reads make one [`Matcher`], and lists by regular expressions are never decided
    /// in memory.
    pub fn finds(&self, text: &str) -> bool {
        let matcher = Matcher::parse(&self.0);
        matcher.is_ok_and(|mut matcher| matcher.finds(text, || false) == Ok(true))
    }
}

/// Why a match came to no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// Its caller said that it is over.
    Over,
    /// It would take too much work on this text.
    TooHard,
}

/// A compiled expression with the automaton that its texts have needed so far.
#[derive(Debug)]
pub struct Matcher {
    dfa: DFA,
    cache: Cache,
    /// Made when a text needs it.
    unaided: Option<(PikeVM, pikevm::Cache)>,
    /// Bytes looked at since the caller was asked.
    unasked: usize,
}

impl Matcher {
    /// # Errors
    /// Why `text` is no expression, in one line.
    pub fn parse(text: &str) -> Result<Matcher, String> {
        let config = DFA::config()
            .cache_capacity(AUTOMATON_BYTES_MAX)
            .minimum_cache_clear_count(Some(AUTOMATON_RENEWALS_MIN))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE_MIN))
            // The automaton then steps aside at the first character beyond ASCII.
            .unicode_word_boundary(true);
        let dfa = DFA::builder()
            .configure(config)
            .build_from_nfa(compile(text)?)
            .map_err(|error| error.to_string())?;
        Ok(Matcher {
            cache: dfa.create_cache(),
            dfa,
            unaided: None,
            unasked: 0,
        })
    }

    /// Whether some part of `text` matches. `is_over` is asked every few kilobytes, over all texts
    /// together.
    ///
    /// # Errors
    /// [`Unmatched`].
    pub fn finds(
        &mut self,
        text: &str,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<bool, Unmatched> {
        match self.by_automaton(text, &mut is_over)? {
            Some(found) => Ok(found),
            None => self.unaided(text, is_over),
        }
    }

    /// `None` where the automaton is no help.
    fn by_automaton(
        &mut self,
        text: &str,
        is_over: &mut impl FnMut() -> bool,
    ) -> Result<Option<bool>, Unmatched> {
        let input = Input::new(text).earliest(true);
        let Ok(mut state) = self.dfa.start_state_forward(&mut self.cache, &input) else {
            return Ok(None);
        };
        self.cache.search_start(0);
        self.unasked += CALL_BYTES;
        let mut at = 0;
        for slice in text.as_bytes().chunks(BYTES_PER_LOOK) {
            self.unasked += slice.len();
            if self.unasked >= BYTES_PER_LOOK {
                self.ask(is_over)?;
            }
            for byte in slice {
                self.cache.search_update(at);
                match self.dfa.next_state(&mut self.cache, state, *byte) {
                    Ok(next) => state = next,
                    Err(_) => return Ok(None),
                }
                at += 1;
                if state.is_tagged() {
                    if state.is_match() {
                        return Ok(Some(true));
                    }
                    if state.is_dead() {
                        return Ok(Some(false));
                    }
                    if state.is_quit() {
                        return Ok(None);
                    }
                }
            }
        }
        let end = self.dfa.next_eoi_state(&mut self.cache, state);
        Ok(end.ok().map(|state| state.is_match()))
    }

    /// In time that is certain instead of mostly short.
    fn unaided(
        &mut self,
        text: &str,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<bool, Unmatched> {
        let nfa = self.dfa.get_nfa();
        if text.len().saturating_mul(nfa.states().len()) > UNAIDED_WORK_MAX {
            return Err(Unmatched::TooHard);
        }
        if self.unaided.is_none() {
            let machine = PikeVM::new_from_nfa(nfa.clone()).map_err(|_| Unmatched::TooHard)?;
            let cache = machine.create_cache();
            self.unaided = Some((machine, cache));
        }
        self.ask(&mut is_over)?;
        let (machine, cache) = self.unaided.as_mut().expect("made above");
        Ok(machine.is_match(cache, text))
    }

    fn ask(&mut self, is_over: &mut impl FnMut() -> bool) -> Result<(), Unmatched> {
        self.unasked = 0;
        if is_over() {
            return Err(Unmatched::Over);
        }
        Ok(())
    }
}

/// The expression taken apart.
fn meant(text: &str) -> Result<Hir, String> {
    let tree = ast::parse::Parser::new()
        .parse(text)
        .map_err(|error| last_line(&error))?;
    let classes = ast::visit(&tree, Classes::default()).unwrap_or_else(|never| match never {});
    if classes.cost() > CLASSES_COST_MAX {
        return Err("its character classes name too many characters".to_owned());
    }
    let meant = Translator::new().translate(text, &tree);
    meant.map_err(|error| last_line(&error))
}

fn compile(text: &str) -> Result<NFA, String> {
    let meant = meant(text)?;
    let config = Config::new()
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(COMPILED_BYTES_MAX));
    let compiled = Compiler::new().configure(config).build_from_hir(&meant);
    compiled.map_err(|error| match error.size_limit() {
        Some(bytes) => format!(
            "compiled it would take more than {bytes} bytes; repeat less, or write (?-u:\\w) where \
             ASCII letters are enough"
        ),
        None => last_line(&error),
    })
}

/// The parser draws the place over several lines; the last one says what is wrong.
fn last_line(error: &impl ToString) -> String {
    let drawn = error.to_string();
    let last = drawn.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// What the classes of an expression take to write out.
#[derive(Default)]
struct Classes {
    cost: usize,
    /// Characters of ranges.
    ranged: usize,
    /// Whether letter case is ignored anywhere.
    ignores_case: bool,
}

impl Classes {
    fn cost(&self) -> usize {
        let folded = if self.ignores_case { self.ranged } else { 0 };
        self.cost + folded / RANGED_PER_COST
    }

    fn take_flags(&mut self, flags: &ast::Flags) {
        let is_set = |item: &ast::FlagsItem| {
            item.kind == ast::FlagsItemKind::Flag(ast::Flag::CaseInsensitive)
        };
        self.ignores_case |= flags.items.iter().any(is_set);
    }
}

impl ast::Visitor for Classes {
    type Output = Classes;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Classes, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Self::Err> {
        match tree {
            Ast::ClassUnicode(_) => self.cost += UNICODE_CLASS_COST,
            Ast::ClassPerl(_) => self.cost += SMALL_CLASS_COST,
            Ast::Flags(set) => self.take_flags(&set.flags),
            Ast::Group(group) => {
                if let ast::GroupKind::NonCapturing(flags) = &group.kind {
                    self.take_flags(flags);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ast::ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ast::ClassSetItem::Unicode(_) => self.cost += UNICODE_CLASS_COST,
            ast::ClassSetItem::Perl(_) | ast::ClassSetItem::Ascii(_) => {
                self.cost += SMALL_CLASS_COST;
            }
            ast::ClassSetItem::Range(range) => {
                self.ranged += (range.end.c as usize).saturating_sub(range.start.c as usize);
            }
            ast::ClassSetItem::Empty(_)
            | ast::ClassSetItem::Literal(_)
            | ast::ClassSetItem::Bracketed(_)
            | ast::ClassSetItem::Union(_) => {}
        }
        Ok(())
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
        assert!(Pattern::parse("").unwrap().finds(""));
        assert!(!Pattern::parse("^a").unwrap().finds("ba"));
        assert!(Pattern::parse("^.$").unwrap().finds("é"));
    }

    #[test]
    fn word_boundaries_know_letters_beyond_ascii() {
        let pattern = Pattern::parse(r"\bécole\b").unwrap();
        assert!(pattern.finds("une école"));
        assert!(!pattern.finds("une écoleé"));
        assert!(Pattern::parse(r"\bfox\b").unwrap().finds("red fox, dog"));
        assert!(!Pattern::parse(r"\bfox\b").unwrap().finds("red foxes"));
    }

    #[test]
    fn malformed_expressions_are_refused_in_one_line() {
        for (text, part) in [
            ("(", "unclosed group"),
            ("a**(?=b)", "look-around"),
            ("(\\w{1000}){1000}", "more than 32768 bytes"),
            ("[ab]*a[ab]{14000}c", "more than 32768 bytes"),
            (&r"(?i)\pL".repeat(9), "too many characters"),
            ("(?i)[\\x00-\\x{10ffff}]", "too many characters"),
            ("(?:(?i:[\u{0}-\u{10ffff}]))", "too many characters"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn common_expressions_are_small_enough() {
        for text in [
            r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$",
            r"(?i)^\s*(red|green)\s+fox(es)?\b",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$",
            r"\b\w+ing\b",
            r"^(?-u:\w)+@(?-u:\w)+\.(?-u:\w)+$",
            r"[^\x00-\x{10ffff}]|[\x{80}-\x{10ffff}]",
        ] {
            assert_eq!(Pattern::parse(text).map(drop), Ok(()), "{text}");
        }
    }

    /// Letters without any order, so that each part of them is another one.
    fn disorder(bytes: usize) -> String {
        let mut state = 1_u64;
        let mut letter = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if state >> 40 & 1 == 0 { 'a' } else { 'b' }
        };
        (0..bytes).map(|_| letter()).collect()
    }

    #[test]
    fn a_match_asks_whether_to_go_on() {
        let mut matcher = Matcher::parse("x$").unwrap();
        let text = "x".repeat(10 * BYTES_PER_LOOK) + "y";
        let mut looks = 0;
        let mut count = || {
            looks += 1;
            looks > 3
        };
        assert_eq!(matcher.finds(&text, &mut count), Err(Unmatched::Over));
        assert_eq!(looks, 4);
        // Small texts count together.
        let mut looks = 0;
        for _ in 0..1_000 {
            let found = matcher.finds("no", || {
                looks += 1;
                false
            });
            assert_eq!(found, Ok(false));
        }
        assert!(looks >= 4, "{looks}");
    }

    #[test]
    fn a_hard_pattern_on_a_long_text_is_given_up() {
        let mut matcher = Matcher::parse("[ab]*a[ab]{200}c").unwrap();
        let (mut looks, text) = (0, disorder(100_000));
        let found = matcher.finds(&text, || {
            looks += 1;
            false
        });
        assert_eq!(found, Err(Unmatched::TooHard));
        assert!(looks <= 100_000 / BYTES_PER_LOOK + 1, "{looks}");
        // A shorter one is matched without the automaton, and right.
        let short = disorder(10_000);
        assert_eq!(matcher.finds(&short, || false), Ok(false));
        let found = short + "a" + &"b".repeat(200) + "c";
        assert_eq!(matcher.finds(&found, || false), Ok(true));
    }
}
