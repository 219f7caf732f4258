//! Everything that a commit is asked against: live entries, and reads that may become some.

use std::collections::{BTreeSet, HashMap};

use model::{TableNumber, Value};
use query::Query;

use crate::batch::Batch;
use crate::entry::{Entry, StaleFlag, WatchPlace};
use crate::invalidated::Invalidated;
use crate::key::Key;
use crate::rules::{Rule, Rules};
use crate::shown::{self, ShownLists};
use crate::table::TableWatches;
use crate::watch::{Matches, Watch, WatchSubject};

/// A read that begins while more changes of its table than these are in flight is not asked about
/// them: it is not kept.
const IN_FLIGHT_ASKED_MAX: usize = 256;

/// What a read is for.
pub(crate) struct ReadPurpose<'a> {
    pub(crate) query: &'a Query,
    /// What it will be kept as.
    pub(crate) name: &'a [u8],
    /// What names the rows that are meant.
    pub(crate) form: &'a [u8],
    pub(crate) is_exact: bool,
    /// The rows, or the total.
    pub(crate) of_rows: bool,
}

/// What the registry of a cache holds, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries and open reads that are asked about each change that may concern them.
    pub watches: u64,
    /// Entries and open reads beyond the bound of their table, which each change of it drops.
    pub degraded: u64,
    /// Entries within a `ttl`, and open reads for such, of which it is known what they show.
    pub shown: u64,
    /// How often an entry or a read was taken in beyond the bound, since the start.
    pub degradations: u64,
    /// Entries and reads that commits took away, since the start.
    pub invalidations: u64,
    /// Reads that were not kept, because a commit had overtaken them, since the start.
    pub refused_fills: u64,
    /// Totals that a commit moved, and that came back after it, since the start.
    pub patched_totals: u64,
    /// Entries that were evicted, since the start.
    pub evictions: u64,
}

/// The watches of all tables, and the commit in flight.
#[derive(Default)]
pub(crate) struct Registry {
    tables: HashMap<TableNumber, TableWatches>,
    shown: ShownLists,
    next: u64,
    in_flight: Option<InFlight>,
    degradations: u64,
    invalidations: u64,
    pub(crate) refused_fills: u64,
    pub(crate) patched_totals: u64,
    pub(crate) evictions: u64,
}

struct InFlight {
    batch: Batch,
    /// The tables it has changes of rows of, in an order that each process repeats: in it totals
    /// leave the map and come back, and that decides what is evicted.
    changed: BTreeSet<TableNumber>,
}

impl Registry {
    /// Registers a read that begins now.
    pub(crate) fn open(
        &mut self,
        wanted: &ReadPurpose<'_>,
        rules: &Rules,
    ) -> (WatchPlace, StaleFlag) {
        let (place, stale) = self.watch(wanted, rules);
        if !wanted.is_exact {
            self.show(wanted, place, &stale, rules);
        }
        (place, stale)
    }

    /// From now on it is known that a caller may be shown what the read finds.
    fn show(
        &mut self,
        wanted: &ReadPurpose<'_>,
        place: WatchPlace,
        stale: &StaleFlag,
        rules: &Rules,
    ) {
        let own = place.group.map(|_| stale.clone());
        let is_lost = self.in_flight.as_ref().is_some_and(|flight| {
            shown::is_any_lost(&flight.batch, wanted.query, IN_FLIGHT_ASKED_MAX)
        });
        if is_lost && rules.hold(Rule::LossesEndAges) {
            own.iter().for_each(StaleFlag::set);
            return;
        }
        let total = Key::total_beside(wanted.name, wanted.form);
        self.shown.open(wanted.query, place.number, total, own);
    }

    fn watch(&mut self, wanted: &ReadPurpose<'_>, rules: &Rules) -> (WatchPlace, StaleFlag) {
        let number = self.next;
        self.next += 1;
        let nowhere = WatchPlace {
            group: None,
            number,
        };
        let query = wanted.query;
        let table = self.tables.entry(query.table.number).or_default();
        let slot = table.group(wanted.form, query, rules);
        let Some(slot) = slot else {
            self.degradations += 1;
            if self.is_overtaken(query.table.number) && rules.hold(Rule::InFlightIsAsked) {
                return (nowhere, set());
            }
            let table = self.tables.entry(query.table.number).or_default();
            return (nowhere, table.degrade());
        };
        let place = WatchPlace {
            group: Some(slot),
            number,
        };
        let watch = Watch::open(number, query, wanted.of_rows, wanted.is_exact);
        let stale = watch.stale.clone();
        table.add(slot, watch);
        if rules.hold(Rule::InFlightIsAsked) && self.in_flight_alters(query, place, rules) {
            stale.set();
            self.remove(query.table.number, place);
        }
        (place, stale)
    }

