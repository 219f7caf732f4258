//! Which primary a session is on, and whether it may be the one after that of the session before.

use model::Mark;
use tokio_postgres::{Client, Error};

use super::connection::{literal, row};
use super::finding::DatabaseFinding;
use crate::StoreError;
use crate::error::corrupt;

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

/// Where a session is, whatever its database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerTimeline {
    /// [`Primary::system`].
    pub(super) system: String,
    /// [`Primary::timeline`].
    pub(super) number: u32,
}

impl ServerTimeline {
    /// That of this session.
    pub(super) async fn of(client: &Client) -> Result<ServerTimeline, StoreError> {
        let sql =
            format!("SELECT s.system_identifier::text, {TIMELINE} FROM pg_control_system() s");
        let found = row(client, &sql).await?;
        let read = || {
            let found = found?;
            Some(ServerTimeline {
                system: found.get(0)?.to_owned(),
                number: u32::from_str_radix(found.get(1)?, 16).ok()?,
            })
        };
        read().ok_or_else(|| corrupt("the database does not say on which timeline it is"))
    }
}

/// The name of what is found here.
const CHECK: &str = "lineage";

/// The name of the file that the log goes on in begins with the timeline: what the control file
/// says of it is that of the last checkpoint.
const TIMELINE: &str = "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)";

impl Primary {
    /// That of this session.
    pub(super) async fn of(client: &Client) -> Result<Primary, StoreError> {
        let sql = format!(
            "SELECT m.lineage, s.system_identifier::text, {TIMELINE}, m.mark \
             FROM meta m, pg_control_system() s"
        );
        let found = row(client, &sql).await?;
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
        let refused = |found| Err(refusal(found));
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

/// Whether a store holds as many groups of batches as were seen of it: one that takes no mark may
/// be lost without another trace.
pub(super) fn need_no_less(groups: i64, seen: i64) -> Result<(), DatabaseFinding> {
    if groups >= seen {
        return Ok(());
    }
    Err(refusal(format!(
        "The store ends at commit {groups}, and was seen at {seen}."
    )))
}

fn refusal(found: String) -> DatabaseFinding {
    let advice = "Let the URL name the primary that was in use. To go on from what is there, as \
                  another history, stop the node, and start it again after `tidemark doctor \
                  --accept-restore`";
    DatabaseFinding::bad(CHECK, found, advice)
}

/// Where a store was when it was opened last, by the store itself; `None` where it was not opened
/// since that is kept. In this form the statement is good for earlier formats, too.
async fn kept(client: &Client) -> Result<Option<(String, u32)>, Error> {
    let sql = "SELECT to_jsonb(m) ->> 'system', to_jsonb(m) ->> 'timeline' FROM meta m";
    let found = row(client, sql).await?;
    Ok(found.and_then(|found| {
        let (system, timeline) = (found.get(0)?, found.get(1)?.parse().ok()?);
        (!system.is_empty()).then(|| (system.to_owned(), timeline))
    }))
}

/// How the primary follows the one that the store was on when it was opened last.
async fn since_last(client: &Client) -> Result<(Primary, Option<Succession>), StoreError> {
    let primary = Primary::of(client).await?;
    let Some((system, timeline)) = kept(client).await? else {
        return Ok((primary, None));
    };
    let before = Primary {
        system,
        timeline,
        ..primary.clone()
    };
    let succession = primary.follows(&before, primary.mark);
    let succession = succession.map_err(StoreError::DatabaseUnfit)?;
    Ok((primary, Some(succession)))
}

/// Finds whether the store is where it was opened last, or where a promotion has taken it, and
/// keeps that.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it is elsewhere.
pub(super) async fn admit(client: &Client) -> Result<(), StoreError> {
    match since_last(client).await? {
        (_, Some(Succession::Same)) => Ok(()),
        (primary, _) => keep(client, &primary, "lineage").await,
    }
}

/// Lets the store go on from where it is, as another history.
pub(super) async fn begin_anew(client: &Client) -> Result<(), StoreError> {
    let primary = Primary::of(client).await?;
    keep(client, &primary, NEW_LINEAGE).await
}

/// As the first format makes one.
const NEW_LINEAGE: &str = "replace(gen_random_uuid()::text, '-', '')";

async fn keep(client: &Client, primary: &Primary, lineage: &str) -> Result<(), StoreError> {
    let (system, timeline) = (literal(&primary.system), primary.timeline);
    let keep =
        format!("UPDATE meta SET lineage = {lineage}, system = {system}, timeline = {timeline}");
    Ok(client.batch_execute(&keep).await?)
}

/// What an operator is told of it.
pub(super) async fn finding(client: &Client) -> DatabaseFinding {
    let (primary, succession) = match since_last(client).await {
        Ok(found) => found,
        Err(StoreError::DatabaseUnfit(finding)) => return finding,
        Err(error) => {
            let advice = "Let the user of the URL own the tables of the store";
            return DatabaseFinding::bad(CHECK, error.to_string(), advice);
        }
    };
    let (system, timeline) = (primary.system, primary.timeline);
    let how = match succession {
        None => "was not opened yet",
        Some(Succession::Same) => "is where it was",
        Some(Succession::Promoted) => "is on a standby that was promoted",
    };
    let found = format!("The store {how}: timeline {timeline} of the cluster {system}.");
    DatabaseFinding::good(CHECK, found)
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
