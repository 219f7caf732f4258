//! The rows of a working set, as the laws of writing read them and change them.

use std::sync::Arc;

use model::history::VersionNumber;
use model::{Image, Index, IndexKind, Mark, RowId, Table, TableNumber, Timestamp, Value, Version};

use super::bulk_rows::BulkRows;
use super::growth::VERSION_BYTES;
use super::halt::Step;
use super::held_row::{HeldGrant, HeldNow, HeldRow, HeldVersion, WrittenBody};
use super::held_table::{FirstDue, HeldKey, HeldTable, link_key, unique_key, unique_keys};
use super::ledger::{
    AppendedVersion, CurrentRow, GrantsChange, NowWrite, RowAmends, RowChange, RowIdentity,
    RowLedger, RowToShow, ShownVersion, SingleRows, StoredRows, VersionEnding, VersionToAppend,
};
use super::row_search::{HoldersWanted, LinkHolders};
use super::versions::{Asserted, Stored, VersionsRead, VersionsWanted};
use super::working_set::WorkingSet;
use crate::StoreError;

impl<B: BulkRows> SingleRows for WorkingSet<B> {
    fn versions(&self, table: &Table, id: &str, which: VersionsWanted) -> Step<Vec<Stored>> {
        let is_read_again = self.held().is_read_again;
        let read = |found: &mut dyn Iterator<Item = &HeldVersion>| -> Step<Vec<Stored>> {
            let mut read = VersionsRead::new(which);
            for held in found {
                read.add(held.version.clone())?;
            }
            Ok(read.all())
        };
        let held = self.ask(table, id, |row| match which {
            VersionsWanted::Known {
                low,
                high,
                count_max,
            } => {
                let known = row.known((low, high), count_max)?;
                Some(read(&mut known.into_iter()))
            }
            VersionsWanted::WrittenAt(_) if is_read_again && row.held_from.is_some() => None,
            VersionsWanted::WrittenAt(mark) => Some(read(&mut row.written_at(mark))),
            VersionsWanted::Numbered(number) => {
                let held = row.numbered(number)?;
                Some(read(&mut std::iter::once(held)))
            }
        })?;
        if let Some(found) = held {
            return found;
        }
        let found = self.behind()?.versions(table, id, which)?;
        self.held().of(table).add_versions(id, &found);
        Ok(found)
    }

    fn open_grants(
        &self,
        table: &Table,
        seq: i64,
        each: &mut dyn FnMut(&str, i64),
    ) -> Result<(), StoreError> {
        let held = self.held();
        let of_table = held.find(table.number);
        if let Some(row) = of_table.and_then(|of_table| of_table.row_of(seq)) {
            let open = row.grants.iter().filter(|grant| grant.until.is_none());
            open.for_each(|grant| each(&grant.role, grant.actions));
            return Ok(());
        }
        drop(held);
        self.behind()?.open_grants(table, seq, each)
    }

    fn next_boundary(&self, table: TableNumber) -> Result<Option<Timestamp>, StoreError> {
        let first = self.held().find(table).map(HeldTable::first_due);
        match first.unwrap_or_default() {
            FirstDue::Known(first) => Ok(first),
            FirstDue::Unknown => self.behind()?.next_boundary(table),
        }
    }
}

impl<B: BulkRows> StoredRows for WorkingSet<B> {
    fn current(&self, table: &Table, id: &str) -> Result<Option<CurrentRow>, StoreError> {
        self.ask(table, id, |row| {
            row.now.as_ref().map(|now| CurrentRow {
                seq: now.seq,
                version: now.version,
                image: Image::clone(&now.image),
                damaged: now.damaged.clone(),
            })
        })
    }

    fn shown(&self, table: &Table, id: &str) -> Result<Option<ShownVersion>, StoreError> {
        self.ask(table, id, |row| {
            row.now.as_ref().map(|now| ShownVersion {
                number: now.version,
                valid: now.image.valid,
                sys_from: now.image.system_from,
                updated: now.image.updated,
                is_twin: now.is_twin,
            })
        })
    }

    fn identity(&self, table: &Table, id: &str) -> Result<RowIdentity, StoreError> {
        self.hold(table, id)?;
        let highest = |rows: &Self| {
            let held = rows.held();
            held.find(table.number).and_then(HeldTable::highest_seq)
        };
        if highest(self).is_none() {
            self.count_again(table)?;
        }
        let highest = highest(self).unwrap_or_default();
        self.ask(table, id, |row| RowIdentity {
            is_there: row.now.is_some(),
            known: row.known_seq(),
            highest,
        })
    }

    fn known_seq(&self, table: &Table, id: &str) -> Result<Option<i64>, StoreError> {
        self.ask(table, id, HeldRow::known_seq)
    }

    fn is_scheduled(&self, table: &Table, id: &str) -> Result<bool, StoreError> {
        self.ask(table, id, |row| row.due.is_some())
    }
}

