//! Entries that are invalidated together.

/// Tags share this many generations. Two tags that meet in one are invalidated together, which
/// costs a needless run and is never a wrong answer; memory stays bounded whatever the tags are.
const GENERATIONS: usize = 4096;

/// The generation of each tag: invalidating a tag takes one addition and scans nothing.
pub struct Tags {
    generations: Box<[u64]>,
}

/// What the tags of one entry were before its value was computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagTokens(Box<[(u16, u64)]>);

impl Default for Tags {
    fn default() -> Tags {
        Tags {
            generations: vec![0; GENERATIONS].into_boxed_slice(),
        }
    }
}

impl Tags {
    /// To be read before the value is computed, so that an invalidation meanwhile counts.
    pub fn tokens(&self, hashes: &[u64]) -> TagTokens {
        let token = |hash: &u64| {
            let number = (hash % GENERATIONS as u64) as u16;
            (number, self.generations[usize::from(number)])
        };
        TagTokens(hashes.iter().map(token).collect())
    }

    /// Whether none of the tags was invalidated since.
    pub fn are_current(&self, tokens: &TagTokens) -> bool {
        let mut tokens = tokens.0.iter();
        tokens.all(|(number, then)| self.generations[usize::from(*number)] == *then)
    }

    /// Makes every entry under the tag invalid.
    pub fn invalidate(&mut self, hash: u64) {
        self.generations[(hash % GENERATIONS as u64) as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_invalidated_after_its_token_was_read_makes_the_entry_invalid() {
        let mut tags = Tags::default();
        let (both, other) = (tags.tokens(&[1, 2]), tags.tokens(&[3]));
        assert!(tags.are_current(&both));
        tags.invalidate(2);
        assert!(!tags.are_current(&both));
        assert!(tags.are_current(&other));
        assert!(tags.are_current(&tags.tokens(&[1, 2])), "read afresh");
    }

    #[test]
    fn tags_that_meet_are_invalidated_together() {
        let mut tags = Tags::default();
        let tokens = tags.tokens(&[5]);
        tags.invalidate(5 + GENERATIONS as u64);
        assert!(!tags.are_current(&tokens));
    }
}
