//! A row as a working set holds it: what is kept of it that the laws ask for.

use std::sync::Arc;

use model::history::{Cut, Ending, VersionNumber};
use model::{Image, Mark, RowId, Timestamp, Value};

use super::damaged::Damaged;
use super::ledger::{GrantsChange, VersionEnding};
use super::versions::Stored;
use query::names::LIFE;

/// What is held of one row.
#[derive(Clone, Default)]
pub(crate) struct HeldRow {
    /// Its `$sequence`, if anything of it is kept.
    pub(crate) seq: Option<i64>,
    /// The row of now.
    pub(crate) now: Option<HeldNow>,
    /// Among them the one that the row of now shows.
    pub(crate) versions: Vec<HeldVersion>,
    /// Those of its versions that are known now, have no twin, and begin at this instant or later
    /// are all held.
    pub(crate) held_from: Option<Timestamp>,
    /// Whether it has versions without a twin that are not held.
    pub(crate) has_others: bool,
    /// The open grants in their order, and those that began or ended since the group began.
    pub(crate) grants: Vec<HeldGrant>,
    /// The last mark of all its grants, as they were read.
    pub(crate) granted: Option<Mark>,
    /// When it was last created again, as it was read.
    pub(crate) reborn: Option<Mark>,
    /// The last mark of its versions without a twin, as they were read, where that was asked for;
    /// zero if there are none.
    pub(crate) changed: Option<Mark>,
    /// When it next begins or ends by itself.
    pub(crate) due: Option<Timestamp>,
}

/// A row of now.
#[derive(Clone)]
pub(crate) struct HeldNow {
    pub(crate) id: RowId,
    pub(crate) seq: i64,
    pub(crate) version: VersionNumber,
    /// With the values that it is shown with.
    pub(crate) image: Arc<Image>,
    pub(crate) damaged: Damaged,
    pub(crate) origin: Mark,
    pub(crate) is_twin: bool,
    /// What was written of it, if this group wrote more than its permissions.
    pub(crate) body: Option<Arc<WrittenBody>>,
}

/// A body that was written.
pub(crate) struct WrittenBody {
    pub(crate) body: Option<Box<[u8]>>,
    pub(crate) schema_epoch: u64,
}

/// A version.
#[derive(Clone)]
pub(crate) struct HeldVersion {
    pub(crate) version: Stored,
    pub(crate) is_twin: bool,
    /// What it counts.
    pub(crate) bytes: i64,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HeldGrant {
    /// Its place among the grants of the table, which is their order.
    pub(crate) number: i64,
    pub(crate) role: Arc<str>,
    pub(crate) actions: i64,
    pub(crate) from: Mark,
    pub(crate) until: Option<Mark>,
}

impl HeldVersion {
    /// Whether it is found among what is known now.
    fn is_known(&self) -> bool {
        self.version.gone.is_none() && !self.is_twin
    }

    fn from(&self) -> Timestamp {
        self.version.valid.from()
    }
}

impl HeldRow {
    /// The `$sequence` it has, if it has a version without a twin.
    pub(crate) fn known_seq(&self) -> Option<i64> {
        let is_known = self.has_others || self.versions.iter().any(|held| !held.is_twin);
        self.seq.filter(|_| is_known)
    }

    /// Whether its `$sequence` may be given to no other row.
    pub(crate) fn keeps_seq(&self) -> bool {
        self.now.is_some() || self.known_seq().is_some()
    }

    /// See [`super::versions::VersionsWanted::Known`]; `None` when not all of them are held.
    pub(crate) fn known(
        &self,
        (low, high): (Timestamp, Timestamp),
        count_max: usize,
    ) -> Option<Vec<&HeldVersion>> {
        let known = || self.versions.iter().filter(|held| held.is_known());
        let before = known().map(HeldVersion::from).filter(|from| *from <= low);
        let before = before.max();
        let is_whole = match (self.held_from, before) {
            (None, _) => true,
            (Some(held_from), before) => before.is_some_and(|before| before >= held_from),
        };
        if !is_whole {
            return None;
        }
        let from = before.unwrap_or(low);
        let meets = |held: &&HeldVersion| held.from() >= from && held.from() < high;
        let mut found: Vec<&HeldVersion> = known().filter(meets).collect();
        found.sort_by_key(|held| held.from());
        found.truncate(count_max);
        Some(found)
    }

    /// Whether of what is known now a piece that begins after the instant has such values; `None`
    /// when none of those does that are held, and not all are.
    pub(crate) fn will_be(&self, after: Timestamp, has: impl Fn(&[Value]) -> bool) -> Option<bool> {
        let known = self.versions.iter().filter(|held| held.is_known());
        let mut to_come = known.filter(|held| held.from() > after);
        if to_come.any(|held| has(&held.version.value.values)) {
            return Some(true);
        }
        let is_whole = self.held_from.is_none_or(|held_from| held_from <= after);
        is_whole.then_some(false)
    }

    /// What is known now and was not before the mark.
    pub(crate) fn written_at(&self, mark: Mark) -> impl Iterator<Item = &HeldVersion> {
        let known = self.versions.iter();
        known.filter(move |held| held.version.sys_from == mark && held.version.gone.is_none())
    }

