//! Rows in bulk from SQLite, one by one: what stands behind a working set in these tests.

use std::sync::Arc;

use model::history::VersionNumber;
use model::{Mark, RowId, Table, Timestamp, Value};
use query::names;
use rusqlite::{OptionalExtension as _, params};

use crate::StoreError;
use crate::json_value::json_text;
use crate::laws::bulk_rows::{BulkRows, RowsRead, RowsWanted, TableCounts};
use crate::laws::damaged::Damaged;
use crate::laws::growth::NUMBER_BYTES;
use crate::laws::halt::{Halt, Step};
use crate::laws::held_row::{HeldGrant, HeldNow, HeldRow, HeldVersion};
use crate::laws::ledger::{
    NowWrite, RowAmends as _, RowLedger as _, RowToShow, SingleRows as _, StoredRows as _,
};
use crate::laws::row_search::{HoldersWanted, LinkHolders, MarkOf, RowSearch as _};
use crate::laws::unsent::{AddedVersionOf, UnsentTable};
use crate::laws::versions::{Stored, VersionsWanted};
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::sizes;
use crate::sqlite::write::stored_rows::SqliteRows;

/// So many of the versions known now are held of a row, the last ones.
const HELD_MAX: usize = 2;

impl BulkRows for SqliteRows<'_> {
    fn read(&self, wanted: &[RowsWanted<'_>]) -> Result<Vec<RowsRead>, StoreError> {
        let read = wanted.iter().map(|wanted| {
            let mut ids: Vec<String> = wanted.ids.iter().map(|id| (*id).to_owned()).collect();
            for (index, values) in &wanted.holders {
                let any = HoldersWanted::Any { but: i64::MIN };
                let found = self.value_holders(wanted.table, index, values, any)?;
                ids.extend(found.into_iter().map(|holder| holder.id.to_string()));
            }
            let rows = ids.into_iter().map(|id| {
                let row = self.held(wanted, &id)?;
                Ok((id.into_boxed_str(), row))
            });
            Ok(RowsRead {
                rows: rows.collect::<Result<_, StoreError>>()?,
                counts: self.counts(wanted.table)?,
            })
        });
        read.collect()
    }

    fn send(&self, unsent: &[UnsentTable]) -> Result<(), StoreError> {
        unsent.iter().try_for_each(|table| {
            self.send_versions(table)?;
            self.send_rows(table)?;
            self.send_grants(table)
        })
    }

    fn save(&self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("SAVEPOINT part")?)
    }

    fn settle(&self, keeps: bool) -> Result<(), StoreError> {
        let sql = if keeps {
            "RELEASE part"
        } else {
            "ROLLBACK TO part; RELEASE part"
        };
        Ok(self.connection.execute_batch(sql)?)
    }

    fn link_holders_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (each_max, all_max): (usize, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError> {
        let mut found = Vec::new();
        for id in ids {
            let count_max = each_max.min(all_max - found.len());
            let now = LinkHolders::Now { count_max };
            let holders = self.link_holders(table, column, id, now)?.into_iter();
            found.extend(holders.map(|holder| ((*id).to_owned(), holder)));
        }
        Ok(found)
    }

    fn holders_to_come_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (after, all_max): (Mark, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError> {
        let mut found = Vec::new();
        for id in ids {
            let count_max = all_max - found.len();
            let to_come = LinkHolders::ToCome { after, count_max };
            let holders = self.link_holders(table, column, id, to_come)?.into_iter();
            found.extend(holders.map(|holder| ((*id).to_owned(), holder)));
        }
        Ok(found)
    }

    fn value_bytes(&self, _: &Table, values: &[Value], _: &Damaged) -> usize {
        let bytes = values.iter().map(|value| match value {
            Value::Null => 0,
            Value::Text(text) => text.len(),
            Value::List(_) => json_text(value).len(),
            _ => NUMBER_BYTES,
        });
        bytes.sum()
    }
}

impl SqliteRows<'_> {
    fn one(&self, sql: &str, id: &str) -> Result<Option<i64>, StoreError> {
        let mut statement = self.statement(sql)?;
        let found: Option<Option<i64>> = statement.query_row([id], |row| row.get(0)).optional()?;
        Ok(found.flatten())
    }

    fn counts(&self, table: &Table) -> Result<TableCounts, StoreError> {
        let number = table.number;
        let highest = |column: &str, of: String| {
            let sql = format!("SELECT coalesce(max({column}), 0) FROM {of} WHERE ?1 = ''");
            self.one(&sql, "").map(Option::unwrap_or_default)
        };
        let schedule = names::schedule(number);
        let sql = format!("SELECT at, id FROM {schedule} ORDER BY at LIMIT 1");
        let mut first = self.statement(&sql)?;
        let first = first.query_row((), |row| {
            Ok((Timestamp(row.get(0)?), row.get::<_, String>(1)?))
        });
        Ok(TableCounts {
            highest_seq: self.identity(table, "")?.highest,
            highest_version: highest("rid", names::versions(number))?,
            highest_grant: highest("rowid", names::grants(number))?,
            first_due: first
                .optional()?
                .map(|(at, id)| (at, RowId::new(&id).unwrap())),
        })
    }

    fn held(&self, wanted: &RowsWanted<'_>, id: &str) -> Result<HeldRow, StoreError> {
        let (table, since) = (wanted.table, wanted.since);
        let number = table.number;
        let (now, versions) = (names::now(number), names::versions(number));
        let found = self.current(table, id)?;
        let now = match found {
            None => None,
            Some(row) => Some(HeldNow {
                id: RowId::new(id).unwrap(),
                seq: row.seq,
                version: row.version,
                image: Arc::new(row.image),
                damaged: row.damaged,
                origin: Mark(
                    self.one(&format!("SELECT origin FROM {now} WHERE id = ?1"), id)?
                        .unwrap(),
                ),
                is_twin: self.one(&format!("SELECT twin FROM {now} WHERE id = ?1"), id)? == Some(1),
                body: None,
            }),
        };
        let known = VersionsWanted::Known {
            low: Timestamp::BOT,
            high: Timestamp::END,
            count_max: usize::MAX >> 1,
        };
        let mut known = unrefused(self.versions(table, id, known))?;
        let rest = known.len().saturating_sub(HELD_MAX);
        known.drain(..rest);
        let held_from = (rest > 0).then(|| known[0].valid.from());
        let shown = now.as_ref().map(|now| now.version);
        if let Some(shown) = shown.filter(|shown| known.iter().all(|one| one.number != *shown)) {
            let numbered = VersionsWanted::Numbered(shown);
            known.extend(unrefused(self.versions(table, id, numbered))?);
        }
        let count = known.len();
        let held = known
            .into_iter()
            .map(|version| self.held_version(table, version));
        let held: Vec<HeldVersion> = held.collect::<Result<_, _>>()?;
        let plain = held.iter().filter(|held| !held.is_twin).count();
        let all = format!("SELECT count(*) FROM {versions} WHERE id = ?1 AND twin = 0");
        let all = self.one(&all, id)?.unwrap_or_default() as usize;
        assert!(plain <= all && count <= HELD_MAX + 1);
        let seq = match &now {
            Some(now) => Some(now.seq),
            None => self.one(&format!("SELECT seq FROM {versions} WHERE id = ?1"), id)?,
        };
        let of_seq = |of: fn(i64) -> MarkOf<'static>| match seq {
            Some(seq) => self.last_mark(table, of(seq)),
            None => Ok(None),
        };
        let schedule = names::schedule(number);
        let due = self.one(&format!("SELECT at FROM {schedule} WHERE id = ?1"), id)?;
        Ok(HeldRow {
            seq,
            now,
            versions: held,
            held_from,
            has_others: all > plain,
            grants: match seq {
                Some(seq) => self.held_grants(table, seq, since)?,
                None => Vec::new(),
            },
            granted: of_seq(MarkOf::Grants)?,
            reborn: of_seq(MarkOf::Rebirth)?,
            changed: self.last_change(wanted, id)?,
            due: due.map(Timestamp),
        })
    }

    fn last_change(&self, wanted: &RowsWanted<'_>, id: &str) -> Result<Option<Mark>, StoreError> {
        let changed = || self.last_mark(wanted.table, MarkOf::Versions(id));
        let changed = wanted.asks_changes.then(changed).transpose()?;
        Ok(changed.map(|changed| changed.unwrap_or(Mark::ZERO)))
    }

    fn held_version(&self, table: &Table, version: Stored) -> Result<HeldVersion, StoreError> {
        let versions = names::versions(table.number);
        let bytes = sizes::of_all(self.connection, table.number)?;
        let sql = format!("SELECT twin, {bytes} FROM {versions} WHERE rid = ?1");
        let mut statement = self.statement(&sql)?;
        let (is_twin, bytes) =
            statement.query_row([version.number.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(HeldVersion {
            version,
            is_twin,
            bytes,
        })
    }

    fn held_grants(
        &self,
        table: &Table,
        seq: i64,
        since: Mark,
    ) -> Result<Vec<HeldGrant>, StoreError> {
        let sql = format!(
            "SELECT rowid, role, actions, sf, st FROM {} WHERE seq = ?1 AND st >= ?2 \
             ORDER BY rowid",
            names::grants(table.number)
        );
        let mut statement = self.statement(&sql)?;
        let found = statement.query_map(params![seq, since.0], |row| {
            let until: i64 = row.get(4)?;
            Ok(HeldGrant {
                number: row.get(0)?,
                role: row.get::<_, String>(1)?.into(),
                actions: row.get(2)?,
                from: Mark(row.get(3)?),
                until: (until < i64::MAX).then_some(Mark(until)),
            })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn do_all(&self, sql: &str, all: &[&dyn rusqlite::ToSql]) -> Result<(), StoreError> {
        let done = self.statement(sql)?.execute(all)?;
        assert_eq!(done, 1, "what is sent is there: {sql}");
        Ok(())
    }

    fn send_versions(&self, unsent: &UnsentTable) -> Result<(), StoreError> {
        let versions = names::versions(unsent.table.number);
        for VersionNumber(rid) in &unsent.versions_removed {
            let sql = format!("DELETE FROM {versions} WHERE rid = ?1");
            self.do_all(&sql, params![rid])?;
        }
        for change in &unsent.versions_changed {
            let sql = format!(
                "UPDATE {versions} SET cut_tt = ?2, cut_vt = ?3, st = ?4, twin = ?5 WHERE rid = ?1"
            );
            let cut = change.cut.map(|cut| (cut.mark.0, cut.valid_to.0));
            let (cut_at, valid_to) = cut.unwrap_or((i64::MAX, i64::MAX));
            let st = change.gone.map_or(i64::MAX, |mark| mark.0);
            let all = params![change.number.0, cut_at, valid_to, st, change.is_twin];
            self.do_all(&sql, all)?;
        }
        let added = unsent.versions_added.iter();
        added
            .clone()
            .try_for_each(|added| self.add_version(&unsent.table, added))
    }

    fn add_version(&self, table: &Table, added: &AddedVersionOf) -> Result<(), StoreError> {
        const FIXED: usize = 13;
        let version = &added.held.version;
        let sql = format!(
            "INSERT INTO {} (rid, id, vf, vt, sf, cut_tt, cut_vt, st, origin, seq, created, \
             updated, twin{}) VALUES (?{})",
            names::versions(table.number),
            column_list(table),
            ", ?".repeat(FIXED - 1 + table.columns.len())
        );
        let cut = version.cut.map(|cut| (cut.mark.0, cut.valid_to.0));
        let (cut_at, valid_to) = cut.unwrap_or((i64::MAX, i64::MAX));
        let st = version.gone.map_or(i64::MAX, |mark| mark.0);
        let mut statement = self.statement(&sql)?;
        let numbers = [
            (1, version.number.0),
            (3, version.valid.from().0),
            (4, version.valid.end().0),
            (5, version.sys_from.0),
            (6, cut_at),
            (7, valid_to),
            (8, st),
            (9, version.origin.0),
            (10, added.seq),
            (11, version.value.created.0),
            (12, version.value.updated.0),
            (13, i64::from(added.held.is_twin)),
        ];
        for (at, number) in numbers {
            statement.raw_bind_parameter(at, number)?;
        }
        statement.raw_bind_parameter(2, added.id.as_str())?;
        let place = (table, added.id.as_str());
        let values = &version.value.values;
        self.coding.bind(&mut statement, FIXED + 1, place, values)?;
        statement.raw_execute()?;
        Ok(())
    }

    fn send_rows(&self, unsent: &UnsentTable) -> Result<(), StoreError> {
        let now = names::now(unsent.table.number);
        for seq in &unsent.rows_removed {
            self.do_all(&format!("DELETE FROM {now} WHERE seq = ?1"), params![seq])?;
        }
        for row in &unsent.rows_adjusted {
            let sql =
                format!("UPDATE {now} SET perms = ?2, updated = ?3, twin = ?4 WHERE seq = ?1");
            let (image, twin) = (&row.image, row.is_twin);
            let all = params![row.seq, &*image.permissions, image.updated.0, twin];
            self.do_all(&sql, all)?;
        }
        for row in &unsent.rows_changed {
            self.update_row(&unsent.table, row)?;
        }
        for row in &unsent.rows_added {
            let body = row.body.as_ref().expect("the group wrote it");
            let to_show = RowToShow {
                seq: row.seq,
                version: row.version,
                image: &row.image,
                values: &row.image.values,
                stored: None,
                left: &row.damaged,
                body: body.body.as_deref(),
                how: NowWrite::Derived { origin: row.origin },
            };
            let is_free = self.show(&unsent.table, row.id.as_str(), &to_show)?;
            assert!(is_free, "no two rows meet over a unique value");
            let sql = format!("UPDATE {now} SET twin = ?2, body_epoch = ?3 WHERE seq = ?1");
            let epoch = body.schema_epoch as i64;
            self.do_all(&sql, params![row.seq, row.is_twin, epoch])?;
        }
        for (id, at) in &unsent.schedule {
            let change = crate::laws::ledger::RowChange::Schedule {
                id: id.as_str(),
                at: *at,
            };
            self.change(&unsent.table, change)?;
        }
        Ok(())
    }

    /// In its place: no row may have, even for a while, a unique value of another one.
    fn update_row(&self, table: &Table, row: &HeldNow) -> Result<(), StoreError> {
        let (image, body) = (&row.image, row.body.as_ref().expect("the group wrote it"));
        let numbered = [
            "vf",
            "vt",
            "sf",
            "origin",
            "created",
            "updated",
            "rid",
            "twin",
            "body_epoch",
        ];
        let columns = table
            .columns
            .iter()
            .map(|column| names::column(column.number));
        let set: Vec<String> = numbered
            .into_iter()
            .chain(["perms", "body"])
            .map(str::to_owned)
            .chain(columns)
            .map(|name| format!("{name} = ?"))
            .collect();
        let (now, first) = (names::now(table.number), numbered.len() + 3);
        let sql = format!(
            "UPDATE {now} SET {} WHERE seq = {}",
            set.join(", "),
            row.seq
        );
        let mut statement = self.connection.prepare(&sql)?;
        let numbers = [
            image.valid.from().0,
            image.valid.end().0,
            image.system_from.0,
            row.origin.0,
            image.created.0,
            image.updated.0,
            row.version.0,
            i64::from(row.is_twin),
            body.schema_epoch as i64,
        ];
        for (at, number) in (1..).zip(numbers) {
            statement.raw_bind_parameter(at, number)?;
        }
        statement.raw_bind_parameter(first - 2, &*image.permissions)?;
        statement.raw_bind_parameter(first - 1, body.body.as_deref())?;
        let place = (table, row.id.as_str());
        self.coding
            .bind(&mut statement, first, place, &image.values)?;
        assert_eq!(statement.raw_execute()?, 1, "what is sent is there");
        Ok(())
    }

    fn send_grants(&self, unsent: &UnsentTable) -> Result<(), StoreError> {
        let grants = names::grants(unsent.table.number);
        for number in &unsent.grants_removed {
            let sql = format!("DELETE FROM {grants} WHERE rowid = ?1");
            self.do_all(&sql, params![number])?;
        }
        for (number, until) in &unsent.grants_changed {
            let sql = format!("UPDATE {grants} SET st = ?2 WHERE rowid = ?1");
            let until = until.map_or(i64::MAX, |mark| mark.0);
            self.do_all(&sql, params![number, until])?;
        }
        for (seq, grant) in &unsent.grants_added {
            let sql = format!(
                "INSERT INTO {grants} (rowid, seq, role, actions, sf, st) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
            );
            let until = grant.until.map_or(i64::MAX, |mark| mark.0);
            let (from, role) = (grant.from.0, &*grant.role);
            let all = params![grant.number, seq, role, grant.actions, from, until];
            self.do_all(&sql, all)?;
        }
        Ok(())
    }
}

fn unrefused<T>(step: Step<T>) -> Result<T, StoreError> {
    step.map_err(|halt| match halt {
        Halt::Failed(error) => error,
        Halt::Refused(refusal) => panic!("{refusal:?}"),
    })
}
