//! What a process remembers of tokens, so that it need not read them before each entry.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::tier::TokenName;

/// Names that are remembered. Above that it begins again.
const KNOWN_MAX: usize = 10_000;

/// Something of each token as it was read last. It is compared with the tier before it counts.
pub struct KnownTokens<T>(Mutex<HashMap<TokenName, T>>);

impl<T> Default for KnownTokens<T> {
    fn default() -> Self {
        KnownTokens(Mutex::default())
    }
}

impl<T: Copy> KnownTokens<T> {
    /// What is known of all these names, in their order; `None` if one of them is unknown.
    pub fn of(&self, names: &[TokenName]) -> Option<Vec<T>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|name| known.get(name).copied()).collect()
    }

    /// Remembers this of a name.
    pub fn learn(&self, name: TokenName, token: T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX && !known.contains_key(&name) {
            known.clear();
        }
        known.insert(name, token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tokens_are_bounded_and_given_all_or_none() {
        let known = KnownTokens::default();
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            name
        };
        for number in 0..KNOWN_MAX {
            known.learn(name(number), number);
        }
        assert_eq!(known.of(&[name(7), name(1)]), Some(vec![7, 1]));
        assert_eq!(known.of(&[name(7), name(KNOWN_MAX)]), None);
        known.learn(name(KNOWN_MAX), 1);
        assert_eq!(known.of(&[name(7)]), None);
        assert_eq!(known.of(&[name(KNOWN_MAX)]), Some(vec![1]));
    }
}
