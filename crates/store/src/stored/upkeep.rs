//! What is left to do between commits, as it is stored. How far indexes of words are filled stands
//! in the same table.

use model::TableNumber;

use super::read::StoredRead;
use super::row::{int, string};

/// A task that is left, and behind which row it goes on.
pub(crate) struct TaskLeft {
    pub(crate) table: TableNumber,
    pub(crate) task: String,
    pub(crate) from: i64,
}

/// The next one, if any is left.
pub(crate) fn next_task() -> StoredRead<TaskLeft> {
    StoredRead {
        sql: "SELECT tab, task, seq FROM upkeep WHERE substr(task, 1, 5) <> 'words' \
              ORDER BY tab, task LIMIT 1"
            .to_owned(),
        parameters: Vec::new(),
        read: |row| {
            Ok(TaskLeft {
                table: TableNumber(int(row, 0)?),
                task: string(row, 1)?,
                from: int(row, 2)?,
            })
        },
    }
}
