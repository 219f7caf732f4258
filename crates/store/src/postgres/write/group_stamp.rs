//! Which group of batches was committed last. A mark does not tell: a group that takes none has no
//! other trace, and the database's own number of a transaction is given again after a promotion
//! that lost it.

use tokio_postgres::{Client, Row};

use crate::StoreError;

/// Its columns in `meta`.
pub(super) const COLUMNS: &str = "groups, last_group";

/// A group that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct GroupStamp {
    /// How many there were with it.
    pub(super) number: i64,
    /// No other group has it, of whatever process, on whatever timeline.
    pub(super) name: String,
}

impl GroupStamp {
    /// That of the last commit.
    pub(super) async fn of(client: &Client) -> Result<GroupStamp, StoreError> {
        let found = client
            .query_one(&format!("SELECT {COLUMNS} FROM meta"), &[])
            .await?;
        GroupStamp::read(&found, 0)
    }

    /// From [`COLUMNS`], of which this is the first one.
    pub(super) fn read(row: &Row, first: usize) -> Result<GroupStamp, StoreError> {
        Ok(GroupStamp {
            number: row.try_get(first)?,
            name: row.try_get(first + 1)?,
        })
    }

    /// The group of this name, which follows it.
    pub(super) fn followed_by(&self, name: String) -> GroupStamp {
        let number = self.number + 1;
        GroupStamp { number, name }
    }
}