    pub(crate) fn numbered(&self, number: VersionNumber) -> Option<&HeldVersion> {
        let mut versions = self.versions.iter();
        versions.find(|held| held.version.number == number)
    }

    /// Ends a version at the mark; how many bytes it counted if it was removed, else 0. `None`
    /// where it is not there to be ended so.
    pub(crate) fn end(
        &mut self,
        number: VersionNumber,
        mark: Mark,
        ending: VersionEnding,
    ) -> Option<i64> {
        let is_it = |held: &HeldVersion| held.version.number == number;
        let position = self.versions.iter().position(is_it)?;
        let held = &mut self.versions[position];
        let is_own = held.version.sys_from == mark;
        let may = match ending {
            VersionEnding::Now => held.version.gone.is_none() && held.version.cut.is_none(),
            VersionEnding::Never => is_own && held.version.gone.is_none(),
            VersionEnding::Planned(Ending::Remove) => is_own && !held.is_twin,
            VersionEnding::Planned(_) => !held.is_twin,
        };
        if !may {
            return None;
        }
        match ending {
            VersionEnding::Never | VersionEnding::Planned(Ending::Remove) => {
                return Some(self.versions.remove(position).bytes);
            }
            VersionEnding::Now => {
                let valid_to = mark.timestamp();
                held.version.cut = Some(Cut { mark, valid_to });
                held.is_twin = false;
            }
            VersionEnding::Planned(Ending::Cut(valid_to)) => {
                held.version.cut = Some(Cut { mark, valid_to });
            }
            VersionEnding::Planned(Ending::Close) => held.version.gone = Some(mark),
            VersionEnding::Planned(Ending::UncutAndClose) => {
                held.version.cut = None;
                held.version.gone = Some(mark);
            }
        }
        Some(0)
    }

    /// See [`super::ledger::RowChange::Grants`]. A new entry gets this number.
    pub(crate) fn change_grants(&mut self, mark: Mark, change: GrantsChange, number: i64) {
        let is_life = |grant: &HeldGrant| &*grant.role == LIFE;
        match change {
            GrantsChange::Close => {
                let open = self.grants.iter_mut().filter(|one| one.until.is_none());
                open.for_each(|grant| grant.until = Some(mark));
            }
            GrantsChange::Drop => self
                .grants
                .retain(|grant| grant.until.is_some() || grant.from != mark),
            GrantsChange::Reopen => {
                let ended = self.grants.iter_mut();
                let ended = ended.filter(|one| one.until == Some(mark) && !is_life(one));
                ended.for_each(|grant| grant.until = None);
            }
            GrantsChange::EndLife => self.grants.push(HeldGrant {
                number,
                role: LIFE.into(),
                actions: 0,
                from: mark,
                until: Some(mark),
            }),
            GrantsChange::ResumeLife => self
                .grants
                .retain(|grant| !is_life(grant) || grant.until != Some(mark)),
        }
    }

    /// The last mark of its grants.
    pub(crate) fn grants_from(&self) -> Option<Mark> {
        let own = self.grants.iter();
        let own = own.map(|grant| {
            grant
                .until
                .map_or(grant.from, |until| until.max(grant.from))
        });
        own.max().max(self.granted)
    }

    /// Whether a version without a twin, or a grant, was changed after the first mark and before
    /// the second, at which the group is; `None` where not all of that was read.
    pub(crate) fn has_changed(&self, after: Mark, before: Mark) -> Option<bool> {
        let earlier = self.changed?.max(self.granted.unwrap_or(Mark::ZERO));
        let versions = self.versions.iter().filter(|held| !held.is_twin);
        let of_versions = versions.flat_map(|held| {
            let Stored {
                sys_from,
                cut,
                gone,
                ..
            } = &held.version;
            [Some(*sys_from), cut.map(|cut| cut.mark), *gone]
        });
        let of_grants = self.grants.iter();
        let of_grants = of_grants.flat_map(|grant| [Some(grant.from), grant.until]);
        let marks = of_versions.chain(of_grants).flatten();
        let is_between = |mark: Mark| after < mark && mark < before;
        Some(earlier > after || marks.into_iter().any(is_between))
    }

    /// Bytes it takes in memory, about.
    pub(crate) fn size_bytes(&self) -> usize {
        let now = self.now.iter().map(|now| {
            let body = now.body.as_ref().and_then(|body| body.body.as_ref());
            now.image.size_bytes() + body.map_or(0, |body| body.len())
        });
        let versions = self.versions.iter().map(|held| {
            let values = held.version.value.values.iter();
            size_of::<HeldVersion>() + values.map(Value::size_bytes).sum::<usize>()
        });
        let grants = self.grants.iter();
        let grants = grants.map(|grant| size_of::<HeldGrant>() + grant.role.len());
        size_of::<HeldRow>() + now.chain(versions).chain(grants).sum::<usize>()
    }

    /// When it was last created again.
    pub(crate) fn reborn_at(&self) -> Option<Mark> {
        let lives = self.grants.iter().filter(|grant| &*grant.role == LIFE);
        lives.filter_map(|life| life.until).max().max(self.reborn)
    }
}
