//! What an entry costs, the registry's share included: what a bound on memory is held against.
//!
//! `tests/memory.rs` compares it with what is allocated.

use model::{Field, Value};
use query::{Filter, Test};

use crate::entry::{Entry, EntryContent};
use crate::key::Key;

/// What the map spends on an entry beside key and value: its links, its place in the hash table,
/// and room for growth.
const MAP_SLOT_BYTES: usize = 96;
/// The two counts before whatever is shared.
const SHARED_BYTES: usize = 16;
/// A place in a hash table beside what stands there, on an average between its growths.
const HASH_SLOT_BYTES: usize = 24;

/// Bytes an entry takes under its key, watch and share of the group included.
pub(crate) fn entry(key: &Key, entry: &Entry) -> u64 {
    let body = match &entry.content {
        EntryContent::Rows(rows) => SHARED_BYTES + rows.body.len(),
        EntryContent::Total(_) => 0,
        EntryContent::Pinned(pinned) => SHARED_BYTES + pinned.body.len(),
    };
    let own = SHARED_BYTES + size_of::<Entry>() + MAP_SLOT_BYTES + body;
    key.size_bytes() + own as u64 + u64::from(entry.watch_bytes)
}

/// Bytes of a flag that is shared.
pub(crate) const FLAG_BYTES: usize = SHARED_BYTES + 8;

/// Bytes of an entry of a hash table of `T`.
pub(crate) const fn hashed<T>() -> usize {
    size_of::<T>() + HASH_SLOT_BYTES
}

/// Bytes that `length` shared ones take.
pub(crate) const fn shared(length: usize) -> usize {
    SHARED_BYTES + length
}

/// Bytes that a filter takes outside itself.
pub(crate) fn filter(of: &Filter) -> usize {
    match of {
        Filter::All(branches) | Filter::Any(branches) => {
            let inner: usize = branches.iter().map(filter).sum();
            inner + branches.len() * size_of::<Filter>()
        }
        Filter::Field(_, test) => self::test(test),
    }
}

fn test(of: &Test) -> usize {
    let inner = |value: &Value| value.size_bytes() - size_of::<Value>();
    let texts = |texts: &[String]| -> usize {
        let texts = texts.iter();
        texts.map(|text| size_of::<String>() + text.len()).sum()
    };
    match of {
        Test::In(all) | Test::HasAny(all) | Test::HasAll(all) | Test::HasNone(all) => values(all),
        Test::NotEqual(value)
        | Test::Less(value)
        | Test::LessEqual(value)
        | Test::Greater(value)
        | Test::GreaterEqual(value) => inner(value),
        Test::Between(low, high) | Test::NotBetween(low, high) => inner(low) + inner(high),
        Test::StartsWith(text)
        | Test::NotStartsWith(text)
        | Test::EndsWith(text)
        | Test::NotEndsWith(text) => text.len(),
        Test::HasPart(all) | Test::HasNoPart(all) => texts(all),
        // Of what memory cannot decide no filter is kept.
        Test::Finds(_)
        | Test::FindsNot(_)
        | Test::Matches(_)
        | Test::IsNull
        | Test::IsNotNull
        | Test::Longer(_) => 0,
    }
}

/// Bytes that values take side by side.
pub(crate) fn values(of: &[Value]) -> usize {
    of.iter().map(Value::size_bytes).sum()
}

/// Bytes of a list of fields.
pub(crate) fn fields(of: &[Field]) -> usize {
    size_of_val(of)
}
