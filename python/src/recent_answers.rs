//! Which answers of tiers come again so soon that memory is to have them.

/// Answers that a reader remembers.
const RECENT_ANSWERS: usize = 256;

/// An answer that a tier gave lately.
#[derive(Clone, Copy)]
struct RecentAnswer {
    /// What begins its digest.
    start: u64,
    at_s: f64,
    /// Whether memory was to have it from then on.
    is_kept: bool,
}

/// Those of one function.
pub struct RecentAnswers([RecentAnswer; RECENT_ANSWERS]);

impl RecentAnswers {
    /// None yet.
    pub fn new() -> RecentAnswers {
        let never = RecentAnswer {
            start: 0,
            at_s: f64::NEG_INFINITY,
            is_kept: false,
        };
        RecentAnswers([never; RECENT_ANSWERS])
    }

    /// Whether memory is to have this answer. Not the first time; and not if memory, which may have
    /// it for `span_s`, had it and lost it before that.
    pub fn is_kept(&mut self, digest: &[u8], now_s: f64, span_s: f64) -> bool {
        let start = digest.first_chunk().copied().unwrap_or_default();
        let start = u64::from_le_bytes(start);
        let place = &mut self.0[start as usize % RECENT_ANSWERS];
        let age_s = now_s - place.at_s;
        let is_kept = match place.start == start {
            true if place.is_kept && age_s < span_s => return false,
            true => age_s < 2.0 * span_s,
            false => false,
        };
        *place = RecentAnswer {
            start,
            at_s: now_s,
            is_kept,
        };
        is_kept
    }
}
