//! The watches of one table.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Change, RowId, Value};
use query::predicate::is_decidable;
use query::{Filter, Query};

use crate::buckets::{Buckets, Placement, Question, RESIDUAL_GROUPS_MAX};
use crate::entry::StaleFlag;
use crate::group::WatchGroup;
use crate::invalidated::Invalidated;
use crate::rank::{FieldBits, RankBounds, Ranks};
use crate::rules::{Rule, Rules};
use crate::watch::Watch;

/// Most watches that share a filter; each of them is asked about every change of a row that
/// matches.
const GROUP_WATCHES_MAX: usize = 2_048;

/// The watches of one table.
#[derive(Default)]
pub(crate) struct TableWatches {
    groups: Vec<Option<WatchGroup>>,
    /// How far each group reaches, by its place.
    rank_bounds: Vec<RankBounds>,
    free: Vec<u32>,
    by_form: HashMap<Arc<[u8]>, u32>,
    buckets: Buckets,
    undecidable: Vec<u32>,
    /// The groups with pages beside a row; one for each such page.
    cursors: HashMap<RowId, Vec<u32>>,
    /// What stands beyond the bounds shares one flag: any change of the table sets it.
    degraded: StaleFlag,
    degraded_count: u64,
    watch_count: u64,
    /// Numbers the changes that were asked about.
    visits: u64,
    scratch: ChangeScratch,
    /// Groups with totals that the commit moves.
    tallied: Vec<u32>,
}

/// What asking about one change takes; kept for its capacity.
#[derive(Default)]
struct ChangeScratch {
    /// The ranks of the row that changes.
    before: Ranks,
    after: Ranks,
    /// The groups that the change may concern.
    concerned: Vec<u32>,
}

impl TableWatches {
    pub(crate) fn watch_count(&self) -> u64 {
        self.watch_count
    }

    pub(crate) fn degraded_count(&self) -> u64 {
        self.degraded_count
    }

