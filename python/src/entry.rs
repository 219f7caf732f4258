//! What is kept of one call, and the tags it may be under.

use std::cell::RefCell;

use cache::{TagTokens, Tags};

use crate::isolate::{self, Isolation};
use crate::key::HeldKey;
use crate::object::{HeldObject, Outcome};

/// A key, its value, and how a hit hands the value out.
pub struct KeptEntry {
    /// Who asks for it.
    pub key: HeldKey,
    /// Isolated from every caller.
    pub value: HeldObject,
    /// How it is handed out.
    pub isolation: Isolation,
    /// What its tags were before the body ran.
    pub tokens: Option<Box<TagTokens>>,
}

impl KeptEntry {
    /// The value for a caller.
    #[inline]
    pub unsafe fn answer(&self) -> Outcome<HeldObject> {
        isolate::handed_out(&self.value, self.isolation)
    }
}

struct AttachedTags(RefCell<Option<Tags>>);

// Touched only by threads that hold the interpreter's lock, and never across a call of it.
unsafe impl Sync for AttachedTags {}

static TAGS: AttachedTags = AttachedTags(RefCell::new(None));

fn with_tags<R>(use_them: impl FnOnce(&mut Tags) -> R) -> R {
    use_them(TAGS.0.borrow_mut().get_or_insert_default())
}

/// What the tags are now.
pub fn tag_tokens(hashes: &[u64]) -> Option<Box<TagTokens>> {
    (!hashes.is_empty()).then(|| Box::new(with_tags(|tags| tags.tokens(hashes))))
}

/// Whether none of the tags was invalidated since.
pub fn tags_are_current(tokens: &TagTokens) -> bool {
    with_tags(|tags| tags.are_current(tokens))
}

/// Makes every entry under the tag invalid, in every function.
pub fn invalidate_tag(hash: u64) {
    with_tags(|tags| tags.invalidate(hash));
}
