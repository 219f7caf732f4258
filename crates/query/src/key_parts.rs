//! What indexes that users made hold of long texts, so that statements ask for that as well.

use model::{Field, Index, IndexKind, Storage, Table};

use crate::dialect::Dialect;
use crate::names;

/// Characters that the texts of a key of PostgreSQL have together: at four bytes each an entry
/// stays below the 2,704 bytes that a B-tree takes (its manual, "Limitations" of B-trees).
const KEY_CHARS_MAX: u32 = 600;

/// What an index holds of one of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPart {
    /// Its whole values.
    Whole,
    /// So many characters from the beginning of a text.
    Beginning(u32),
    /// The hash of a text.
    Hash,
}

impl KeyPart {
    /// What it holds of `text`, which is SQL. A database finds the index by the very words in which
    /// it was made.
    pub fn of(self, text: &str) -> String {
        match self {
            KeyPart::Whole => text.to_owned(),
            KeyPart::Beginning(chars) => names::beginning(text, chars),
            KeyPart::Hash => format!("md5({text})"),
        }
    }
}

/// What `index` holds of each of its columns. In PostgreSQL, where the texts of a key may be longer
/// together than an entry takes, each long one has its share; in a unique index, whose entries
/// stand for whole values, its hash.
pub fn key_parts(table: &Table, index: &Index, dialect: Dialect) -> Vec<KeyPart> {
    let of_length = |held: Option<u32>| held.map_or(KeyPart::Whole, KeyPart::Beginning);
    let parts = index.columns.iter();
    if dialect == Dialect::Sqlite {
        return parts.map(|part| of_length(part.held)).collect();
    }
    let chars: Vec<Option<u32>> = parts
        .map(|part| chars_of(table, part.field, part.held))
        .collect();
    let texts = chars.iter().flatten();
    let sum = texts
        .clone()
        .fold(0_u32, |sum, chars| sum.saturating_add(*chars));
    let share = KEY_CHARS_MAX / (texts.count() as u32).max(1);
    let most = if sum > KEY_CHARS_MAX { share } else { u32::MAX };
    let part = |(chars, part): (Option<u32>, &model::IndexColumn)| match chars {
        Some(chars) if chars > most && index.kind == IndexKind::Unique => KeyPart::Hash,
        Some(chars) if chars > most => KeyPart::Beginning(most),
        Some(_) => of_length(part.held),
        None => KeyPart::Whole,
    };
    chars.into_iter().zip(&index.columns).map(part).collect()
}

/// Characters that the key has of a text at most; `None` of what is no text.
fn chars_of(table: &Table, field: Field, held: Option<u32>) -> Option<u32> {
    let Field::Column(position) = field else {
        return None;
    };
    let kind = &table.columns[position].kind;
    let is_text = kind.storage() == Storage::Text;
    is_text.then(|| held.or(kind.chars_max()).unwrap_or(u32::MAX))
}
