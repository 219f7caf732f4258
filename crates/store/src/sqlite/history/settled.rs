//! What must hold of all entries together, before anything is derived of them.

use model::Table;
use query::names;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::building::HistoryBuild;
use super::fault::HistoryFault;
use crate::sqlite::schema::sizes;
use crate::sqlite::schema::tables::END;
use crate::stored::overlaps::BELIEVED_END;

/// Checks what the entries say together, and notes which rows are to be shown.
pub(super) fn settle(building: &mut HistoryBuild) -> Result<(), HistoryFault> {
    let connection = &building.connection;
    let sql = "SELECT x_at, coalesce((SELECT max(tt) FROM tx), 0) <= mark FROM meta";
    let (shown_at, are_below): (i64, bool) =
        connection.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !are_below {
        let why = "a commit is above the mark at which the store ends".to_owned();
        return Err(HistoryFault::Unfit(why));
    }
    for loading in building.tables.values() {
        let table = &loading.ever;
        need_one_belief(connection, table)?;
        let (versions, schedule) = (names::versions(table.number), names::schedule(table.number));
        // Due at the instant that the store shows: so all of it is brought in by what brings in
        // rows whose time has come.
        let sql = format!(
            "INSERT INTO {schedule} (id, at) SELECT id, ?1 FROM {versions} \
             WHERE st = {END} AND twin = 0 GROUP BY id HAVING max({BELIEVED_END}) > ?1"
        );
        connection.execute(&sql, [shown_at])?;
        let sql = format!(
            "UPDATE table_bytes SET bytes = \
             (SELECT coalesce(sum({}), 0) FROM {versions}) WHERE tab = ?1",
            sizes::of_all(connection, table.number)?
        );
        connection.execute(&sql, [table.number.0])?;
        // What lies below the line of its table may not be gone yet.
        connection.execute(
            "INSERT INTO upkeep (tab, task, seq) SELECT ?1, 'forget', 0 FROM table_ \
             WHERE number = ?1 AND st = ?2 AND kept_from > ?3",
            params![table.number.0, i64::MAX, i64::MIN],
        )?;
    }
    connection.execute_batch("COMMIT;")?;
    Ok(())
}

/// At one mark a row has one value at an instant, and always one `$sequence`, which no other has.
/// No version has a twin yet, so the indexes of versions give each order.
fn need_one_belief(connection: &Connection, table: &Table) -> Result<(), HistoryFault> {
    let versions = names::versions(table.number);
    let overlap = format!(
        "SELECT id FROM (SELECT id, vf, lag({BELIEVED_END}) OVER \
           (PARTITION BY id ORDER BY vf) AS before FROM {versions} \
           WHERE st = {END} AND twin = 0) \
         WHERE before > vf LIMIT 1"
    );
    let sequence = format!(
        "SELECT id FROM {versions} WHERE twin = 0 GROUP BY id HAVING min(seq) <> max(seq) LIMIT 1"
    );
    let shared = format!(
        "SELECT id FROM {versions} WHERE twin = 0 GROUP BY seq \
         HAVING min(id) <> max(id) LIMIT 1"
    );
    for (sql, why) in [
        (overlap, "has two values at one instant"),
        (sequence, "has two `$sequence`s"),
        (shared, "has the `$sequence` of another row"),
    ] {
        let found: Option<String> = connection
            .query_row(&sql, (), |row| row.get(0))
            .optional()?;
        if let Some(id) = found {
            return Err(HistoryFault::Unfit(format!(
                "row `{id}` of table `{}` {why}",
                table.id
            )));
        }
    }
    Ok(())
}