impl<B: BulkRows> RowAmends for WorkingSet<B> {
    fn end(
        &self,
        table: &Table,
        version: VersionNumber,
        mark: Mark,
        ending: VersionEnding,
    ) -> Result<Option<i64>, StoreError> {
        let mut held = self.held();
        let of_table = held.of(table);
        if let Some(id) = of_table.id_of_version(version.0) {
            return of_table.edit(&id, |row| row.end(version, mark, ending));
        }
        drop(held);
        self.directly()?.end(table, version, mark, ending)
    }

    fn fill(&self, table: &Table, seq: i64, values: &[(usize, Value)]) -> Result<bool, StoreError> {
        let row = self.held().find(table.number).and_then(|held| {
            let now = held.row_of(seq)?.now.clone()?;
            // One that this group did not write was read without its body.
            let body = now.body.as_ref()?;
            let body = Arc::new(WrittenBody {
                body: body.body.clone(),
                schema_epoch: body.schema_epoch,
            });
            Some(HeldNow {
                body: Some(body),
                ..now
            })
        });
        let Some(mut now) = row else {
            return self.directly()?.fill(table, seq, values);
        };
        let image = Arc::make_mut(&mut now.image);
        for (position, value) in values {
            image.values[*position] = value.clone();
        }
        if !self.is_free(table, &now)? {
            return Ok(false);
        }
        let id = now.id.clone();
        let mut held = self.held();
        held.expected.written(table, id.as_str(), &now.image.values);
        held.known(table)?
            .edit(id.as_str(), |row| row.now = Some(now))?;
        Ok(true)
    }

    fn change(&self, table: &Table, change: RowChange<'_>) -> Result<(), StoreError> {
        let id: Option<Box<str>> = match change {
            RowChange::PartRow(id) | RowChange::Schedule { id, .. } => {
                self.hold(table, id)?;
                Some(id.into())
            }
            RowChange::PartVersion(number) => {
                let held = self.held();
                let of_table = held.find(table.number);
                of_table.and_then(|of_table| of_table.id_of_version(number.0))
            }
            RowChange::Permissions { seq, .. }
            | RowChange::Withdraw { seq }
            | RowChange::Grant { seq, .. }
            | RowChange::Grants { seq, .. } => {
                let held = self.held();
                let of_table = held.find(table.number);
                of_table.and_then(|of_table| of_table.id_of(seq).map(Box::from))
            }
        };
        let Some(id) = id else {
            return self.directly()?.change(table, change);
        };
        let mut held = self.held();
        let of_table = held.known(table)?;
        let adds_grant = matches!(
            change,
            RowChange::Grant { .. }
                | RowChange::Grants {
                    change: GrantsChange::EndLife,
                    ..
                }
        );
        let counts = of_table.counts.get_or_insert_default();
        counts.highest_grant += i64::from(adds_grant);
        let number = counts.highest_grant;
        of_table.edit(&id, |row| change_row(row, change, number))
    }

    fn erase(
        &self,
        table: &Table,
        (id, seq): (&RowId, Option<i64>),
        mark: Mark,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError> {
        let erased = self.behind_to_change()?.erase(table, (id, seq), mark)?;
        self.held().of(table).forget(id.as_str());
        Ok(erased)
    }
}

impl<B: BulkRows> RowLedger for WorkingSet<B> {
    fn append(
        &self,
        table: &Table,
        id: &str,
        version: &VersionToAppend<'_>,
    ) -> Result<AppendedVersion, StoreError> {
        self.hold(table, id)?;
        let bytes = self.behind.value_bytes(table, version.values, version.left);
        let mut held = self.held();
        held.expected.written(table, id, version.values);
        let of_table = held.known(table)?;
        let counts = of_table.counts.get_or_insert_default();
        counts.highest_version += 1;
        let number = VersionNumber(counts.highest_version);
        let appended = HeldVersion {
            version: Version {
                number,
                valid: version.valid,
                sys_from: version.mark,
                cut: None,
                gone: None,
                origin: version.origin,
                value: Arc::new(Asserted {
                    created: version.created,
                    updated: version.updated,
                    values: version.values.to_vec(),
                    damaged: version.left.clone(),
                }),
            },
            is_twin: version.is_twin,
            bytes: VERSION_BYTES + bytes as i64,
        };
        of_table.edit(id, |row| {
            row.seq = Some(version.seq);
            row.versions.push(appended);
        })?;
        Ok(AppendedVersion { number, bytes })
    }

