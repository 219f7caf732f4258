//! The statements that write rows of one table, as text.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use model::{Field, Table, TableNumber, Value};
use query::names::{self, LIFE};
use rusqlite::Connection;

use super::columns::column_list;
use super::sizes;
use super::tables::END;
use crate::StoreError;

/// Everything the writer says about rows of one table. Made once for each schema of a table:
/// the texts are the keys under which the prepared statements are kept.
pub(crate) struct RowSql {
    /// [`Table::schema_epoch`] of the schema they were made for.
    pub(crate) schema_epoch: u64,
    /// The row of now with this id: `?1` id → seq, rid, sf, created, updated, perms,
    /// vf, vt, columns.
    pub(crate) current: String,
    /// `?1` id → whether it is there now, its seq if it was known before, the highest seq.
    pub(crate) identity: String,
    /// Appends a piece valid and known from one mark on, whose twin will be the row of now:
    /// `?1` id, `?2` mark, `?3` seq, `?4` created, `?5` updated, `?6…` columns.
    pub(crate) append_piece: String,
    /// Ends the piece that is valid until further notice: `?1` rid, `?2` mark.
    pub(crate) cut_piece: String,
    /// Says that the row of now is no longer the piece's twin: `?1` rid.
    pub(crate) part_piece: String,
    /// Removes a piece that was never known: `?1` rid, `?2` the mark it began at. See
    /// [`sizes::remove`].
    pub(crate) drop_piece: String,
    /// `?1` seq, `?2` id, `?3` mark, `?4` created, `?5` updated, `?6` perms, `?7` body,
    /// `?8` body epoch, `?9` rid of the piece it is the twin of, `?10…` columns.
    pub(crate) insert_now: String,
    /// `?1` seq, `?2` perms, `?3` updated. The row is no twin from then on.
    pub(crate) update_permissions: String,
    /// `?1` seq.
    pub(crate) delete_now: String,
    /// The open grants, in the order in which they were given: `?1` seq → role, actions.
    pub(crate) open_grants: String,
    /// `?1` seq, `?2` role, `?3` actions, `?4` mark.
    pub(crate) add_grant: String,
    /// `?1` seq, `?2` mark.
    pub(crate) close_grants: String,
    /// Removes grants that were never known: `?1` seq, `?2` mark.
    pub(crate) drop_grants: String,
    /// Takes back what `close_grants` did: `?1` seq, `?2` mark.
    pub(crate) reopen_grants: String,
    /// Says that the row is created again at this mark: `?1` seq, `?2` mark.
    pub(crate) end_life: String,
    /// Takes that back: `?1` seq, `?2` mark.
    pub(crate) resume_life: String,
    /// When the row was last created again, if ever: `?1` seq → mark.
    pub(crate) reborn_at: String,
    /// The mark of the last change of the grants: `?1` seq → mark, if there was any.
    pub(crate) grants_from: String,
}

/// Most texts of updates that leave out columns, of one table.
const UPDATES_MAX: usize = 8;

/// Parameters before the columns of `append_piece`, and of `insert_now` and an update.
pub(crate) const PIECE_PARAMETERS: usize = 5;
pub(crate) const NOW_PARAMETERS: usize = 9;

