//! An entry and the tokens it depends on in one round trip: this process knows what the tokens
//! were, and so under which key the entry stands if they still are the same.

use redis::{Pipeline, Value};

use super::{Record, RedisTier};
use crate::tier::{JointHit, JointReads, TierError, TokenName};
use crate::tokens::{self, Token};

/// The token in a record.
pub fn token_in(record: &[u8]) -> Option<Token> {
    match Record::of(record)? {
        Record::Entry { .. } => Record::value_in(record).try_into().ok(),
        Record::Placeholder { .. } => None,
    }
}

impl RedisTier {
    /// Remembers the token of a name, if that is what was read.
    pub fn learn(&self, key: &[u8], record: &[u8]) {
        if let Some(name) = tokens::name_in(key)
            && let Some(token) = token_in(record)
            && let Some(known) = self.tokens.own()
        {
            known.learn(name, token);
        }
    }

    /// The tokens of these names, then what stands at `place` and how long it stays.
    pub fn joint_read(&self, place: &[u8], names: &[TokenName]) -> Pipeline {
        let mut read = redis::pipe();
        for name in names {
            read.cmd("GET").arg(self.key(&tokens::key_of(name)));
        }
        // The server takes commands of one connection in their order: the tokens first.
        read.cmd("GET").arg(place).cmd("PTTL").arg(place);
        read
    }
}

impl JointReads for RedisTier {
    fn get_under(&self, key: &[u8], names: &[TokenName]) -> Result<Option<JointHit>, TierError> {
        let known = self.tokens.own().and_then(|known| known.of(names));
        let Some(known) = known else {
            return Ok(None);
        };
        let full = tokens::joined(key, &known);
        let place = self.key(&full);
        let read = self.joint_read(&place, names);
        self.with(|connection| {
            let answers: Vec<Value> = read.query(connection)?;
            let is_same = |(answer, token): (&Value, &Token)| match answer {
                Value::BulkString(record) => token_in(record).as_ref() == Some(token),
                _ => false,
            };
            if !answers.iter().zip(&known).all(is_same) {
                return Ok(None);
            }
            let mut answers = answers.into_iter().skip(known.len());
            let found = answers.next().unwrap_or_default();
            let left_ms = answers.next().unwrap_or_default();
            let found = redis::from_redis_value(found)?;
            let left_ms = redis::from_redis_value(left_ms)?;
            let found = self.lookup(connection, &place, found, left_ms)?;
            Ok(Some((full, found)))
        })
    }
}
