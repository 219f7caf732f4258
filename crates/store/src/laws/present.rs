//! What is shown now of rows that were written over valid periods, and when it changes by itself.
//!
//! The table of now is derived from the versions. Its row is rebuilt in two passes over all
//! rows concerned, first taken away and then shown: two rows may swap a unique value, or hand it
//! over at an instant, and SQLite checks each statement at once.

use std::collections::VecDeque;
use std::sync::Arc;

use model::history::{Present, Refresh, Shown, VersionNumber};
use model::{Image, Index, IndexKind, Mark, Period, RowId, Table, TableNumber, Timestamp, Value};

use super::halt::Step;
use super::ledger::{NowWrite, RowChange, RowToShow};
use super::parked::values_in;
use super::permissions::granted_text;
use super::row_search::{DueWanted, HoldersWanted};
use super::row_write::Target;
use super::run::{RowStore, Run};
use super::versions::{Asserted, VersionsWanted};
use crate::refusal::Refusal;

/// Versions that say what is shown of a row and until when: the one that begins last before the
/// instant, and the two after it.
const SHOWN_VERSIONS: usize = 3;

/// A row whose present is looked at again.
pub(crate) struct Stale {
    pub(crate) table: Arc<Table>,
    pub(crate) id: RowId,
    pub(crate) seq: i64,
}

/// A row as it is to be shown.
struct Showing {
    stale: Stale,
    version: VersionNumber,
    valid: Period,
    sys_from: Mark,
    origin: Mark,
    asserted: Arc<Asserted>,
    before: Option<Image>,
}

