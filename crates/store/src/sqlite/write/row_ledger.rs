//! How SQLite writes rows: each call of the laws is one statement, done at once.

use model::history::{Ending, VersionNumber};
use model::{Field, Mark, RowId, Table, TableNumber, Value};
use query::names;
use rusqlite::{ToSql, params, params_from_iter};

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::ledger::{
    AppendedVersion, GrantsChange, NowWrite, RowAmends, RowChange, RowLedger, RowToShow,
    VersionEnding, VersionToAppend,
};
use crate::sqlite::disk::fault::is_unique_violation;
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::coding::bind_damaged;
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::row_sql::{NOW_PARAMETERS, PIECE_PARAMETERS, UnchangedColumns};
use crate::sqlite::schema::sizes;
use crate::sqlite::schema::tables::END;

impl RowAmends for SqliteRows<'_> {
    fn end(
        &self,
        table: &Table,
        version: VersionNumber,
        mark: Mark,
        ending: VersionEnding,
    ) -> Result<Option<i64>, StoreError> {
        let parameters = params![version.0, mark.0];
        let versions = names::versions(table.number);
        let cut = |sql: &str, parameters: &[&dyn ToSql]| -> Result<Option<i64>, StoreError> {
            let ended = self.statement(sql)?.execute(parameters)?;
            Ok((ended == 1).then_some(0))
        };
        match ending {
            VersionEnding::Now => cut(&self.texts.of(table).cut_piece, parameters),
            VersionEnding::Never => self.remove(&self.texts.of(table).drop_piece, parameters),
            VersionEnding::Planned(Ending::Remove) => {
                let sql = format!(
                    "DELETE FROM {versions} WHERE rid = ?1 AND sf = ?2 AND twin = 0{}",
                    sizes::returning(&sizes::of_schema(table))
                );
                self.remove(&sql, parameters)
            }
            VersionEnding::Planned(Ending::Cut(valid_to)) => {
                let sql = format!(
                    "UPDATE {versions} SET cut_tt = ?2, cut_vt = ?3 WHERE rid = ?1 AND twin = 0"
                );
                cut(&sql, params![version.0, mark.0, valid_to.0])
            }
            VersionEnding::Planned(Ending::Close) => {
                let sql = format!("UPDATE {versions} SET st = ?2 WHERE rid = ?1 AND twin = 0");
                cut(&sql, parameters)
            }
            VersionEnding::Planned(Ending::UncutAndClose) => {
                let sql = format!(
                    "UPDATE {versions} SET cut_tt = {END}, cut_vt = {END}, st = ?2 \
                     WHERE rid = ?1 AND twin = 0"
                );
                cut(&sql, parameters)
            }
        }
    }

    fn fill(&self, table: &Table, seq: i64, values: &[(usize, Value)]) -> Result<bool, StoreError> {
        let set = values.iter().zip(2..).map(|((position, _), number)| {
            let name = names::field(table, Field::Column(*position));
            format!("{name} = ?{number}")
        });
        let set: Vec<String> = set.collect();
        let now = names::now(table.number);
        let sql = format!("UPDATE {now} SET {} WHERE seq = ?1", set.join(", "));
        let seq = Value::Int(seq);
        let values = values.iter().map(|(_, value)| value);
        let bound = std::iter::once(&seq).chain(values).map(Bound);
        is_free(self.statement(&sql)?.execute(params_from_iter(bound)))
    }

    fn change(&self, table: &Table, change: RowChange<'_>) -> Result<(), StoreError> {
        let texts = self.texts.of(table);
        match change {
            RowChange::Permissions {
                seq,
                permissions,
                updated,
            } => self.execute(
                &texts.update_permissions,
                params![seq, permissions, updated.0],
            ),
            RowChange::PartVersion(number) => self.execute(&texts.part_piece, params![number.0]),
            RowChange::PartRow(id) => {
                let now = names::now(table.number);
                let sql = format!("UPDATE {now} SET twin = 0 WHERE id = ?1");
                self.execute(&sql, params![id])
            }
            RowChange::Withdraw { seq } => self.execute(&texts.delete_now, params![seq]),
            RowChange::Grant {
                seq,
                role,
                actions,
                mark,
            } => self.execute(&texts.add_grant, params![seq, role, actions, mark.0]),
            RowChange::Grants { seq, mark, change } => {
                let sql = match change {
                    GrantsChange::Close => &texts.close_grants,
                    GrantsChange::Drop => &texts.drop_grants,
                    GrantsChange::Reopen => &texts.reopen_grants,
                    GrantsChange::EndLife => &texts.end_life,
                    GrantsChange::ResumeLife => &texts.resume_life,
                };
                self.execute(sql, params![seq, mark.0])
            }
            RowChange::Schedule { id, at: Some(at) } => {
                let schedule = names::schedule(table.number);
                let sql = format!("INSERT OR REPLACE INTO {schedule} VALUES (?1, ?2)");
                self.execute(&sql, params![id, at.0])
            }
            RowChange::Schedule { id, at: None } => self.unschedule(table.number, id),
        }
    }

    fn erase(
        &self,
        table: &Table,
        row: (&RowId, Option<i64>),
        mark: Mark,
    ) -> Result<Vec<(VersionNumber, i64)>, StoreError> {
        self.erase_row(table, row, mark)
    }
}