    /// The group of the rows that are meant; `None` if there is no room for it.
    pub(crate) fn group(&mut self, form: &[u8], query: &Query, rules: &Rules) -> Option<u32> {
        if let Some(slot) = self.by_form.get(form) {
            let group = self.groups[*slot as usize].as_ref();
            let count = group.map_or(0, |group| group.watches.len());
            return (count < rules.bound(GROUP_WATCHES_MAX)).then_some(*slot);
        }
        let placement = self.placement(&query.filter, rules)?;
        let form = Arc::<[u8]>::from(form);
        let group = WatchGroup::new(form.clone(), query, placement);
        let bounds = RankBounds::of(group.fields());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.groups.push(None);
            self.rank_bounds.push(bounds);
            self.groups.len() as u32 - 1
        });
        self.rank_bounds[slot as usize] = bounds;
        self.buckets.enter(&group.placement, slot, &query.filter);
        if matches!(group.placement, Placement::Undecidable) {
            self.undecidable.push(slot);
        }
        self.by_form.insert(form, slot);
        self.groups[slot as usize] = Some(group);
        Some(slot)
    }

    /// Where a group with this filter may stand; `None` if there is no room for it.
    fn placement(&self, filter: &Filter, rules: &Rules) -> Option<Placement> {
        if is_decidable(filter) {
            return self.buckets.placement(filter, rules);
        }
        (self.undecidable.len() < rules.bound(RESIDUAL_GROUPS_MAX))
            .then_some(Placement::Undecidable)
    }

    /// The group at this place.
    pub(crate) fn group_of(&self, slot: u32) -> Option<&WatchGroup> {
        self.groups.get(slot as usize)?.as_ref()
    }

    pub(crate) fn add(&mut self, slot: u32, watch: Watch) {
        if let Some(row) = watch.cursor() {
            self.cursors.entry(row.clone()).or_default().push(slot);
        }
        if watch.is_endless() {
            self.rank_bounds[slot as usize].add_endless();
        }
        self.watch_count += 1;
        self.group_mut(slot)
            .expect("a watch is added to a group that is there")
            .watches
            .push(watch);
    }

    /// An open read found these keys in the last row of its page; `None`: the page is not full.
    pub(crate) fn set_last(&mut self, slot: u32, number: u64, last: Option<Vec<Value>>) {
        let Some(watch) = self.watch_mut(slot, number) else {
            return;
        };
        let was_endless = watch.is_endless();
        watch.set_last(last);
        if let (true, Some(edge)) = (was_endless, watch.edge) {
            let bounds = &mut self.rank_bounds[slot as usize];
            bounds.remove_endless();
            bounds.add_end(edge);
        }
    }

    /// The flag of a watch beyond the bounds.
    pub(crate) fn degrade(&mut self) -> StaleFlag {
        self.degraded_count += 1;
        self.degraded.clone()
    }

    /// A watch beyond the bounds is no more.
    pub(crate) fn forget_degraded(&mut self, stale: &StaleFlag, rules: &Rules) {
        // Those that a change has dropped are not counted any more.
        if stale.is_set() {
            return;
        }
        self.degraded_count = self.degraded_count.saturating_sub(1);
        // No change sets the flag any more, and a caller may still hold what it is of.
        if self.degraded_count == 0 && rules.hold(Rule::EvictedCountsAsAltered) {
            std::mem::take(&mut self.degraded).set();
        }
    }

    /// Whether nothing stands here.
    pub(crate) fn is_empty(&self) -> bool {
        self.watch_count == 0 && self.degraded_count == 0
    }

    pub(crate) fn watch_mut(&mut self, slot: u32, number: u64) -> Option<&mut Watch> {
        let group = self.group_mut(slot)?;
        group
            .watches
            .iter_mut()
            .find(|watch| watch.number == number)
    }

    /// Unregisters a watch of a group. Says whether one was meant.
    pub(crate) fn remove(&mut self, slot: u32, is_meant: impl Fn(&Watch) -> bool) -> bool {
        let Some(group) = self.group_mut(slot) else {
            return false;
        };
        let Some(position) = group.watches.iter().position(is_meant) else {
            return false;
        };
        let removed = group.watches.swap_remove(position);
        self.watch_count -= 1;
        self.forget_page(&removed, slot);
        self.remove_if_empty(slot);
        true
    }

    /// Asks all that one change of a row may concern.
    pub(crate) fn ask(&mut self, change: &Change, invalidated: &mut Invalidated, rules: &Rules) {
        self.visits += 1;
        self.drop_degraded(rules);
        if rules.hold(Rule::UndecidableAreDropped) {
            for slot in std::mem::take(&mut self.undecidable) {
                self.drop_group(slot, invalidated, rules);
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.before.set(change, change.before.as_ref());
        scratch.after.set(change, change.after.as_ref());
        let question = Question {
            change,
            changed: FieldBits::changed(change),
            before: &scratch.before,
            after: &scratch.after,
        };
        self.buckets
            .concerned(&question, &mut scratch.concerned, rules);
        for slot in scratch.concerned.drain(..) {
            let bounds = &self.rank_bounds[slot as usize];
            if !bounds.leaves_out(question.changed, question.before, question.after, rules) {
                self.ask_group(slot, &question, invalidated, rules);
            }
        }
        self.scratch = scratch;
        if rules.hold(Rule::CursorRow) {
            for slot in self.cursors.get(&change.id).cloned().unwrap_or_default() {
                let is_affected_by = |watch: &Watch| watch.is_cursor_affected_by(change);
                self.invalidate_where(slot, is_affected_by, invalidated, rules);
            }
        }
    }

    fn ask_group(
        &mut self,
        slot: u32,
        question: &Question<'_>,
        invalidated: &mut Invalidated,
        rules: &Rules,
    ) {
        let change = question.change;
        let visits = self.visits;
        let Some(group) = self.group_mut(slot) else {
            return;
        };
        if group.visits == visits {
            return;
        }
        group.visits = visits;
        let matches = group.matches(change, rules);
        if !matches.before && !matches.after {
            return;
        }
        let delta = i64::from(matches.after) - i64::from(matches.before);
        let mut is_tallied = false;
        if delta != 0 {
            for watch in &mut group.watches {
                is_tallied |= watch.tally(delta);
            }
        }
        if is_tallied {
            self.tallied.push(slot);
        }
        let is_affected_by = |watch: &Watch| {
            !watch.is_out_of_reach(question, matches, rules)
                && watch.is_affected_by(change, matches, rules)
        };
        self.invalidate_where(slot, is_affected_by, invalidated, rules);
    }

    /// Takes away what is altered.
    fn invalidate_where(
        &mut self,
        slot: u32,
        is_stale: impl Fn(&Watch) -> bool,
        invalidated: &mut Invalidated,
        rules: &Rules,
    ) {
        let Some(group) = self.group_mut(slot) else {
            return;
        };
        let mut removed = Vec::new();
        let mut position = 0;
        while position < group.watches.len() {
            if is_stale(&group.watches[position]) {
                removed.push(group.watches.swap_remove(position));
            } else {
                position += 1;
            }
        }
        if removed.is_empty() {
            return;
        }
        self.watch_count -= removed.len() as u64;
        for watch in removed {
            self.forget_page(&watch, slot);
            watch.invalidate(invalidated, rules);
        }
        self.remove_if_empty(slot);
    }

    /// Judges the totals that a commit moves, when all of it was asked.
    pub(crate) fn settle_totals(
        &mut self,
        cap: Option<u64>,
        invalidated: &mut Invalidated,
        rules: &Rules,
    ) {
        for slot in std::mem::take(&mut self.tallied) {
            if !rules.hold(Rule::TotalsAreWithheld) {
                continue;
            }
            for watch in self
                .group_mut(slot)
                .into_iter()
                .flat_map(|group| &mut group.watches)
            {
                watch.settle(slot, cap, invalidated, rules);
            }
            self.invalidate_where(slot, Watch::is_moved, invalidated, rules);
        }
    }

    /// Takes everything away.
    pub(crate) fn drop_all(&mut self, invalidated: &mut Invalidated, rules: &Rules) {
        self.drop_degraded(rules);
        for slot in 0..self.groups.len() {
            self.drop_group(slot as u32, invalidated, rules);
        }
    }

    fn drop_degraded(&mut self, rules: &Rules) {
        if self.degraded_count > 0 && rules.hold(Rule::DegradedAreDropped) {
            self.degraded.set();
            self.degraded = StaleFlag::default();
            self.degraded_count = 0;
        }
    }

    fn drop_group(&mut self, slot: u32, invalidated: &mut Invalidated, rules: &Rules) {
        self.invalidate_where(slot, |_| true, invalidated, rules);
    }

    fn group_mut(&mut self, slot: u32) -> Option<&mut WatchGroup> {
        self.groups.get_mut(slot as usize)?.as_mut()
    }

    /// A watch has left its group.
    fn forget_page(&mut self, watch: &Watch, slot: u32) {
        if watch.is_endless() {
            self.rank_bounds[slot as usize].remove_endless();
        }
        let Some(row) = watch.cursor() else { return };
        if let Some(slots) = self.cursors.get_mut(row) {
            if let Some(position) = slots.iter().position(|known| *known == slot) {
                slots.swap_remove(position);
            }
            if slots.is_empty() {
                self.cursors.remove(row);
            }
        }
    }

    fn remove_if_empty(&mut self, slot: u32) {
        let is_empty = |group: &mut WatchGroup| group.watches.is_empty();
        let Some(group) = self.groups[slot as usize].take_if(is_empty) else {
            return;
        };
        self.buckets.leave(&group.placement, slot);
        if matches!(group.placement, Placement::Undecidable) {
            self.undecidable.retain(|known| *known != slot);
        }
        self.by_form.remove(&group.form);
        self.free.push(slot);
    }
}
