//! Texts that stand in whatever an expression matches.

use regex_syntax::hir::{Hir, HirKind};

/// Most texts of one expression: the longest ones. Each is looked for in every row that is read.
const LITERALS_MAX: usize = 4;

/// The longest texts without which nothing matches, in the order of the expression; where letter
/// case is ignored there are none.
pub(super) fn literals(meant: &Hir) -> Vec<String> {
    let mut found = Vec::new();
    collect(meant, &mut found);
    // No text that is stored has U+0000, and a database may not take it.
    found.retain(|text| !text.is_empty() && !text.contains('\0'));
    while found.len() > LITERALS_MAX {
        let lengths = found.iter().map(String::len).enumerate();
        let shortest = lengths.min_by_key(|(_, length)| *length);
        found.remove(shortest.map_or(0, |(position, _)| position));
    }
    found
}

/// The parser bounds how deep an expression is.
fn collect(meant: &Hir, found: &mut Vec<String>) {
    match meant.kind() {
        HirKind::Literal(literal) => {
            found.extend(std::str::from_utf8(&literal.0).ok().map(str::to_owned));
        }
        HirKind::Capture(capture) => collect(&capture.sub, found),
        HirKind::Repetition(repeated) if repeated.min > 0 => collect(&repeated.sub, found),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, found)),
        HirKind::Empty
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_)
        | HirKind::Alternation(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::pattern::Pattern;

    #[test]
    fn literals_are_what_every_match_has() {
        for (pattern, expected) in [
            ("abc", &["abc"][..]),
            (r"^fo+\s(bar)?(baz)+$", &["f", "o", "baz"]),
            ("(?i)abc", &[]),
            ("a|b", &[]),
            ("(?:red|green) fox", &[" fox"]),
            ("[é]t(é){2,}", &["ét", "é"]),
            ("x{0,3}", &[]),
            (r"a\x00b", &[]),
            ("", &[]),
            (r"aa\dbbb\dc\ddddd\deee\dff", &["bbb", "dddd", "eee", "ff"]),
        ] {
            let found = Pattern::parse(pattern).unwrap().literals();
            assert_eq!(found, expected, "{pattern}");
        }
    }

    proptest::proptest! {
        #[test]
        fn literals_stand_in_each_text_that_matches(
            pattern in "(a|b|ab?|[ab]c|c+|(ab){1,2}|é|\\.|b*){1,5}",
            text in "[abcé.]{0,8}",
        ) {
            let pattern = Pattern::parse(&pattern).unwrap();
            if pattern.finds(&text) {
                for literal in pattern.literals() {
                    proptest::prop_assert!(text.contains(&literal), "{literal}");
                }
            }
        }
    }
}
