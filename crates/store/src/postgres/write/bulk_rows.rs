//! What a working set asks of PostgreSQL for many rows at once.

use model::{Table, Value};

use super::bulk_send::calls_of;
use super::rows::PostgresRows;
use super::session::SqlCall;
use super::user_values::bytes_of_values;
use crate::StoreError;
use crate::laws::bulk_rows::{BulkRows, RowsRead, RowsWanted};
use crate::laws::damaged::Damaged;
use crate::laws::unsent::UnsentTable;

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

    fn value_bytes(&self, table: &Table, values: &[Value], left: &Damaged) -> usize {
        bytes_of_values(table, values, left)
    }
}