    fn show(&self, table: &Table, id: &str, row: &RowToShow<'_>) -> Result<bool, StoreError> {
        self.hold(table, id)?;
        let (origin, is_twin) = match row.how {
            NowWrite::New | NowWrite::Again => (row.image.system_from, true),
            NowWrite::Derived { origin } => (origin, false),
        };
        let now = HeldNow {
            id: RowId::new(id).map_err(|error| crate::error::corrupt(error.to_string()))?,
            seq: row.seq,
            version: row.version,
            image: Arc::new(Image {
                values: row.values.to_vec(),
                permissions: row.image.permissions.clone(),
                ..*row.image
            }),
            damaged: row.left.clone(),
            origin,
            is_twin,
            body: Some(Arc::new(WrittenBody {
                body: row.body.map(Box::from),
                schema_epoch: table.schema_epoch,
            })),
        };
        if !self.is_free(table, &now)? {
            return Ok(false);
        }
        let mut held = self.held();
        held.expected.written(table, id, row.values);
        held.known(table)?.edit(id, |held| {
            held.seq = Some(now.seq);
            held.now = Some(now);
        })?;
        Ok(true)
    }
}

/// `number` is that of a grant that is added.
fn change_row(row: &mut HeldRow, change: RowChange<'_>, number: i64) {
    match change {
        RowChange::Permissions {
            permissions,
            updated,
            ..
        } => {
            if let Some(now) = &mut row.now {
                let image = Arc::make_mut(&mut now.image);
                image.permissions = permissions.into();
                image.updated = updated;
                now.is_twin = false;
            }
        }
        RowChange::PartVersion(number) => {
            let mut versions = row.versions.iter_mut();
            if let Some(held) = versions.find(|held| held.version.number == number) {
                held.is_twin = false;
            }
        }
        RowChange::PartRow(_) => {
            if let Some(now) = &mut row.now {
                now.is_twin = false;
            }
        }
        RowChange::Withdraw { .. } => row.now = None,
        RowChange::Grant {
            role,
            actions,
            mark,
            ..
        } => row.grants.push(HeldGrant {
            number,
            role: role.into(),
            actions,
            from: mark,
            until: None,
        }),
        RowChange::Grants { mark, change, .. } => row.change_grants(mark, change, number),
        RowChange::Schedule { at, .. } => row.due = at,
    }
}

impl<B: BulkRows> WorkingSet<B> {
    /// Whether no other row of now has what this one is to have in a unique index.
    fn is_free(&self, table: &Table, now: &HeldNow) -> Result<bool, StoreError> {
        for key in unique_keys(table, now) {
            let is_probed = |held: &HeldTable| held.is_probed(&key);
            if !self.held().find(table.number).is_some_and(is_probed) {
                self.ask_for_holder(table, &key, now)?;
            }
            let held = self.held();
            let holder = held.find(table.number).and_then(|held| held.holder(&key));
            if holder.is_some_and(|holder| holder.seq != now.seq) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Holds the row that has the same value as this one by a key, if the database has one.
    fn ask_for_holder(
        &self,
        table: &Table,
        key: &HeldKey,
        now: &HeldNow,
    ) -> Result<(), StoreError> {
        let index = table.indexes.iter().find(|index| index.number == key.0);
        if let Some(index) = index {
            let target = super::row_write::Target::new(table, &now.id);
            let values = super::parked::values_in(&target, index, now.seq, &now.image);
            return self.holder_of(table, index, &values).map(drop);
        }
        let is_it = |column: &&model::Column| u32::MAX - column.number.0 == key.0;
        let column = table.columns.iter().find(is_it);
        let Some(position) = column.and_then(|column| table.numbered(column.number)) else {
            return Ok(());
        };
        let link = &now.image.values[position];
        self.holder_of_link(table, position, link).map(drop)
    }

    /// The row of now that has these values in a unique index, none of them null: its
    /// `$sequence` and its id.
    pub(super) fn holder_of(
        &self,
        table: &Table,
        index: &Index,
        values: &[Value],
    ) -> Result<Option<HeldNow>, StoreError> {
        let Some(key) = unique_key(index, values) else {
            return Ok(None);
        };
        debug_assert!(index.kind == IndexKind::Unique, "others have many holders");
        self.holder_by(table, key, |behind| {
            let any = HoldersWanted::Any { but: i64::MIN };
            let found = behind.value_holders(table, index, values, any)?;
            Ok(found.into_iter().next().map(|holder| holder.id))
        })
    }

    /// The row of now that has the one link in the column at this position.
    pub(super) fn holder_of_link(
        &self,
        table: &Table,
        position: usize,
        link: &Value,
    ) -> Result<Option<HeldNow>, StoreError> {
        let Some(key) = link_key(table.columns[position].number.0, link) else {
            return Ok(None);
        };
        let Value::Text(target) = link else {
            return Ok(None);
        };
        self.holder_by(table, key, |behind| {
            let one = LinkHolders::Now { count_max: 1 };
            let found = behind.link_holders(table, position, target, one)?;
            Ok(found.into_iter().next())
        })
    }

    /// The database is asked once, without what is unsent: a row that it names and that is held
    /// says itself what it has now.
    fn holder_by(
        &self,
        table: &Table,
        key: HeldKey,
        ask: impl FnOnce(&B) -> Result<Option<RowId>, StoreError>,
    ) -> Result<Option<HeldNow>, StoreError> {
        let is_probed = |held: &HeldTable| held.is_probed(&key);
        if !self.held().find(table.number).is_some_and(is_probed) {
            if let Some(id) = ask(&self.behind)? {
                self.hold(table, id.as_str())?;
            }
            self.held().of(table).add_probed(key.clone());
        }
        let held = self.held();
        let holder = held.find(table.number).and_then(|held| held.holder(&key));
        Ok(holder.cloned())
    }
}
