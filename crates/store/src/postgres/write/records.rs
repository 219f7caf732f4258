//! The records of a group's commits, until they are sent.

use model::{Mark, RowId, TableNumber, Timestamp};

use super::array_lists::ArrayLists;
use super::group_stamp::GroupStamp;
use super::session::SqlCall;
use crate::laws::growth::Growth;
use crate::laws::state::State;
use crate::postgres::cells::SqlParameter;
use crate::schema_record::SchemaRecord;

/// The record of one commit.
pub(super) struct RecordToSend {
    pub(super) mark: Mark,
    pub(super) number: i64,
    pub(super) previous: Mark,
    pub(super) author: Option<String>,
    pub(super) meta: Option<String>,
    pub(super) erased: Option<i64>,
    pub(super) noted_in: Option<i64>,
    pub(super) rows: Vec<(TableNumber, RowId)>,
    /// How it changed databases, each by [`model::Database::seq`].
    pub(super) schema: Vec<(i64, SchemaRecord)>,
}

/// Those of the batches that are done, and of the one that runs, which were not sent.
#[derive(Default)]
pub(crate) struct UnsentRecords {
    all: Vec<RecordToSend>,
    /// How many of them are of earlier batches.
    earlier: usize,
}

impl UnsentRecords {
    pub(super) fn add(&mut self, record: RecordToSend) {
        self.all.push(record);
    }

    /// A batch begins.
    pub(super) fn begin(&mut self) {
        self.earlier = self.all.len();
    }

    /// The batch is refused.
    pub(super) fn drop_own(&mut self) {
        self.all.truncate(self.earlier);
    }

    /// The statements that write those of earlier batches.
    pub(super) fn take_earlier(&mut self) -> Vec<SqlCall> {
        let own = self.all.split_off(self.earlier);
        self.earlier = 0;
        calls_of(&std::mem::replace(&mut self.all, own))
    }

    /// The statements that write them.
    pub(super) fn take_all(&mut self) -> Vec<SqlCall> {
        calls_of(&std::mem::take(&mut self.all))
    }
}

fn calls_of(records: &[RecordToSend]) -> Vec<SqlCall> {
    if records.is_empty() {
        return Vec::new();
    }
    let mut calls = vec![commits(records)];
    let row = |record: &RecordToSend| {
        let mark = record.mark;
        let rows = record.rows.iter();
        rows.map(move |(table, id)| (mark.0, table.0, id.to_string()))
            .collect::<Vec<_>>()
    };
    let rows: Vec<(i64, i64, String)> = records.iter().flat_map(row).collect();
    if !rows.is_empty() {
        let mut lists = ArrayLists::default();
        lists.numbers("tt", rows.iter().map(|row| row.0));
        lists.numbers("tab", rows.iter().map(|row| row.1));
        lists.texts("id", rows.into_iter().map(|row| row.2));
        let sql = format!(
            "INSERT INTO tx_row ({}) SELECT * FROM {}",
            lists.names(),
            lists.rows()
        );
        calls.push(SqlCall::new(sql, lists.into_parameters()));
    }
    calls.extend(schema(records));
    calls
}

/// What was noted of databases.
fn schema(records: &[RecordToSend]) -> Option<SqlCall> {
    let of_record = |record: &'_ RecordToSend| {
        let numbered = (0..).zip(record.schema.clone());
        let mark = record.mark;
        numbered.map(move |(nth, (database, noted))| (mark, nth, database, noted))
    };
    let all: Vec<(Mark, i64, i64, SchemaRecord)> = records.iter().flat_map(of_record).collect();
    if all.is_empty() {
        return None;
    }
    let mut lists = ArrayLists::default();
    lists.numbers("tt", all.iter().map(|one| one.0.0));
    lists.numbers("n", all.iter().map(|one| one.1));
    lists.numbers("database", all.iter().map(|one| one.2));
    lists.maybe_texts("tab", all.iter().map(|one| one.3.table.clone()));
    lists.texts("act", all.iter().map(|one| one.3.act.as_str().to_owned()));
    lists.maybe_texts("key", all.iter().map(|one| one.3.key.clone()));
    let sql = format!(
        "INSERT INTO tx_schema ({}) SELECT * FROM {}",
        lists.names(),
        lists.rows()
    );
    Some(SqlCall::new(sql, lists.into_parameters()))
}

fn commits(records: &[RecordToSend]) -> SqlCall {
    let all = || records.iter();
    let mut lists = ArrayLists::default();
    lists.numbers("tt", all().map(|record| record.mark.0));
    lists.numbers("n", all().map(|record| record.number));
    lists.numbers("prev", all().map(|record| record.previous.0));
    lists.maybe_texts("meta", all().map(|record| record.meta.clone()));
    lists.maybe_texts("\"user\"", all().map(|record| record.author.clone()));
    lists.maybe_numbers("erased", all().map(|record| record.erased));
    lists.maybe_numbers("noted_in", all().map(|record| record.noted_in));
    let sql = format!(
        "INSERT INTO tx ({}) SELECT * FROM {}",
        lists.names(),
        lists.rows()
    );
    SqlCall::new(sql, lists.into_parameters())
}

/// Stamps snapshots from this transaction on, which is that of the group; `shown` is the last
/// instant of which rows are shown that became due.
pub(super) fn stamp(state: &State, shown: Timestamp, group: &GroupStamp) -> SqlCall {
    let all: Vec<SqlParameter> = vec![
        Box::new(state.mark.0),
        Box::new(state.horizon.0),
        Box::new(state.catalogue.epoch as i64),
        Box::new(state.next_table),
        Box::new(state.next_database),
        Box::new(shown.0),
        Box::new(group.number),
        Box::new(group.name.clone()),
    ];
    let sql = "UPDATE meta SET mark = $1, x_at = greatest(x_at, $1, $6), horizon = $2, \
               catalogue_epoch = $3, next_table = $4, next_database = $5, groups = $7, \
               last_group = $8";
    SqlCall::new(sql, all)
}

/// Writes the counters of tables.
pub(super) fn growth(growth: &Growth) -> Option<SqlCall> {
    let grown: Vec<_> = growth.settled().filter(|(_, bytes)| *bytes != 0).collect();
    if grown.is_empty() {
        return None;
    }
    let mut lists = ArrayLists::default();
    lists.numbers("tab", grown.iter().map(|(table, _)| table.0));
    lists.numbers("bytes", grown.iter().map(|(_, bytes)| *bytes));
    let sql = format!(
        "UPDATE table_bytes AS t SET bytes = t.bytes + u.bytes FROM {} WHERE t.tab = u.tab",
        lists.rows()
    );
    Some(SqlCall::new(sql, lists.into_parameters()))
}