    /// Whether the commit in flight changes anything of the table.
    fn is_overtaken(&self, table: TableNumber) -> bool {
        let in_flight = self.in_flight.as_ref();
        in_flight.is_some_and(|flight| {
            flight.changed.contains(&table) || flight.batch.whole_tables().any(|of| *of == table)
        })
    }

    /// Whether the commit in flight may alter what was registered just now.
    fn in_flight_alters(&mut self, query: &Query, place: WatchPlace, rules: &Rules) -> bool {
        let number = query.table.number;
        if !self.is_overtaken(number) {
            return false;
        }
        let (Some(flight), Some(table), Some(slot)) =
            (&self.in_flight, self.tables.get_mut(&number), place.group)
        else {
            return false;
        };
        if flight.batch.whole_tables().any(|of| *of == number) {
            return rules.hold(Rule::WholeTables);
        }
        let Some(group) = table.group_of(slot) else {
            return true;
        };
        if !group.is_decidable() {
            return rules.hold(Rule::UndecidableAreDropped);
        }
        let Some(watch) = group.watches.iter().find(|w| w.number == place.number) else {
            return true;
        };
        let mut delta = 0;
        for (count, change) in flight.batch.changes_of(number).enumerate() {
            if count >= IN_FLIGHT_ASKED_MAX {
                return true;
            }
            let matches = group.matches(change, rules);
            delta += i64::from(matches.after) - i64::from(matches.before);
            let is_some = matches != Matches::NONE;
            if (is_some && watch.is_affected_by(change, matches, rules))
                || (rules.hold(Rule::CursorRow) && watch.is_cursor_affected_by(change))
            {
                return true;
            }
        }
        delta != 0 && matches!(watch.subject, WatchSubject::Total(_))
    }

    /// An open read of rows found these keys in the last row of a full page.
    pub(crate) fn set_window(
        &mut self,
        table: TableNumber,
        place: &WatchPlace,
        last: Option<Vec<Value>>,
    ) {
        if let (Some(table), Some(slot)) = (self.tables.get_mut(&table), place.group) {
            table.set_last(slot, place.number, last);
        }
    }

    /// An open read becomes the entry `key`. Of no effect if a commit took it away. Says how many
    /// bytes the registry spends on it.
    pub(crate) fn keep(&mut self, key: &Key, place: &WatchPlace, total: Option<u64>) -> u32 {
        let Some(watch) = self.watch_mut(key.table(), place) else {
            return 0;
        };
        watch.keep(key.clone(), total);
        self.watch_bytes(key.table(), place)
    }

