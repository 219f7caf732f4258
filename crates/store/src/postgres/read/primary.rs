//! Which primary a session is on, and whether it may be the one after that of the session before.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use model::Mark;
use tokio_postgres::Client;

use crate::StoreError;
use crate::error::corrupt;
use crate::postgres::connection::row;
use crate::postgres::finding::DatabaseFinding;

/// A primary, and how far the store on it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Primary {
    /// [`crate::Loaded::lineage`].
    pub(super) lineage: String,
    /// Of the cluster, which all its standbys have as well.
    pub(super) system: String,
    /// It rises with each promotion.
    pub(super) timeline: u32,
    pub(super) mark: Mark,
}

/// How one primary follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Succession {
    Same,
    /// A standby was promoted: what is cached of the one before may hold what it lost.
    Promoted,
}

/// What stands, by one statement. The name of the file that the log goes on in begins with the
/// timeline: what the control file says of it is that of the last checkpoint.
const STANDING: &str = "SELECT m.lineage, s.system_identifier::text, \
                        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), m.mark \
                        FROM meta m, pg_control_system() s";

impl Primary {
    /// That of this session.
    pub(super) async fn of(client: &Client) -> Result<Primary, StoreError> {
        let found = row(client, STANDING).await?;
        let read = || {
            let found = found?;
            Some(Primary {
                lineage: found.get(0)?.to_owned(),
                system: found.get(1)?.to_owned(),
                timeline: u32::from_str_radix(found.get(2)?, 16).ok()?,
                mark: Mark(found.get(3)?.parse().ok()?),
            })
        };
        read().ok_or_else(|| corrupt("the database does not say where its store stands"))
    }

    /// Whether it may follow `before`, of which this mark was seen.
    ///
    /// # Errors
    /// Why not: it holds another store, or less than was seen.
    pub(super) fn follows(
        &self,
        before: &Primary,
        seen: Mark,
    ) -> Result<Succession, DatabaseFinding> {
        const CHECK: &str = "lineage";
        let refused = |found: String| {
            let advice = "Let the URL name the primary that was in use, or restart this node to go \
                          on from what is there";
            Err(DatabaseFinding::bad(CHECK, found, advice))
        };
        if self.lineage != before.lineage {
            return refused(format!(
                "The schema holds the store {} in place of {}.",
                self.lineage, before.lineage
            ));
        }
        if self.system != before.system {
            return refused(format!(
                "The store is in the cluster {} now, and was in {}.",
                self.system, before.system
            ));
        }
        if self.timeline < before.timeline {
            return refused(format!(
                "The primary is on the timeline {}, and another one was on {}.",
                self.timeline, before.timeline
            ));
        }
        if self.mark < seen {
            return refused(format!(
                "The store ends at mark {}, and was seen at {}.",
                self.mark.0, seen.0
            ));
        }
        if self.timeline > before.timeline {
            return Ok(Succession::Promoted);
        }
        Ok(Succession::Same)
    }
}

/// The primaries that the reads of a store have met.
#[derive(Default)]
pub(super) struct PrimarySeen {
    latest: Mutex<Option<Primary>>,
    /// The highest mark that a read was answered from.
    mark: AtomicI64,
    promotions: AtomicU64,
}

impl PrimarySeen {
    /// Takes in that a read was answered from a snapshot with this mark.
    pub(super) fn note(&self, mark: Mark) {
        self.mark.fetch_max(mark.0, Ordering::Relaxed);
    }

    /// What a primary must hold that is asked from now on.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.mark.load(Ordering::Relaxed))
    }

    /// How often another primary has followed by a promotion.
    pub(super) fn promotions(&self) -> u64 {
        self.promotions.load(Ordering::Relaxed)
    }

    /// Takes in a primary that was asked when this mark had been seen; how often one was promoted
    /// until then.
    ///
    /// # Errors
    /// [`StoreError::DatabaseUnfit`] when it may not follow the one before.
    pub(super) fn admit(&self, primary: Primary, seen: Mark) -> Result<u64, StoreError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*latest {
            let succession = primary.follows(before, seen);
            if succession.map_err(StoreError::DatabaseUnfit)? == Succession::Promoted {
                self.promotions.fetch_add(1, Ordering::Relaxed);
            }
        }
        *latest = Some(primary);
        Ok(self.promotions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_follows_another_unless_something_is_lost() {
        let before = Primary {
            lineage: "l".to_owned(),
            system: "s".to_owned(),
            timeline: 3,
            mark: Mark(50),
        };
        let other = |change: &dyn Fn(&mut Primary)| {
            let mut other = before.clone();
            change(&mut other);
            other
                .follows(&before, Mark(50))
                .map_err(|finding| finding.found)
        };
        assert_eq!(other(&|_| ()), Ok(Succession::Same));
        assert_eq!(other(&|one| one.mark = Mark(51)), Ok(Succession::Same));
        assert_eq!(other(&|one| one.timeline = 4), Ok(Succession::Promoted));
        let refused = |change: &dyn Fn(&mut Primary), said: &str| {
            let found = other(change).unwrap_err();
            assert!(found.contains(said), "{found}");
        };
        refused(&|one| one.lineage = "m".to_owned(), "store m in place of l");
        refused(&|one| one.system = "t".to_owned(), "cluster t now");
        refused(&|one| one.timeline = 2, "timeline 2");
        refused(&|one| one.mark = Mark(49), "mark 49, and was seen at 50");
        let promoted = |one: &mut Primary| (one.timeline, one.mark) = (4, Mark(49));
        refused(&promoted, "mark 49, and was seen at 50");
    }
}
