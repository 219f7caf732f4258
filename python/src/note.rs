//! What an entry has that is listed: its key begins with what stands for its function, and its
//! value with a note of the arguments of the call.

use std::borrow::Cow;

use tiers::{NAME_BYTES, OWN_TAGS_MAX, TokenName};

/// What stands for a function in front of the digest of a call.
pub const START_BYTES: usize = 16;
/// What stands behind it in the name of its guard.
const GUARD: &[u8; NAME_BYTES - START_BYTES] = b"guard of entries";
/// How many bytes the arguments have.
const LENGTH_BYTES: usize = 2;
/// Of arguments; entries with longer ones have none.
const ARGUMENTS_MAX: usize = 1_000;
/// Of one tag in front of them: its name and its token.
const OWN_TAG_BYTES: usize = NAME_BYTES + 16;

/// How much of a value is read for the arguments in it.
pub fn bytes_of_note(own_tags: bool) -> usize {
    let tags = match own_tags {
        true => 1 + OWN_TAGS_MAX * OWN_TAG_BYTES,
        false => 0,
    };
    tags + LENGTH_BYTES + ARGUMENTS_MAX
}

/// The name of the guard of a call with this key, if its entry is listed.
pub fn guard_of(key: &[u8]) -> Option<TokenName> {
    let start = key.get(..START_BYTES)?;
    let is_listed = key.len() > NAME_BYTES;
    is_listed.then(|| guard_named(start)).flatten()
}

pub fn guard_named(start: &[u8]) -> Option<TokenName> {
    [start, GUARD].concat().try_into().ok()
}

/// The frame with what is to stand before it.
pub fn with_note<'a>(note: &[u8], frame: Vec<u8>) -> Cow<'a, [u8]> {
    if note.is_empty() {
        return frame.into();
    }
    [note, &frame].concat().into()
}

/// The frame behind the arguments, if this is a value of a call whose entry is listed. `None` if
/// there is none.
pub fn without_note(value: &[u8], is_listed: bool) -> Option<&[u8]> {
    if !is_listed {
        return Some(value);
    }
    note_and_rest(value).map(|(_, rest)| rest)
}

fn note_and_rest(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = value.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u16::from_le_bytes(*length).into())
}

/// The arguments in what begins a value, whose tags stand before them if it has some. No bytes if
/// they cannot be read.
pub fn arguments_in(value_start: &[u8], own_tags: bool) -> &[u8] {
    let tags = match value_start.first() {
        Some(count) if own_tags => 1 + usize::from(*count) * OWN_TAG_BYTES,
        _ => 0,
    };
    let note = value_start.get(tags..).and_then(note_and_rest);
    note.map_or(b"", |(arguments, _)| arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_found_behind_tags_and_never_beyond_the_value() {
        let note = [&[3, 0][..], b"abc"].concat();
        let value = with_note(&note, b"frame".to_vec());
        assert_eq!(without_note(&value, true), Some(&b"frame"[..]));
        assert_eq!(without_note(&value, false), Some(&value[..]));
        assert_eq!(arguments_in(&value, false), b"abc");
        let tagged = [&[2][..], &[7; 2 * OWN_TAG_BYTES], &value].concat();
        assert_eq!(arguments_in(&tagged, true), b"abc");
        for end in 0..5 {
            assert_eq!(without_note(&value[..end], true), None);
            assert_eq!(arguments_in(&value[..end], false), b"");
        }
        for end in 0..tagged.len() - 5 {
            assert_eq!(arguments_in(&tagged[..end], true), b"");
        }
        assert_eq!(arguments_in(&[255; 40], true), b"");
    }

    #[test]
    fn keys_of_calls_that_are_not_listed_have_no_guard() {
        assert_eq!(guard_of(&[1; NAME_BYTES]), None);
        assert_eq!(guard_of(b""), None);
        let key = [&[1; START_BYTES][..], &[2; NAME_BYTES]].concat();
        let guard = [&[1; START_BYTES][..], GUARD].concat();
        assert_eq!(guard_of(&key).map(Vec::from), Some(guard));
    }
}
