//! The format on disk, and the way to it from each earlier one.

use rusqlite::{Connection, TransactionBehavior};

use super::format_steps::{
    ANSWER_BYTES, BEGINNINGS, DEPLOYMENTS, ENCRYPTION, ERASURES, EVENTS_APART, EXECUTIONS,
    EXECUTIONS_OLD, FUNCTIONS, GREATEST_AGE, NOTED, OPTIONS, OVER_TIME, QUEUE, REQUEST_ANSWERS,
    ROW_EVENTS, SCHEDULES, SCHEMA_RECORDS, STAGED_TABLES, SYSTEM_TABLES, TABLE_BYTES,
    WHO_LOOKS_BACK,
};
use crate::StoreError;
use crate::error::corrupt;
use crate::sqlite::disk::file_format::{APPLICATION_ID, pragma};

/// What leads from each format to the next; the first one starts from an empty file. Steps are
/// never edited once released: files out there were made by them.
const MIGRATIONS: &[&str] = &[
    SYSTEM_TABLES,
    STAGED_TABLES,
    OVER_TIME,
    NOTED,
    OPTIONS,
    REQUEST_ANSWERS,
    WHO_LOOKS_BACK,
    ENCRYPTION,
    GREATEST_AGE,
    ANSWER_BYTES,
    BEGINNINGS,
    TABLE_BYTES,
    SCHEMA_RECORDS,
    ERASURES,
    FUNCTIONS,
    DEPLOYMENTS,
    EXECUTIONS,
    QUEUE,
    SCHEDULES,
    ROW_EVENTS,
    EVENTS_APART,
    EXECUTIONS_OLD,
];

/// The format this binary writes.
pub(crate) const FORMAT: i64 = MIGRATIONS.len() as i64;

/// Refuses a file that this binary must not touch. Changes nothing.
///
/// # Errors
/// [`StoreError::Format`] when a newer Tidemark wrote it, [`StoreError::Corrupt`] when it is
/// another program's database, or none.
pub(crate) fn check(connection: &Connection) -> Result<(), StoreError> {
    let application = pragma(connection, "application_id")?;
    let found = pragma(connection, "user_version")?;
    let is_empty = pragma(connection, "schema_version")? == 0;
    if application != APPLICATION_ID && !(is_empty && application == 0 && found == 0) {
        return Err(corrupt("the file was written by another program"));
    }
    if found > FORMAT {
        return Err(StoreError::Format {
            found,
            newest: FORMAT,
        });
    }
    Ok(())
}

/// Brings the file to today's format, in one transaction: after a crash it has the old format
/// or the new one.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found = pragma(connection, "user_version")?;
    let steps = &MIGRATIONS[usize::try_from(found).map_err(|_| corrupt("negative format"))?..];
    if steps.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
    ))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_gets_todays_format_and_keeps_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        check(&connection).unwrap();
        migrate(&mut connection).unwrap();
        let lineage = |connection: &Connection| -> String {
            let sql = "SELECT lineage FROM meta";
            connection.query_row(sql, (), |row| row.get(0)).unwrap()
        };
        let first = lineage(&connection);
        assert_eq!(first.len(), 32, "{first}");
        check(&connection).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(lineage(&connection), first);
    }

    #[test]
    fn each_older_format_becomes_todays() {
        let made = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name";
            let mut statement = connection.prepare(sql).unwrap();
            let made = statement.query_map((), |row| row.get(0)).unwrap();
            made.collect::<Result<_, _>>().unwrap()
        };
        let mut today = Connection::open_in_memory().unwrap();
        migrate(&mut today).unwrap();
        for format in 1..FORMAT {
            let mut older = Connection::open_in_memory().unwrap();
            let steps = &MIGRATIONS[..format as usize];
            older.execute_batch(&steps.concat()).unwrap();
            let stamp = format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {format};"
            );
            older.execute_batch(&stamp).unwrap();
            check(&older).unwrap();
            migrate(&mut older).unwrap();
            assert_eq!(made(&older), made(&today), "from format {format}");
        }
    }

    #[test]
    fn a_newer_format_and_another_programs_file_are_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let newer = FORMAT + 1;
        connection
            .execute_batch(&format!("PRAGMA user_version = {newer}"))
            .unwrap();
        assert_eq!(
            check(&connection),
            Err(StoreError::Format {
                found: newer,
                newest: FORMAT
            })
        );
        let foreign = Connection::open_in_memory().unwrap();
        foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(check(&foreign), Err(StoreError::Corrupt { .. })));
    }
}
