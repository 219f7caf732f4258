//! What is kept of one call, and the tags it may be under.

use cache::{TagTokens, Tags};

use crate::decided::RenewableEntry;
use crate::guard::{Guarded, Holders, SharedCount};
use crate::isolate::{self, Isolation, SharedParts};
use crate::key::HeldKey;
use crate::object::{HasHolders, HeldObject, Outcome};
use crate::python;

/// A key, its value, and how a hit hands the value out.
pub struct KeptEntry {
    /// The key of its call.
    pub key: HeldKey,
    /// Isolated from every caller.
    pub value: HeldObject,
    /// How it is handed out.
    pub isolation: Isolation,
    /// Whether a hit hands it out as it is, and nothing of the extras is looked at.
    pub is_plain: bool,
    /// What most entries have no need of.
    pub extras: Option<Box<EntryExtras>>,
    /// Here, where it shares a word with the isolation: every entry pays for each word.
    pub holders: Holders,
}

impl HasHolders for KeptEntry {
    #[inline(always)]
    fn holders(&self) -> &Holders {
        &self.holders
    }
}

/// What an entry has under tags, in a function that refreshes, or serves what is stale, with a
/// value that holds something more than once, and of a tier that says when memory is right.
#[derive(Default)]
pub struct EntryExtras {
    /// What its tags were before the body ran.
    pub tokens: Option<TagTokens>,
    /// The end of its lifetime, without the window for stale answers.
    pub fresh_until_us: SharedCount,
    /// From when on a hit has it refreshed; [`cache::NEVER_US`] if none does.
    pub refresh_at_us: SharedCount,
    /// Until then no other caller begins a refresh.
    pub claimed_until_us: SharedCount,
    /// Until then it answers though its windows are over, because the body failed lately.
    pub error_until_us: SharedCount,
    /// What the value holds more than once.
    pub shared: Option<Box<SharedParts>>,
    /// Of a value of a tier, by what it is kept past its time in memory.
    pub renewable: Option<RenewableEntry>,
}

impl EntryExtras {
    /// Whether a hit has to look at none of it before the time of the entry is over.
    pub fn is_idle(&self) -> bool {
        self.renewable.is_some() && self.tokens.is_none() && self.shared.is_none()
    }

    /// Whether none of its tags was invalidated since the body began.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.tokens.as_ref().is_none_or(tags_are_current)
    }

    /// Whether a hit now should have the entry refreshed, by any caller.
    #[inline]
    pub fn is_due(&self, now_us: u64) -> bool {
        now_us >= self.refresh_at_us.get() && now_us >= self.claimed_until_us.get()
    }

    /// Whether this caller is the one to have it refreshed; until `until_us` no other is.
    pub fn claim(&self, now_us: u64, until_us: u64) -> bool {
        let before = self.claimed_until_us.get();
        now_us >= before && self.claimed_until_us.exchange(before, until_us)
    }
}

impl KeptEntry {
    /// The value for a caller, or its exception.
    #[inline]
    pub unsafe fn answer(&self) -> Outcome<HeldObject> {
        let extras = self.extras.as_ref();
        let shared = extras.and_then(|extras| extras.shared.as_deref());
        isolate::handed_out(&self.value, self.isolation, shared)
    }

    /// Whether none of its tags was invalidated since the body began.
    #[inline]
    pub fn is_current(&self) -> bool {
        let extras = self.extras.as_ref();
        extras.is_none_or(|extras| extras.is_current())
    }

    /// Whether it comes too late for memory.
    pub fn is_late(&self) -> bool {
        let extras = self.extras.as_ref();
        let renewable = extras.and_then(|extras| extras.renewable.as_ref());
        renewable.is_some_and(|one| python::now_us() >= one.stored_by_us)
    }
}

static TAGS: Guarded<Option<Tags>> = Guarded::new(None);

fn with_tags<R>(use_them: impl FnOnce(&mut Tags) -> R) -> R {
    use_them(TAGS.lock().get_or_insert_default())
}

/// What the tags are now.
pub fn tag_tokens(hashes: &[u64]) -> Option<TagTokens> {
    (!hashes.is_empty()).then(|| with_tags(|tags| tags.tokens(hashes)))
}

/// Whether none of the tags was invalidated since.
pub fn tags_are_current(tokens: &TagTokens) -> bool {
    with_tags(|tags| tags.are_current(tokens))
}

/// Makes every entry under the tag invalid, in every function.
pub fn invalidate_tag(hash: u64) {
    with_tags(|tags| tags.invalidate(hash));
}
