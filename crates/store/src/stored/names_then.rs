//! By which names a table was known.

use model::{Column, Mark, Table, TableNumber};

use super::read::StoredRead;
use crate::stored_catalogue::{COLUMN, TABLE, column, table};

/// When the table was known as at the mark `$2`: of a time before it was made, when it was made.
const AT: &str = "(SELECT CASE WHEN min(sf) > $2 THEN min(sf) ELSE $2 END FROM table_ \
                  WHERE number = $1)";

/// A table as of a mark, without columns and indexes.
pub(crate) fn table_then(number: TableNumber, mark: Mark) -> StoredRead<Table> {
    StoredRead {
        sql: format!("SELECT {TABLE} FROM table_ WHERE number = $1 AND sf <= {AT} AND st > {AT}"),
        parameters: vec![number.0.into(), mark.0.into()],
        read: table,
    }
}

/// Its columns as of then.
pub(crate) fn columns_then(number: TableNumber, mark: Mark) -> StoredRead<Column> {
    StoredRead {
        sql: format!(
            "SELECT {COLUMN} FROM column_ \
             WHERE tab = $1 AND sf <= {AT} AND st > {AT} ORDER BY number"
        ),
        parameters: vec![number.0.into(), mark.0.into()],
        read: |row| Ok(column(row)?.1),
    }
}