impl<D: RowStore> Run<'_, D> {
    /// Brings what is shown now up to what the batch has written so far.
    pub(crate) fn catch_up(&mut self) -> Step<()> {
        if !self.timed.is_behind {
            return Ok(());
        }
        self.timed.is_behind = false;
        let behind = |row: &mut super::timed_rows::TimedRow| {
            std::mem::take(&mut row.is_behind).then(|| Stale {
                table: Arc::clone(&row.table),
                id: row.id.clone(),
                seq: row.seq,
            })
        };
        let stale = self
            .timed
            .rows_mut()
            .iter_mut()
            .filter_map(behind)
            .collect();
        self.refresh(stale, self.mark.timestamp(), Some(self.mark))
    }

    /// Shows rows as they are at `instant`, as known now. `batch` is the mark of the batch under
    /// way; `None` when none is, because a boundary has passed.
    pub(crate) fn refresh(
        &mut self,
        stale: Vec<Stale>,
        instant: Timestamp,
        batch: Option<Mark>,
    ) -> Step<()> {
        let mut tables: Vec<TableNumber> = stale.iter().map(|row| row.table.number).collect();
        tables.sort_unstable();
        tables.dedup();
        let mut showings = VecDeque::new();
        for row in stale {
            showings.extend(self.withdraw(row, instant, batch)?);
        }
        while let Some(mut showing) = showings.pop_front() {
            let Some(refusal) = self.show(&mut showing, batch)? else {
                continue;
            };
            if batch.is_some() {
                return Err(refusal.into());
            }
            // Perhaps another row that is due hands the value over and was not among those asked
            // for.
            let in_the_way = self.due_in_the_way(&showing, instant)?;
            if in_the_way.is_empty() {
                self.leave_out(showing, &refusal);
                continue;
            }
            for row in in_the_way {
                showings.extend(self.withdraw(row, instant, batch)?);
            }
            showings.push_front(showing);
        }
        for table in tables {
            self.take_in_boundary(table)?;
        }
        Ok(())
    }

    /// The first pass: takes the row out of what is shown unless it is right there, notes when it
    /// changes next, and says how it is to be shown.
    fn withdraw(
        &mut self,
        stale: Stale,
        instant: Timestamp,
        batch: Option<Mark>,
    ) -> Step<Option<Showing>> {
        let target = Target::new(&stale.table, &stale.id);
        // What is valid at the instant, and what comes next.
        let known = VersionsWanted::Known {
            low: instant,
            high: Timestamp::END,
            count_max: SHOWN_VERSIONS,
        };
        let id = stale.id.as_str();
        let known = self.rows().versions(&stale.table, id, known)?;
        let present = Present::new(&known, instant);
        self.schedule(&stale, present.boundary)?;
        let shown = self.shown(&target)?;
        let refresh = present.refresh(batch, shown);
        if matches!(refresh, Refresh::Keep) {
            return Ok(None);
        }
        let before = self.current_to_go(&target)?;
        if let Some(row) = &before {
            self.withdraw_now(&target, row.seq)?;
        }
        let before = before.map(|row| row.image);
        let Refresh::Show(piece) = refresh else {
            if before.is_some() {
                self.touched
                    .record(&stale.table, &stale.id, stale.seq, before, None);
            }
            return Ok(None);
        };
        Ok(Some(Showing {
            version: piece.number,
            valid: piece.valid,
            sys_from: piece.sys_from,
            origin: piece.origin,
            asserted: Arc::clone(piece.value),
            before,
            stale,
        }))
    }

    fn shown(&self, target: &Target<'_>) -> Step<Option<Shown>> {
        let shown = self.rows().shown(target.table, target.id.as_str())?;
        Ok(shown.map(|shown| Shown {
            number: shown.number,
            valid: shown.valid,
            sys_from: shown.sys_from,
        }))
    }

    fn schedule(&self, stale: &Stale, at: Option<Timestamp>) -> Step<()> {
        let id = stale.id.as_str();
        let change = RowChange::Schedule { id, at };
        Ok(self.rows().change(&stale.table, change)?)
    }

    /// The second pass; why the row cannot be shown, if it cannot. Within a batch it is shown
    /// without the values that another row has in unique indexes, for the time being.
    fn show(&mut self, showing: &mut Showing, batch: Option<Mark>) -> Step<Option<Refusal>> {
        let image = self.image_of(showing)?;
        if !self.try_show(showing, &image, &image.values)? {
            let Stale { table, id, seq } = &showing.stale;
            let target = Target::new(table, id);
            let parts = (&image, showing.valid);
            if batch.is_none() {
                return self.unique_refusal(&target, *seq, parts).map(Some);
            }
            let (parked, values) = self.parked(&target, *seq, parts)?;
            if !self.try_show(showing, &image, &values)? {
                return self.unique_refusal(&target, *seq, parts).map(Some);
            }
            self.parked.park(table.number, *seq, parked);
        }
        let before = showing.before.take();
        let stale = &showing.stale;
        if showing.asserted.damaged.is_any() {
            let why = "an encrypted value of it is damaged";
            tracing::error!(table = %stale.table.id, row = %stale.id, why, "a row cannot be read");
            self.touched.drop_images();
        }
        self.touched
            .record(&stale.table, &stale.id, stale.seq, before, Some(image));
        Ok(None)
    }

    /// Whether no unique index was against it.
    fn try_show(&self, showing: &Showing, image: &Image, values: &[Value]) -> Step<bool> {
        let Showing {
            stale,
            version,
            origin,
            asserted,
            ..
        } = showing;
        let body = self.body(&stale.table, &image.values);
        let row = RowToShow {
            seq: stale.seq,
            version: *version,
            image,
            values,
            stored: None,
            left: &asserted.damaged,
            body: body.as_deref(),
            how: NowWrite::Derived { origin: *origin },
        };
        Ok(self.rows().show(&stale.table, stale.id.as_str(), &row)?)
    }

    fn image_of(&self, showing: &Showing) -> Step<Image> {
        let Showing {
            stale,
            valid,
            sys_from,
            asserted,
            before,
            ..
        } = showing;
        Ok(Image {
            created: asserted.created,
            updated: asserted.updated,
            valid: *valid,
            system_from: *sys_from,
            permissions: match before {
                Some(before) => before.permissions.clone(),
                None => self.permissions_of(&stale.table, stale.seq)?.into(),
            },
            values: asserted.values.clone(),
        })
    }

    /// Rows of now that have a unique value of the one to be shown, and are due themselves.
    fn due_in_the_way(&mut self, showing: &Showing, instant: Timestamp) -> Step<Vec<Stale>> {
        let stale = &showing.stale;
        let target = Target::new(&stale.table, &stale.id);
        let image = self.image_of(showing)?;
        let unique = |index: &&Index| index.kind == IndexKind::Unique && index.is_available();
        let mut found: Vec<Stale> = Vec::new();
        for index in stale.table.indexes.iter().filter(unique) {
            let values = values_in(&target, index, stale.seq, &image);
            let due = HoldersWanted::DueBy {
                instant,
                but: stale.seq,
            };
            let held = self
                .rows()
                .value_holders(&stale.table, index, &values, due)?;
            for holder in held {
                if found.iter().all(|known| known.seq != holder.seq) {
                    found.push(Stale {
                        table: Arc::clone(&stale.table),
                        id: holder.id,
                        seq: holder.seq,
                    });
                }
            }
        }
        Ok(found)
    }

    /// A row that becomes due was checked when it was written. Should it not fit all the same,
    /// no request caused it, so no caller can be answered: the log says it, and all others go on.
    /// Its versions stay, and whatever writes the row next shows it or is refused.
    fn leave_out(&mut self, showing: Showing, refusal: &Refusal) {
        let Showing { stale, before, .. } = showing;
        let why = format!("{refusal:?}");
        report(&stale.table, &stale.id, &why);
        if before.is_some() {
            self.touched
                .record(&stale.table, &stale.id, stale.seq, before, None);
        }
    }

    /// The row's open grants as they are shown.
    pub(crate) fn permissions_of(&self, table: &Table, seq: i64) -> Step<String> {
        let mut entries = Vec::new();
        self.rows().open_grants(table, seq, &mut |role, actions| {
            entries.push((role.to_owned(), actions));
        })?;
        Ok(granted_text(&entries))
    }

    /// Whether the row will be there, or not, by itself at some later instant.
    pub(crate) fn is_scheduled(&self, target: &Target<'_>) -> Step<bool> {
        if !self.state.boundaries.contains_key(&target.table.number) {
            return Ok(false);
        }
        let (table, id) = (target.table, target.id.as_str());
        Ok(self.rows().is_scheduled(table, id)?)
    }

    /// Takes in when the table changes next.
    pub(crate) fn take_in_boundary(&mut self, table: TableNumber) -> Step<()> {
        let next = self.rows().next_boundary(table)?;
        if next.as_ref() != self.state.boundaries.get(&table) {
            let boundaries = Arc::make_mut(&mut self.state.boundaries);
            match next {
                Some(at) => boundaries.insert(table, at),
                None => boundaries.remove(&table),
            };
        }
        Ok(())
    }

    /// Rows of which a boundary lies at or before `instant`.
    pub(crate) fn due_rows(
        &self,
        table: &Arc<Table>,
        instant: Timestamp,
        which: DueWanted<'_>,
    ) -> Step<Vec<Stale>> {
        let mut found = Vec::new();
        for due in self.rows().due_rows(table, instant, which)? {
            let id = due.id;
            let Some(seq) = due.seq else {
                report(table, &id, "it waits without a version");
                let id = id.as_str();
                let change = RowChange::Schedule { id, at: None };
                self.rows().change(table, change)?;
                continue;
            };
            let table = Arc::clone(table);
            found.push(Stale { table, id, seq });
        }
        Ok(found)
    }
}

/// Tells the operator of a row that is due and cannot be shown.
fn report(table: &Table, id: &RowId, why: &str) {
    tracing::error!(table = %table.id, row = %id, why, "a row is due and cannot be shown");
}
