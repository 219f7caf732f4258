//! By which names a table was known.

use std::sync::Arc;

use model::{Mark, Table};

use super::lending::LentConnection;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::history_line;
use crate::stored_catalogue::{COLUMN, TABLE, column, table};

/// What [`crate::StoreReads::table_as_of`] is called for.
pub(super) struct TableThen {
    pub(super) today: Arc<Table>,
    pub(super) mark: Mark,
}

impl DatabaseRead for TableThen {
    type Answer = Arc<Table>;

    fn may_be_short(&self) -> bool {
        true
    }

    /// No transaction is needed: what was so at a settled mark no commit changes.
    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Arc<Table>> {
        Box::pin(async move {
            let (number, mark) = (self.today.number.0, self.mark.0);
            // Of a time before it was made it is as it was made.
            let at = "greatest($2::bigint, (SELECT min(sf) FROM table_ WHERE number = $1::bigint))";
            let of_table = format!(
                "SELECT {TABLE} FROM table_ \
                 WHERE number = $1::bigint AND sf <= {at} AND st > {at}"
            );
            let of_columns = format!(
                "SELECT {COLUMN} FROM column_ \
                 WHERE tab = $1::bigint AND sf <= {at} AND st > {at} ORDER BY number"
            );
            let (client, kept) = lent.parts();
            let of_table = kept.keep(client, &of_table).await?;
            let of_columns = kept.keep(client, &of_columns).await?;
            lent.begin();
            let client = &*lent.client();
            let then = client.query_opt(&of_table, &[&number, &mark]).await?;
            let columns = client.query(&of_columns, &[&number, &mark]).await?;
            lent.end();
            let Some(then) = then else {
                return Ok(Arc::clone(&self.today));
            };
            let mut then = table(&then)?;
            for row in &columns {
                then.columns.push(column(row)?.1);
            }
            Ok(history_line::table_then(&self.today, then))
        })
    }
}