impl RowSql {
    pub(crate) fn new(table: &Table) -> RowSql {
        let number = table.number;
        let (now, versions) = (names::now(number), names::versions(number));
        let grants = names::grants(number);
        let (list, columns) = (column_list(table), table.columns.len());
        RowSql {
            schema_epoch: table.schema_epoch,
            current: format!(
                "SELECT seq, rid, sf, created, updated, perms, vf, vt{list} FROM {now} \
                 WHERE id = ?1"
            ),
            identity: format!(
                "SELECT EXISTS (SELECT 1 FROM {now} WHERE id = ?1), \
                 (SELECT seq FROM {versions} WHERE id = ?1 AND twin = 0 LIMIT 1), \
                 max(coalesce((SELECT max(seq) FROM {now}), 0), \
                 coalesce((SELECT max(seq) FROM {versions} WHERE twin = 0), 0))"
            ),
            append_piece: format!(
                "INSERT INTO {versions} \
                 (id, vf, sf, origin, seq, created, updated, twin{list}) \
                 VALUES (?1, ?2, ?2, ?2, ?3, ?4, ?5, 1{})",
                parameters(PIECE_PARAMETERS, columns)
            ),
            cut_piece: format!(
                "UPDATE {versions} SET cut_tt = ?2, cut_vt = ?2, twin = 0 \
                 WHERE rid = ?1 AND st = {END} AND cut_tt = {END}"
            ),
            part_piece: format!("UPDATE {versions} SET twin = 0 WHERE rid = ?1"),
            drop_piece: drop_piece(table),
            insert_now: format!(
                "INSERT INTO {now} \
                 (seq, id, vf, sf, origin, created, updated, perms, body, body_epoch, rid, \
                 twin{list}) \
                 VALUES (?1, ?2, ?3, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1{})",
                parameters(NOW_PARAMETERS, columns)
            ),
            update_permissions: format!(
                "UPDATE {now} SET perms = ?2, updated = ?3, twin = 0 WHERE seq = ?1"
            ),
            delete_now: format!("DELETE FROM {now} WHERE seq = ?1"),
            open_grants: format!(
                "SELECT role, actions FROM {grants} WHERE seq = ?1 AND st = {END} ORDER BY rowid"
            ),
            add_grant: format!(
                "INSERT INTO {grants} (seq, role, actions, sf) VALUES (?1, ?2, ?3, ?4)"
            ),
            close_grants: format!("UPDATE {grants} SET st = ?2 WHERE seq = ?1 AND st = {END}"),
            drop_grants: format!("DELETE FROM {grants} WHERE seq = ?1 AND st = {END} AND sf = ?2"),
            reopen_grants: format!(
                "UPDATE {grants} SET st = {END} WHERE seq = ?1 AND st = ?2 AND role <> '{LIFE}'"
            ),
            end_life: format!(
                "INSERT INTO {grants} (seq, role, actions, sf, st) VALUES (?1, '{LIFE}', 0, ?2, ?2)"
            ),
            resume_life: format!(
                "DELETE FROM {grants} WHERE seq = ?1 AND st = ?2 AND role = '{LIFE}'"
            ),
            reborn_at: format!("SELECT max(st) FROM {grants} WHERE seq = ?1 AND role = '{LIFE}'"),
            grants_from: format!(
                "SELECT max(max(sf, CASE st WHEN {END} THEN sf ELSE st END)) FROM {grants} \
                 WHERE seq = ?1"
            ),
        }
    }
}

/// Columns, by their positions, that an update of a row need not set: those of indexes whose values
/// stay. SQLite writes an entry of each index again that has a column which is set, whether or
/// not its value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnchangedColumns(u64);

impl UnchangedColumns {
    pub(crate) const NONE: UnchangedColumns = UnchangedColumns(0);

    /// `stored` are the values that stand there, where they are known.
    pub(crate) fn of(
        table: &Table,
        stored: Option<&[Value]>,
        values: &[Value],
    ) -> UnchangedColumns {
        let Some(stored) = stored else {
            return UnchangedColumns::NONE;
        };
        let parts = table.indexes.iter().flat_map(|index| &index.columns);
        let of_indexes = parts.filter_map(|part| match part.field {
            Field::Column(position) => Some(position),
            _ => None,
        });
        let of_links = table.relations().map(|(position, _)| position);
        let stays = |position: &usize| {
            *position < u64::BITS as usize && stored[*position] == values[*position]
        };
        let positions = of_indexes.chain(of_links).filter(stays);
        UnchangedColumns(positions.fold(0, |all, position| all | 1 << position))
    }

    pub(crate) fn has(self, position: usize) -> bool {
        position < u64::BITS as usize && self.0 & 1 << position != 0
    }
}

/// The statement texts of each table written to so far.
#[derive(Default)]
pub(crate) struct RowTexts {
    rows: RefCell<HashMap<TableNumber, Arc<RowSql>>>,
    updates: RefCell<HashMap<TableNumber, UpdateTexts>>,
    /// By the epoch of the schema: what a version of the table counts.
    bytes: RefCell<HashMap<TableNumber, (u64, Arc<str>)>>,
}

/// Texts that give a row of now other values, of one schema of a table.
#[derive(Default)]
struct UpdateTexts {
    schema_epoch: u64,
    texts: HashMap<UnchangedColumns, Arc<str>>,
}

impl RowTexts {
    /// The statement that gives a row of now other values, and what it does not set: no more than
    /// `may_lack`, and nothing where there are many texts already. The parameters are those of
    /// `insert_now`; it has no use for the id.
    pub(crate) fn update_now(
        &self,
        table: &Table,
        may_lack: UnchangedColumns,
    ) -> (Arc<str>, UnchangedColumns) {
        let mut updates = self.updates.borrow_mut();
        let known = updates.entry(table.number).or_default();
        if known.schema_epoch != table.schema_epoch {
            known.schema_epoch = table.schema_epoch;
            known.texts.clear();
        }
        let is_full = known.texts.len() >= UPDATES_MAX;
        let left_out = if is_full && !known.texts.contains_key(&may_lack) {
            UnchangedColumns::NONE
        } else {
            may_lack
        };
        let make = || update_now(table, left_out).into();
        let text = known.texts.entry(left_out).or_insert_with(make);
        (Arc::clone(text), left_out)
    }

    pub(crate) fn of(&self, table: &Table) -> Arc<RowSql> {
        let mut rows = self.rows.borrow_mut();
        let texts = rows
            .entry(table.number)
            .or_insert_with(|| Arc::new(RowSql::new(table)));
        if texts.schema_epoch != table.schema_epoch {
            *texts = Arc::new(RowSql::new(table));
        }
        Arc::clone(texts)
    }

