//! Pages of a read: how many rows, behind which one they begin, and the text that leads on.
//!
//! A cursor holds the coordinates of the first page and the place of the last row that was shown.
//! So the pages of a read are parts of one answer, whatever is written between them. It belongs to
//! the read that gave it, and is refused with another one.

use engine::{Caller, PIECES_MAX};
use model::{Coordinates, Json, Mark, Timestamp};

use super::json::{CLOCK, mark, time};
use super::vocabulary::{SYSTEM, VALID, in_cases};
use crate::http::input::fields::Fields;
use crate::http::wire::error::ApiError;
use crate::http::wire::{SentJson, written};
use crate::secret::{hex, sha256};

/// Rows of a page whose read names a cursor and no `limit`.
const ROWS_DEFAULT: usize = 1_000;
/// The first byte of a cursor, by whether the answer is in the case language or in our own words;
/// others once its parts are others.
const FORMS: [u8; 2] = [1, 2];
/// Bytes of the hash that names a read, and of the one that shows a cursor to be whole.
const HASH_BYTES: usize = 8;
/// Bytes of a cursor before the id.
const HEAD_BYTES: usize = 1 + HASH_BYTES + 4 * 8;
/// Longest text of a cursor: an id has 36 characters at most.
const CHARS_MAX: usize = 2 * (HEAD_BYTES + 36 + HASH_BYTES);

/// Where in the order of an answer a page ends. What the numbers are, each kind of read says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PagePosition {
    /// The row, where there are several.
    pub(super) id: String,
    pub(super) first: i64,
    pub(super) second: i64,
}

/// The page that a read asks for.
#[derive(Debug)]
pub(super) struct ReadPage {
    /// At most so many rows.
    pub(super) limit: usize,
    /// Behind this place.
    pub(super) start: Option<PagePosition>,
    /// Whether the page before it was in our own words.
    pub(super) was_own: bool,
    /// The coordinates of the first page.
    at: Option<Coordinates>,
    read: ReadName,
}

/// The read that a cursor belongs to, as a hash of all that makes its answer but the coordinates.
type ReadName = [u8; HASH_BYTES];

impl ReadPage {
    /// The page that the members of a read ask for, and its coordinates where a cursor has them;
    /// `None` where all rows are wanted. `history` names the one history of the store's marks.
    pub(super) fn read(
        fields: &mut Fields,
        (kind, history): (&str, &str),
        caller: &Caller,
        database: &str,
    ) -> Result<Option<ReadPage>, ApiError> {
        let limit = limit(fields)?;
        let cursor = fields.text("cursor")?;
        if limit.is_none() && cursor.is_none() {
            return Ok(None);
        }
        let scope = [kind, history, caller.project.as_str(), database];
        let read = name(&scope, fields);
        let mut page = ReadPage {
            limit: limit.unwrap_or(ROWS_DEFAULT),
            start: None,
            was_own: false,
            at: None,
            read,
        };
        if let Some(cursor) = cursor {
            let (was_own, of, at, start) = opened(&cursor).ok_or_else(|| {
                fields.wrong(
                    "cursor",
                    "it is not one that an answer gave, or not all of it",
                )
            })?;
            if of != read {
                let why = "it belongs to another read: the members except `limit` are to be those \
                           of the read whose answer gave it";
                return Err(fields.wrong("cursor", why));
            }
            (page.was_own, page.start, page.at) = (was_own, Some(start), Some(at));
        }
        Ok(Some(page))
    }

    /// The coordinates of the first page, which those that are named must not contradict.
    pub(super) fn coordinates(&self, fields: &mut Fields) -> Result<Option<Coordinates>, ApiError> {
        let Some(at) = self.at else { return Ok(None) };
        let (system, valid) = (SYSTEM.sent(fields)?, VALID.sent(fields)?);
        let is_other = mark(fields, system)?.is_some_and(|tt| tt != at.system)
            || time(fields, valid)?.is_some_and(|vt| vt != at.valid);
        if is_other {
            let why = format!(
                "it belongs to other coordinates; leave out `{valid}` and `{system}`, or name \
                 those of the first page"
            );
            return Err(fields.wrong("cursor", &why));
        }
        Ok(Some(at))
    }

    /// The cursor that leads on from there.
    pub(super) fn cursor(&self, at: Coordinates, end: &PagePosition, is_own: bool) -> String {
        let mut bytes = vec![FORMS[usize::from(is_own)]];
        bytes.extend(self.read);
        for number in [at.valid.0, at.system.0, end.first, end.second] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(end.id.as_bytes());
        let check = hash(&bytes);
        bytes.extend(check);
        hex(&bytes)
    }
}

fn limit(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    match fields.integer("limit")? {
        None => Ok(None),
        Some(limit) if (1..=i64::from(PIECES_MAX)).contains(&limit) => Ok(Some(limit as usize)),
        Some(_) => {
            let why = format!("expected an integer from 1 to {PIECES_MAX}");
            Err(fields.wrong("limit", &why))
        }
    }
}

/// What names a read: its members by their names in the case language and in the order of these,
/// whatever name and order they came in.
fn name(scope: &[&str], fields: &Fields) -> ReadName {
    let members = fields.members().iter();
    let mut members: Vec<(&str, &Json)> =
        members.map(|(key, json)| (in_cases(key), json)).collect();
    members.retain(|(name, json)| !["vt", "tt", CLOCK].contains(name) && **json != Json::Null);
    members.sort_by_key(|(name, _)| *name);
    let members = members.into_iter();
    let members: Vec<_> = members.map(|(name, json)| (name, SentJson(json))).collect();
    hash(&written(&(scope, members)))
}

fn hash(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let hash = sha256(bytes);
    hash[..HASH_BYTES].try_into().expect("a hash is longer")
}

/// What a cursor says; `None` of a text that no answer gave.
fn opened(text: &str) -> Option<(bool, ReadName, Coordinates, PagePosition)> {
    if text.len() > CHARS_MAX {
        return None;
    }
    let bytes = unhexed(text)?;
    let (said, check) = bytes.split_last_chunk::<HASH_BYTES>()?;
    let form = FORMS.iter().position(|form| said.first() == Some(form))?;
    if hash(said) != *check {
        return None;
    }
    let (head, id) = said.split_at_checked(HEAD_BYTES)?;
    let (read, numbers) = head[1..].split_first_chunk::<HASH_BYTES>()?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let number = |nth: usize| numbers.get(nth).map(|bytes| i64::from_be_bytes(*bytes));
    let at = Coordinates {
        valid: Timestamp(number(0)?),
        system: Mark(number(1)?),
    };
    let position = PagePosition {
        id: String::from_utf8(id.to_vec()).ok()?,
        first: number(2)?,
        second: number(3)?,
    };
    Some((form == 1, *read, at, position))
}

/// Bytes of lower-case hexadecimal digits.
fn unhexed(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}