impl RowLedger for SqliteRows<'_> {
    fn append(
        &self,
        table: &Table,
        id: &str,
        version: &VersionToAppend<'_>,
    ) -> Result<AppendedVersion, StoreError> {
        let (mut statement, first) = if version.is_twin {
            let statement = self.statement(&self.texts.of(table).append_piece)?;
            (statement, PIECE_PARAMETERS + 1)
        } else {
            let mut statement = self.statement(&append_without_twin(table))?;
            statement.raw_bind_parameter(6, version.valid.from().0)?;
            statement.raw_bind_parameter(7, version.valid.end().0)?;
            statement.raw_bind_parameter(8, version.origin.0)?;
            (statement, PIECE_PARAMETERS + 4)
        };
        statement.raw_bind_parameter(1, id)?;
        statement.raw_bind_parameter(2, version.mark.0)?;
        statement.raw_bind_parameter(3, version.seq)?;
        statement.raw_bind_parameter(4, version.created.0)?;
        statement.raw_bind_parameter(5, version.updated.0)?;
        let (place, values) = ((table, id), version.values);
        let bytes = self.coding.bind(&mut statement, first, place, values)?
            + bind_damaged(version.left, &mut statement, first)?;
        statement.raw_execute()?;
        Ok(AppendedVersion {
            number: VersionNumber(self.connection.last_insert_rowid()),
            bytes,
        })
    }

    fn show(&self, table: &Table, id: &str, row: &RowToShow<'_>) -> Result<bool, StoreError> {
        let texts = self.texts.of(table);
        let mut left_out = UnchangedColumns::NONE;
        let (mut statement, first) = match row.how {
            NowWrite::New => (self.statement(&texts.insert_now)?, NOW_PARAMETERS + 1),
            NowWrite::Again => {
                let may_lack = UnchangedColumns::of(table, row.stored, row.values);
                let (sql, lacks) = self.texts.update_now(table, may_lack);
                left_out = lacks;
                (self.statement(&sql)?, NOW_PARAMETERS + 1)
            }
            NowWrite::Derived { origin } => {
                let mut statement = self.statement(&show_derived(table))?;
                statement.raw_bind_parameter(10, row.image.valid.from().0)?;
                statement.raw_bind_parameter(11, row.image.valid.end().0)?;
                statement.raw_bind_parameter(12, origin.0)?;
                (statement, NOW_PARAMETERS + 4)
            }
        };
        statement.raw_bind_parameter(1, row.seq)?;
        statement.raw_bind_parameter(2, id)?;
        statement.raw_bind_parameter(3, row.image.system_from.0)?;
        statement.raw_bind_parameter(4, row.image.created.0)?;
        statement.raw_bind_parameter(5, row.image.updated.0)?;
        statement.raw_bind_parameter(6, &*row.image.permissions)?;
        statement.raw_bind_parameter(7, row.body)?;
        statement.raw_bind_parameter(8, table.schema_epoch as i64)?;
        statement.raw_bind_parameter(9, row.version.0)?;
        let place = (table, id);
        self.coding
            .bind_without(left_out, &mut statement, first, place, row.values)?;
        bind_damaged(row.left, &mut statement, first)?;
        is_free(statement.raw_execute())
    }
}

/// Whether no unique index was against a statement.
fn is_free(executed: rusqlite::Result<usize>) -> Result<bool, StoreError> {
    match executed {
        Err(error) if is_unique_violation(&error) => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}

impl SqliteRows<'_> {
    pub(super) fn execute(&self, sql: &str, parameters: &[&dyn ToSql]) -> Result<(), StoreError> {
        self.statement(sql)?.execute(parameters)?;
        Ok(())
    }

    /// Removes a version by a statement that ends with [`sizes::returning`].
    fn remove(&self, sql: &str, parameters: &[&dyn ToSql]) -> Result<Option<i64>, StoreError> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut bytes = None;
        while let Some(row) = rows.next()? {
            bytes = Some(row.get(1)?);
        }
        Ok(bytes)
    }

    /// The row changes by itself no more.
    pub(super) fn unschedule(&self, table: TableNumber, id: &str) -> Result<(), StoreError> {
        let schedule = names::schedule(table);
        let sql = format!("DELETE FROM {schedule} WHERE id = ?1");
        self.execute(&sql, params![id])
    }
}

/// The first parameters are those of `append_piece`; `?6` and `?7` from when to when it is valid,
/// `?8` since when its content is known.
fn append_without_twin(table: &Table) -> String {
    format!(
        "INSERT INTO {} (id, sf, seq, created, updated, vf, vt, origin, twin{}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0{})",
        names::versions(table.number),
        column_list(table),
        ", ?".repeat(table.columns.len())
    )
}

/// The first parameters are those of `insert_now`; `?10` and `?11` from when to when it is valid,
/// `?12` since when its content is known.
fn show_derived(table: &Table) -> String {
    format!(
        "INSERT INTO {} (seq, id, sf, created, updated, perms, body, body_epoch, rid, vf, vt, \
         origin, twin{}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0{})",
        names::now(table.number),
        column_list(table),
        ", ?".repeat(table.columns.len())
    )
}
