//! What a working set asks of PostgreSQL for many rows at once.

use model::{Mark, RowId, Table, Value};
use query::names;
use tokio_postgres::Row;

use super::bulk_send::calls_of;
use super::row_search::holds_link;
use super::rows::{END, PostgresRows, row_id};
use super::session::SqlCall;
use super::user_values::bytes_of_values;
use crate::StoreError;
use crate::laws::bulk_rows::{BulkRows, RowsRead, RowsWanted};
use crate::laws::damaged::Damaged;
use crate::laws::unsent::UnsentTable;
use crate::postgres::cells::SqlParameter;

impl BulkRows for PostgresRows<'_> {
    fn read(&self, wanted: &[RowsWanted<'_>]) -> Result<Vec<RowsRead>, StoreError> {
        self.read_all(wanted)
    }

    fn send(&self, unsent: &[UnsentTable]) -> Result<(), StoreError> {
        let mut calls = Vec::new();
        for table in unsent {
            calls.extend(calls_of(table, &self.keys.values)?);
        }
        self.session.burst(&calls).map(drop)
    }

    fn save(&self) -> Result<(), StoreError> {
        // An erasure takes rows out of the records of the batches before, and their answers.
        let mut calls = self.records.borrow_mut().take_earlier();
        calls.extend(self.requests.borrow_mut().take_earlier());
        calls.push(SqlCall::plain("SAVEPOINT part"));
        self.session.burst(&calls).map(drop)
    }

    fn settle(&self, keeps: bool) -> Result<(), StoreError> {
        if keeps {
            self.session.simple("RELEASE part")
        } else {
            self.session.take_back("part")
        }
    }

    fn link_holders_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (each_max, all_max): (usize, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError> {
        let sql = format!(
            "SELECT w.id, h.id FROM unnest($1::text[]) AS w(id) CROSS JOIN LATERAL \
             (SELECT t.id FROM {} t WHERE {} LIMIT $2) h LIMIT $3",
            names::now(table.number),
            holds_link(table, column, "w.id")
        );
        let count = |count_max: usize| i64::try_from(count_max).unwrap_or(i64::MAX);
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let all: Vec<SqlParameter> = vec![
            Box::new(ids),
            Box::new(count(each_max)),
            Box::new(count(all_max)),
        ];
        self.holders(SqlCall::new(sql, all))
    }

    fn holders_to_come_of(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (after, all_max): (Mark, usize),
    ) -> Result<Vec<(String, RowId)>, StoreError> {
        // Links are compared one by one, so that the server may look each up among the ids.
        let definition = &table.columns[column];
        let name = names::column(definition.number);
        let (links, link) = if definition.array {
            let links = format!("CROSS JOIN LATERAL unnest(t.{name}) AS l(id)");
            (links, "l.id".to_owned())
        } else {
            (String::new(), format!("t.{name}"))
        };
        let sql = format!(
            "SELECT DISTINCT w.id, t.id FROM {schedule} s JOIN {versions} t ON t.id = s.id \
             AND t.st = {END} AND t.twin = 0 AND t.vf > $2 {links} \
             JOIN unnest($1::text[]) AS w(id) ON w.id = {link} LIMIT $3",
            schedule = names::schedule(table.number),
            versions = names::versions(table.number),
        );
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let all_max = i64::try_from(all_max).unwrap_or(i64::MAX);
        let all: Vec<SqlParameter> = vec![Box::new(ids), Box::new(after.0), Box::new(all_max)];
        self.holders(SqlCall::new(sql, all))
    }

    fn value_bytes(&self, table: &Table, values: &[Value], left: &Damaged) -> usize {
        bytes_of_values(table, values, left)
    }
}

impl PostgresRows<'_> {
    /// Rows that hold links, each behind the one that its link leads to.
    fn holders(&self, call: SqlCall) -> Result<Vec<(String, RowId)>, StoreError> {
        let found = self.session.patiently(|| self.session.call(call))?;
        let holder = |row: &Row| Ok((row.try_get(0)?, row_id(row.try_get(1)?)?));
        found.iter().map(holder).collect()
    }
}
