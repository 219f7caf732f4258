//! By how many bytes a batch changes what the tables hold, and what each project may have.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Catalogue, ProjectId, TableNumber};

use crate::batch::SpaceLimit;
use crate::refusal::{Counted, Full, Refusal};

/// What a version counts for its id, its times and its place, beside its values.
pub(crate) const VERSION_BYTES: i64 = 100;
/// What a number, a truth or an instant counts. Texts, lists and sealed values count their bytes.
pub(crate) const NUMBER_BYTES: usize = 8;

/// By how many bytes the open transaction has changed which tables.
#[derive(Clone, Default)]
pub(crate) struct Growth {
    /// By what is done.
    earlier: Vec<(TableNumber, i64)>,
    /// By the batch that runs.
    own: RefCell<Vec<(TableNumber, i64)>>,
    /// Up to which version the tables are counted that are not counted to their end.
    counted_to: Arc<BTreeMap<TableNumber, i64>>,
}

impl Growth {
    /// None yet. Up to which version the tables are counted that are not counted to their end.
    pub(crate) fn of(counted_to: BTreeMap<TableNumber, i64>) -> Growth {
        Growth {
            counted_to: Arc::new(counted_to),
            ..Growth::default()
        }
    }

    /// Takes in a version that was written, with the bytes of its values.
    pub(crate) fn written(&self, table: TableNumber, rid: i64, bytes: usize) {
        self.changed(table, rid, VERSION_BYTES + bytes as i64);
    }

    /// Takes in a version that was removed, with all the bytes that it counted.
    pub(crate) fn removed(&self, table: TableNumber, rid: i64, bytes: i64) {
        self.changed(table, rid, -bytes);
    }

    fn changed(&self, table: TableNumber, rid: i64, bytes: i64) {
        if self.counted_to.get(&table).is_none_or(|last| rid <= *last) {
            add(&mut self.own.borrow_mut(), table, bytes);
        }
    }

    /// Takes in a slice of versions that were not counted before, and up to where the table is
    /// counted now; `None` to its end.
    pub(crate) fn counted(&mut self, table: TableNumber, bytes: i64, upto: Option<i64>) {
        add(self.own.get_mut(), table, bytes);
        let counted_to = Arc::make_mut(&mut self.counted_to);
        match upto {
            Some(rid) => counted_to.insert(table, rid),
            None => counted_to.remove(&table),
        };
    }

    /// The batch is done: another one may follow.
    pub(crate) fn settle(&mut self) {
        for (table, bytes) in self.own.take() {
            add(&mut self.earlier, table, bytes);
        }
    }

    /// By how many bytes the batches that are done have changed which tables.
    pub(crate) fn settled(&self) -> impl Iterator<Item = (TableNumber, i64)> {
        self.earlier.iter().copied()
    }
}

fn add(all: &mut Vec<(TableNumber, i64)>, table: TableNumber, bytes: i64) {
    match all.iter_mut().find(|(known, _)| *known == table) {
        Some((_, sum)) => *sum += bytes,
        None => all.push((table, bytes)),
    }
}

/// The counters as of the last commit.
pub(crate) struct Totals {
    tables: HashMap<TableNumber, Total>,
    /// The sums of their tables: a project may have many of those, and each write asks.
    projects: HashMap<ProjectId, i64>,
}

struct Total {
    project: ProjectId,
    bytes: i64,
}

impl Totals {
    /// As they are stored.
    pub(crate) fn new(
        catalogue: &Catalogue,
        counters: impl Iterator<Item = (TableNumber, i64)>,
    ) -> Totals {
        let mut totals = Totals {
            tables: HashMap::new(),
            projects: HashMap::new(),
        };
        totals.follow(catalogue);
        for (table, bytes) in counters {
            totals.add(table, bytes);
        }
        totals
    }

    /// Takes in what was committed; `catalogue` where that has changed.
    pub(crate) fn take_in(&mut self, growth: &mut Growth, catalogue: Option<&Catalogue>) {
        if let Some(catalogue) = catalogue {
            self.follow(catalogue);
        }
        for (table, bytes) in growth.earlier.drain(..) {
            self.add(table, bytes);
        }
    }

    /// What is counted of a table that the catalogue does not have is of no project any more.
    fn add(&mut self, table: TableNumber, bytes: i64) {
        let Some(total) = self.tables.get_mut(&table) else {
            return;
        };
        total.bytes += bytes;
        if let Some(sum) = self.projects.get_mut(&total.project) {
            *sum += bytes;
        }
    }

    fn follow(&mut self, catalogue: &Catalogue) {
        let mut former = std::mem::take(&mut self.tables);
        self.projects.clear();
        for table in catalogue.tables() {
            let bytes = former.remove(&table.number).map_or(0, |total| total.bytes);
            let project = table.project.clone();
            *self.projects.entry(project.clone()).or_default() += bytes;
            let total = Total { project, bytes };
            self.tables.insert(table.number, total);
        }
    }

    /// The project of a table, which may be newer than these counters.
    fn project_of<'a>(
        &'a self,
        table: TableNumber,
        catalogue: &'a Catalogue,
    ) -> Option<&'a ProjectId> {
        let known = self.tables.get(&table).map(|total| &total.project);
        known.or_else(|| Some(&catalogue.table_by_number(table)?.project))
    }

    /// Refuses the batch if a project has more bytes by it, and more than it may have. What takes
    /// bytes away is done in a project that is full, too.
    pub(crate) fn need_project_bytes(
        &self,
        space: &SpaceLimit,
        catalogue: &Catalogue,
        growth: &Growth,
    ) -> Result<(), Refusal> {
        let SpaceLimit::ProjectBytes(max) = *space else {
            return Ok(());
        };
        let own = growth.own.borrow();
        let project_of = |table: &TableNumber| self.project_of(*table, catalogue);
        let tables = own.iter().map(|(table, _)| table);
        let mut projects: Vec<&ProjectId> = tables.filter_map(project_of).collect();
        projects.sort_unstable();
        projects.dedup();
        for id in projects {
            let in_project = |all: &[(TableNumber, i64)]| -> i64 {
                let all = all
                    .iter()
                    .filter(|(table, _)| project_of(table) == Some(id));
                all.map(|(_, bytes)| bytes).sum()
            };
            let held = self.projects.get(id).unwrap_or(&0) + in_project(&growth.earlier);
            let grows = in_project(&own);
            if grows > 0 && held.saturating_add(grows) > i64::try_from(max).unwrap_or(i64::MAX) {
                let what = Counted::ProjectBytes(id.clone());
                let held = held.unsigned_abs();
                return Err(Refusal::Full(Full { what, held, max }));
            }
        }
        Ok(())
    }
}
