//! How long a batch may search.

use std::time::Duration;

/// How long the searches of one batch may keep other writers waiting. A caller that hands the
/// operation in splits a search through a large table; this bounds what was not foreseen.
pub(crate) const SEARCH_MAX: Duration = Duration::from_secs(5);
