//! A store as entries, read on one snapshot, beside a server that runs or without one.

use std::collections::BTreeMap;
use std::io;

use model::{Mark, Table, Value};
use query::names;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, params};
use serde_json::Value as Json;

use super::fault::{HistoryCount, HistoryFault, HistoryMembers};
use super::fields::member;
use super::parts::{GRANT, HistoryPart, PARTS, SHOWN, STORE, STORE_FIELDS, VERSION};
use crate::StoreError;
use crate::error::corrupt;
use crate::json_value::json;
use crate::laws::permissions::granted_text;
use crate::sqlite::disk::keys::vault_of;
use crate::sqlite::inspect::Inspection;
use crate::sqlite::schema::catalogue_read;
use crate::sqlite::schema::coding::open_value;
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::migrate::FORMAT;
use crate::sqlite::schema::tables::END;
use crate::vault::Vault;

/// Takes the entries, one after the other.
pub type HistoryOutput<'a> = dyn FnMut(&'static str, HistoryMembers) -> io::Result<()> + 'a;

impl Inspection {
    /// Gives everything that the store knew at any mark to `output`: the catalogue, the records of
    /// commits, then what each table holds. It is read on one snapshot, an entry at a time; the log
    /// of a server that runs does not shrink meanwhile.
    ///
    /// # Errors
    /// [`HistoryFault::OlderFormat`]; [`StoreError::SealBroken`] at an encrypted value that is
    /// damaged; what the database or `output` says.
    pub fn export_history(
        &self,
        output: &mut HistoryOutput<'_>,
    ) -> Result<HistoryCount, HistoryFault> {
        if self.formats()?.0 != FORMAT {
            return Err(HistoryFault::OlderFormat);
        }
        self.holds_all()?;
        let (directory, connection) = self.place();
        let snapshot = connection.unchecked_transaction()?;
        let mut leaving = HistoryReader {
            connection: &snapshot,
            vault: vault_of(directory, &snapshot)?,
            output,
            count: HistoryCount::NONE,
        };
        leaving.store()?;
        for part in &PARTS {
            let rows = leaving.rows_of(part, part.table, None)?;
            if part.name == "commit" {
                leaving.count.commits = rows;
            }
        }
        let catalogue = catalogue_read::load_without_rows(&snapshot)?;
        // By their numbers, so that one store gives one file.
        let tables = catalogue.tables();
        let tables: BTreeMap<i64, _> = tables.map(|table| (table.number.0, table)).collect();
        for table in tables.values() {
            leaving.table(table)?;
        }
        Ok(leaving.count)
    }
}

struct HistoryReader<'c, 'o> {
    connection: &'c Connection,
    vault: Vault,
    output: &'c mut HistoryOutput<'o>,
    count: HistoryCount,
}

impl HistoryReader<'_, '_> {
    fn put(&mut self, part: &'static str, members: HistoryMembers) -> Result<(), HistoryFault> {
        (self.output)(part, members).map_err(HistoryFault::Output)
    }

    fn store(&mut self) -> Result<(), HistoryFault> {
        let columns = STORE_FIELDS.map(|(_, column)| column).join(", ");
        let mut members = HistoryMembers::new();
        let sql = format!("SELECT {columns} FROM meta");
        self.connection.query_row(&sql, (), |row| {
            for (nth, (name, _)) in STORE_FIELDS.into_iter().enumerate() {
                members.insert(name.to_owned(), row.get::<_, i64>(nth)?.into());
            }
            Ok(())
        })?;
        let mark = members.get("mark").and_then(Json::as_i64);
        self.count.mark = mark.map_or(Mark::ZERO, Mark);
        self.put(STORE, members)
    }

    fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, StoreError> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// The rows of a part, which stand in `physical`; of the table of this number, if it is one.
    fn rows_of(
        &mut self,
        part: &HistoryPart,
        physical: &str,
        table: Option<i64>,
    ) -> Result<u64, HistoryFault> {
        let sql = format!(
            "SELECT {} FROM {physical} ORDER BY {}",
            part.columns(),
            part.order
        );
        let connection = self.connection;
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let mut members = self.members(part, row)?;
            members.extend(table.map(|number| ("table".to_owned(), number.into())));
            self.put(part.name, members)?;
            count += 1;
        }
        Ok(count)
    }

    fn members(&self, part: &HistoryPart, row: &Row<'_>) -> Result<HistoryMembers, HistoryFault> {
        let mut members = HistoryMembers::new();
        // Of a commit, to whose mark its note is bound.
        let mark = match row.get_ref(0)? {
            ValueRef::Integer(mark) => mark,
            _ => 0,
        };
        for (nth, field) in part.fields.iter().enumerate() {
            let member = member(field.shape, row.get_ref(nth)?, (&self.vault, mark))?;
            members.extend(member.map(|member| (field.name.to_owned(), member)));
        }
        Ok(members)
    }

    fn table(&mut self, table: &Table) -> Result<(), HistoryFault> {
        let number = table.number;
        let ever = Table {
            columns: catalogue_read::columns_ever(self.connection, number)?,
            ..table.clone()
        };
        self.rows_of(&GRANT, &names::grants(number), Some(number.0))?;
        let sql = format!(
            "SELECT {}{} FROM {} ORDER BY rid",
            VERSION.columns(),
            column_list(&ever),
            names::versions(number)
        );
        let connection = self.connection;
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let mut members = self.members(&VERSION, row)?;
            members.insert("table".to_owned(), number.0.into());
            members.insert("values".to_owned(), self.values(&ever, row)?);
            self.put(VERSION.name, members)?;
            self.count.versions += 1;
        }
        self.count.tables += 1;
        self.shown(table)
    }

    /// The values of a version, by the numbers of their columns, without those that are null.
    fn values(&self, ever: &Table, row: &Row<'_>) -> Result<Json, HistoryFault> {
        let id: String = row.get(0)?;
        let mut values = HistoryMembers::new();
        for (nth, column) in ever.columns.iter().enumerate() {
            let stored = row.get_ref(VERSION.fields.len() + nth)?;
            let value = open_value(&self.vault, stored, (ever.number, column, &id))?;
            if value != Value::Null {
                values.insert(column.number.0.to_string(), json(&value));
            }
        }
        Ok(values.into())
    }

    /// What rows of now show and neither their versions nor their grants tell.
    fn shown(&mut self, table: &Table) -> Result<(), HistoryFault> {
        let number = table.number;
        let sql = format!(
            "SELECT n.id, n.seq, n.perms, n.updated, v.updated FROM {} AS n \
             JOIN {} AS v ON v.rid = n.rid ORDER BY n.seq",
            names::now(number),
            names::versions(number)
        );
        let connection = self.connection;
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let grants = format!(
            "SELECT role, actions FROM {} WHERE seq = ?1 AND st = {END} ORDER BY rowid",
            names::grants(number)
        );
        while let Some(row) = rows.next()? {
            let shown: String = row.get(2)?;
            let (updated, asserted): (i64, i64) = (row.get(3)?, row.get(4)?);
            let granted: Vec<(String, i64)> = self
                .statement(&grants)?
                .query_map(params![row.get::<_, i64>(1)?], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect::<Result<_, _>>()?;
            if granted_text(&granted) == shown && updated == asserted {
                continue;
            }
            let shown: Json =
                serde_json::from_str(&shown).map_err(|error| corrupt(error.to_string()))?;
            let members = [
                ("table", number.0.into()),
                ("id", row.get::<_, String>(0)?.into()),
                ("permissions", shown),
                ("updatedAt", updated.into()),
            ];
            let members = members.map(|(name, member)| (name.to_owned(), member));
            self.put(SHOWN, members.into_iter().collect())?;
        }
        Ok(())
    }
}
