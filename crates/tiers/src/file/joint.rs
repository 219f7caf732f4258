//! Tokens of which the bucket alone is read: no two records ever have the same position, so a slot
//! that names the record read before says that the token is still the same.

use super::super::tier::{JointHit, Lookup, TierError, TokenName};
use super::super::tokens;
use super::layout::{KeyPlace, RecordPlace};
use super::opened::{OpenedFile, PlacedToken};

impl OpenedFile {
    /// Remembers what was found at this place, if it is a token.
    pub fn learn(&self, key: &[u8], found: &Lookup, place: KeyPlace, record: RecordPlace) {
        if let Some(name) = tokens::name_in(key)
            && let Lookup::Hit(hit) = found
            && let Ok(token) = hit.value().try_into()
        {
            let written_ms = hit.written_ms;
            let placed = PlacedToken {
                token,
                written_ms,
                place,
                record,
            };
            self.tokens.learn(name, placed);
        }
    }

    /// As `JointReads::key_under`. A token that is to be written again is read first, too.
    pub fn key_under(
        &self,
        key: &[u8],
        names: &[TokenName],
        now_ms: u64,
    ) -> Result<Option<Vec<u8>>, TierError> {
        let Some(known) = self.tokens.of(names) else {
            return Ok(None);
        };
        let mut present = Vec::with_capacity(known.len());
        for known in known {
            let is_same = self.bucket(known.place)?.find(known.place.tag) == Some(known.record);
            if !is_same || now_ms.saturating_sub(known.written_ms) >= tokens::AGAIN_MS {
                return Ok(None);
            }
            present.push(known.token);
        }
        Ok(Some(tokens::joined(key, &present)))
    }

    /// As `JointReads::get_under`.
    pub fn get_under(
        &self,
        key: &[u8],
        names: &[TokenName],
        now_ms: u64,
    ) -> Result<Option<JointHit>, TierError> {
        let Some(full) = self.key_under(key, names, now_ms)? else {
            return Ok(None);
        };
        let found = self.get(&full, now_ms)?;
        Ok(Some((full, found)))
    }
}