    pub(crate) fn forget(&self, number: TableNumber) {
        self.rows.borrow_mut().remove(&number);
        self.updates.borrow_mut().remove(&number);
        self.bytes.borrow_mut().remove(&number);
    }

    /// [`sizes::of_all`], made once for each schema of the table.
    pub(crate) fn bytes_of_all(
        &self,
        connection: &Connection,
        table: &Table,
    ) -> Result<Arc<str>, StoreError> {
        let (number, epoch) = (table.number, table.schema_epoch);
        if let Some((known, text)) = self.bytes.borrow().get(&number)
            && *known == epoch
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = sizes::of_all(connection, number)?.into();
        let mut known = self.bytes.borrow_mut();
        known.insert(number, (epoch, Arc::clone(&text)));
        Ok(text)
    }
}

fn drop_piece(table: &Table) -> String {
    let versions = names::versions(table.number);
    let returning = sizes::returning(&sizes::of_schema(table));
    format!("DELETE FROM {versions} WHERE rid = ?1 AND sf = ?2 AND st = {END}{returning}")
}

/// As many parameters, each after a comma, numbered on from those before.
fn parameters(before: usize, count: usize) -> String {
    let numbers = before + 1..=before + count;
    numbers
        .flat_map(|number| [", ?".to_owned(), number.to_string()])
        .collect()
}

fn update_now(table: &Table, left_out: UnchangedColumns) -> String {
    let columns = table.columns.iter().enumerate();
    let set: Vec<String> = columns
        .filter(|(position, _)| !left_out.has(*position))
        .map(|(position, column)| {
            let number = NOW_PARAMETERS + 1 + position;
            format!(", {} = ?{number}", names::column(column.number))
        })
        .collect();
    let set = set.concat();
    format!(
        "UPDATE {} SET vf = ?3, sf = ?3, origin = ?3, created = ?4, updated = ?5, \
         perms = ?6, body = ?7, body_epoch = ?8, rid = ?9, twin = 1{set} \
         WHERE seq = ?1 AND id = ?2",
        names::now(table.number)
    )
}

#[cfg(test)]
mod tests {
    use model::{
        ColumnKind, Direction, Index, IndexColumn, IndexKey, IndexKind, IndexStatus, Timestamp,
    };
    use testing::{plain_column, plain_table};

    use super::*;
    use crate::sqlite::schema::tables::create_table;

    /// Of the columns `a` and `b`, of which the first one has an index.
    fn table() -> Table {
        let column = |number, key| plain_column(number, key, ColumnKind::Text);
        let index = Index {
            number: 1,
            key: IndexKey::new("i").unwrap(),
            kind: IndexKind::Key,
            columns: vec![IndexColumn {
                field: Field::Column(0),
                direction: Direction::Asc,
                length: None,
                held: None,
            }],
            status: IndexStatus::Available,
            created: Timestamp(0),
            updated: Timestamp(0),
        };
        Table {
            indexes: vec![index],
            ..plain_table("t", vec![column(1, "a"), column(2, "b")])
        }
    }

    /// How many entries of indexes a row's update makes that has these values in place of those.
    fn entries_made(stored: Option<[&str; 2]>, values: [&str; 2]) -> usize {
        let texts = |of: [&str; 2]| of.map(|text| Value::Text(text.to_owned()));
        let stored = stored.map(texts);
        let table = table();
        let may_lack =
            UnchangedColumns::of(&table, stored.as_ref().map(|all| &all[..]), &texts(values));
        let (sql, _) = RowTexts::default().update_now(&table, may_lack);
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&create_table(&table)).unwrap();
        let mut steps = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let opcodes = steps
            .raw_query()
            .mapped(|row| row.get::<_, String>("opcode"));
        opcodes
            .filter(|opcode| opcode.as_ref().unwrap() == "IdxInsert")
            .count()
    }

    #[test]
    fn an_index_is_written_by_an_update_only_where_a_value_of_it_changes() {
        assert_eq!(entries_made(Some(["x", "y"]), ["x", "z"]), 0);
        assert_eq!(entries_made(Some(["x", "y"]), ["w", "y"]), 1);
        assert_eq!(
            entries_made(None, ["x", "y"]),
            1,
            "what stands there is not known"
        );
    }

    #[test]
    fn an_update_leaves_out_nothing_once_there_are_many_texts() {
        let (texts, table) = (RowTexts::default(), table());
        let lacks = |mask| texts.update_now(&table, UnchangedColumns(mask)).1.0;
        let kept: Vec<u64> = (1..=UPDATES_MAX as u64).map(lacks).collect();
        assert_eq!(kept, (1..=UPDATES_MAX as u64).collect::<Vec<_>>());
        assert_eq!((lacks(100), lacks(1)), (0, 1));
    }
}