    /// The read of an entry within a `ttl` found these rows; without rows it is a total. Says how
    /// many bytes are spent on knowing it; `None` if a caller has lost a row since the read began:
    /// it may be among them.
    pub(crate) fn keep_shown(
        &mut self,
        key: &Key,
        place: &WatchPlace,
        rows: Option<Vec<i64>>,
    ) -> Option<u32> {
        let bytes = self.shown.keep(key, place.number, rows)?;
        Some(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    fn watch_bytes(&self, table: TableNumber, place: &WatchPlace) -> u32 {
        let group = self.tables.get(&table).zip(place.group);
        let group = group.and_then(|(table, slot)| table.group_of(slot));
        let bytes = group.map_or(0, |group| group.watch_bytes(place.number));
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// A total that was set aside is an entry again. Says how many bytes the registry spends on
    /// it; `None` if its watch is not there any more.
    pub(crate) fn reopen(
        &mut self,
        key: &Key,
        place: &WatchPlace,
        stale: &StaleFlag,
        total: u64,
    ) -> Option<u32> {
        let watch = self.watch_mut(key.table(), place)?;
        watch.stale = stale.clone();
        watch.keep(key.clone(), Some(total));
        Some(self.watch_bytes(key.table(), place))
    }

    /// An open read is no more.
    pub(crate) fn close(
        &mut self,
        table: TableNumber,
        place: &WatchPlace,
        stale: &StaleFlag,
        rules: &Rules,
    ) {
        self.shown.remove(table, place.number);
        if place.group.is_some() {
            return self.remove(table, *place);
        }
        if let Some(watches) = self.tables.get_mut(&table) {
            watches.forget_degraded(stale, rules);
            self.remove_if_empty(table);
        }
    }

    /// An entry has left the map, though nothing altered it. It would not be noticed any more if
    /// something did, so a caller that still holds it must take it for altered; within a `ttl`, one
    /// that never was in the map is as fresh as any answer that was read just now.
    pub(crate) fn evict(&mut self, key: &Key, gone: &Entry, was_kept: bool, rules: &Rules) {
        let table = key.table();
        let Some(slot) = gone.place.group else {
            return self.close(table, &gone.place, &gone.stale, rules);
        };
        self.shown.remove(table, gone.place.number);
        if (was_kept || key.is_exact()) && rules.hold(Rule::EvictedCountsAsAltered) {
            gone.stale.set();
        }
        if rules.hold(Rule::UnregisterByNumber) {
            self.remove(table, gone.place);
        } else if let Some(table) = self.tables.get_mut(&table) {
            while table.remove(slot, |watch| watch.kept.as_ref() == Some(key)) {}
        }
    }

    /// Takes away what the batch may alter, and remembers the batch.
    pub(crate) fn withhold(
        &mut self,
        batch: Batch,
        cap: Option<u64>,
        rules: &Rules,
    ) -> Invalidated {
        assert!(self.in_flight.is_none(), "one commit at a time");
        let mut invalidated = Invalidated::default();
        let mut changed = BTreeSet::new();
        for number in batch.whole_tables() {
            if rules.hold(Rule::WholeTables)
                && let Some(mut table) = self.tables.remove(number)
            {
                table.drop_all(&mut invalidated, rules);
            }
        }
        for change in batch.images.iter().flat_map(|changes| changes.iter()) {
            changed.insert(change.table);
            if let Some(table) = self.tables.get_mut(&change.table) {
                table.ask(change, &mut invalidated, rules);
            }
        }
        for number in &changed {
            if let Some(table) = self.tables.get_mut(number) {
                table.settle_totals(cap, &mut invalidated, rules);
            }
        }
        if rules.hold(Rule::LossesEndAges) {
            invalidated.lost = self.shown.withhold(&batch);
        }
        self.invalidations += invalidated.count;
        self.in_flight = Some(InFlight { batch, changed });
        invalidated
    }

    /// The batch in flight is visible, or was given up.
    pub(crate) fn publish(&mut self) {
        self.in_flight = None;
    }

    /// Whatever was registered of the table counts as altered.
    pub(crate) fn forget(&mut self, table: TableNumber, rules: &Rules) {
        if let Some(mut table) = self.tables.remove(&table) {
            table.drop_all(&mut Invalidated::default(), rules);
        }
    }

    /// No entry of the table within a `ttl` is in the map any more.
    pub(crate) fn forget_kept(&mut self, table: TableNumber) {
        self.shown.forget_kept(table);
    }

    pub(crate) fn counts(&self) -> Counts {
        let watches = self.tables.values().map(TableWatches::watch_count).sum();
        let degraded = self.tables.values().map(TableWatches::degraded_count).sum();
        Counts {
            watches,
            degraded,
            shown: self.shown.count(),
            degradations: self.degradations,
            invalidations: self.invalidations,
            refused_fills: self.refused_fills,
            patched_totals: self.patched_totals,
            evictions: self.evictions,
        }
    }

    fn watch_mut(&mut self, table: TableNumber, place: &WatchPlace) -> Option<&mut Watch> {
        let table = self.tables.get_mut(&table)?;
        table.watch_mut(place.group?, place.number)
    }

    fn remove(&mut self, table: TableNumber, place: WatchPlace) {
        if let (Some(watches), Some(slot)) = (self.tables.get_mut(&table), place.group) {
            watches.remove(slot, |watch| watch.number == place.number);
            self.remove_if_empty(table);
        }
    }

    /// A read that ends late may be the last that is known of a table that was deleted.
    fn remove_if_empty(&mut self, table: TableNumber) {
        if self.tables.get(&table).is_some_and(TableWatches::is_empty) {
            self.tables.remove(&table);
        }
    }
}

fn set() -> StaleFlag {
    let stale = StaleFlag::default();
    stale.set();
    stale
}
